"""Models that are loaded again to try them out: in a function of their own, and quantised."""

import pytest

from .porting import port

SCRIPT = """\
import torch
from datasets import load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

NAME = 'Qwen/Qwen3-0.6B'


def load():
    return AutoModelForCausalLM.from_pretrained(NAME, dtype='bfloat16'), AutoTokenizer.from_pretrained(NAME)


def train():
    model, tokenizer = load()
    rows = load_dataset('x', split='train')
    trainer = SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)
    trainer.train()
    trainer.save_model('out')


def ask(model, tokenizer, text):
    with torch.no_grad():
        return model.generate(**tokenizer(text, return_tensors='pt').to(model.device))


def test(adapter):
    half = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
    tokenizer = AutoTokenizer.from_pretrained(NAME)
    base = AutoModelForCausalLM.from_pretrained(NAME, GIVEN)
    tuned = PeftModel.from_pretrained(base, adapter)
    return ask(tuned, tokenizer, 'a')


train()
print(test('adapter'))
"""


@pytest.mark.parametrize(
    ("given", "loaded"),
    [
        ("dtype=torch.float16", ", dtype=jnp.bfloat16"),
        ("quantization_config=half, device_map='auto'", ", quantization=half"),
        ("load_in_8bit=True", ', quantization="int8"'),
        ("load_in_4bit=False", ""),
    ],
)
def test_a_model_of_a_function_that_tries_it_out(given: str, loaded: str) -> None:
    ported = port(SCRIPT.replace("GIVEN", given))
    assert ported.status == "ported", ported.findings
    assert f"    base = rt.load_model(NAME, mesh{loaded})\n" in ported.after
    assert "    tuned = rt.apply_adapter(base, adapter, mesh)\n" in ported.after
    assert "    with mesh:\n        return rt.generate(model, **tokenizer(text, return_tensors='np'))\n" in ported.after
    assert "import torch" not in ported.after and "from peft" not in ported.after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("GIVEN", "quantization_config=GPTQConfig(bits=4)"),
        ("GIVEN", "load_in_4bit=adapter"),
        ("    return ask(tuned, tokenizer, 'a')", "    return tuned"),
    ],
)
def test_what_isnt_known_stays_torch_s(old: str, new: str) -> None:
    ported = port(SCRIPT.replace(old, new).replace("GIVEN", ""))
    assert "base = AutoModelForCausalLM.from_pretrained(NAME, " in ported.after
    assert "model.generate(" in ported.after.replace("rt.generate(", "") and "rt.generate" not in ported.after
