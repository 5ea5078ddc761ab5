"""TP216: what is done with the model that merge_and_unload gives, beside saving it."""

from __future__ import annotations

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options, Port
from porter.source.parsing import parse_module

SCRIPT = """\
import torch
from datasets import load_dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

device = "cuda" if torch.cuda.is_available() else "cpu"
rows = load_dataset("me/rows", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, peft_config=LoraConfig(r=8))
trainer.train()
"""
MERGED = "merged = trainer.model.merge_and_unload()\n"
SAVED = 'merged.save_pretrained("merged")\n'


def ported(behind: str) -> Port:
    return port_module(parse_module((SCRIPT + behind).encode(), "train.py"), Options(processes=1))


def behind(port: Port) -> str:
    return port.after.partition("    trainer.train(batches)\n")[2]


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("merged = merged.to(torch.float16)\n", "merged = merged.to(jnp.float16)\n"),
        ("merged.to(dtype=torch.half)\n", "merged.to(dtype=jnp.float16)\n"),
        ('merged = merged.to("cuda", torch.bfloat16)\n', 'merged = merged.to("cuda", jnp.bfloat16)\n'),
        ("merged.half()\n", "merged.half()\n"),
        ("cuda_dtype = torch.float16\nmerged.to(cuda_dtype)\n", "merged.to(jnp.float16)\n"),
        ("final = merged.eval()\nfinal.half()\n", "final = merged\nfinal.half()\n"),
        ("merged = merged.float()\n", "merged = merged.float()\n"),
        ("merged.eval()\nmerged = merged.cpu()\nmerged.to(device)\nmerged.cuda()\n", ""),
        ("merged.config.use_cache = True\n", ""),
        ("print(merged.config.hidden_size)\n", "print(merged.config.hidden_size)\n"),
        ("print(next(merged.parameters()).dtype)\n", "print(merged.dtype)\n"),
        ("print(f'in {next(merged.parameters()).dtype}')\n", "print(f'in {merged.dtype}')\n"),
    ],
)
def test_a_merged_model_is_saved_in_the_type_that_it_is_given(written: str, becomes: str) -> None:
    found = ported(MERGED + written + SAVED)
    assert (behind(found), found.status) == (f"merged = rt.merge_and_unload(model)\n{becomes}{SAVED}", "ported")
    assert "torch" not in found.after


def test_methods_in_one_line_and_in_a_function() -> None:
    line = 'trainer.model.merge_and_unload().to(torch.float16).cpu().eval().save_pretrained("merged")\n'
    assert behind(ported(line)) == 'rt.merge_and_unload(model).to(jnp.float16).save_pretrained("merged")\n'
    function = "def save(whole):\n    whole.eval()\n    whole.half()\n    whole.save_pretrained('merged')\n"
    found = ported(function + MERGED + "save(merged)\n")
    assert "def save(whole):\n    whole.half()\n" in found.after and found.status == "ported"


KEEP = "def keep(whole):\n    torch.save(whole.state_dict(), 'x.pt')\n    whole.eval()\n"


def test_a_function_that_is_given_other_models_too_is_left_and_said() -> None:
    load = "other = AutoModelForCausalLM.from_pretrained('x')\n"
    found = ported(f"{KEEP}{load}{MERGED}keep(other)\nkeep(merged)\n")
    said = [each.message for each in found.findings if each.severity == "error"]
    assert len(said) == 2 and said[0].startswith("whole.state_dict()") and said[1].startswith("whole.eval()")
    assert "    whole.eval()\n" in found.after
    assert ported(f"{KEEP}{load}{MERGED}keep(other)\n").status == "ported"


def test_a_name_that_held_another_model_before() -> None:
    load = "merged = AutoModelForCausalLM.from_pretrained('x')\nprint(merged.state_dict())\n"
    assert ported(load + MERGED + SAVED).status == "ported"


def test_what_is_merged_and_cast_generates() -> None:
    call = "ids = AutoTokenizer.from_pretrained('a')('b', return_tensors='pt')\nmerged.generate(**ids)\n"
    found = ported(MERGED + "merged = merged.half().eval()\n" + call)
    assert "merged = merged.half()\n" in found.after and "rt.generate(merged, **ids" in found.after
    assert found.status == "ported"


@pytest.mark.parametrize(
    "written",
    [
        "torch.save(merged.state_dict(), 'x.pt')\n",
        "sum(p.numel() for p in merged.parameters())\n",
        "merged.save_pretrained('merged', push_to_hub=True)\n",
        "merged.config.vocab_size = 7\n",
        "library_of_mine.evaluate(merged)\n",
        "trainer.model.merge_and_unload().half().state_dict()\n",
    ],
)
def test_what_a_merged_model_of_a_port_has_not_is_an_error(written: str) -> None:
    errors = [each.rule for each in ported(MERGED + written).findings if each.severity == "error"]
    assert errors == ["TP216"]
    assert [each.rule for each in ported(MERGED + SAVED).findings if each.severity == "error"] == []


@pytest.mark.parametrize("cast", [".half()", "", ".to(torch.float16)"])
def test_a_model_loaded_again_that_is_cast_and_saved_stays_torchs(cast: str) -> None:
    load = f"base = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B'){cast}\n"
    load += "merged = PeftModel.from_pretrained(base, 'out').merge_and_unload()\n"
    run = "ids = AutoTokenizer.from_pretrained('a')('b', return_tensors='pt')\nmerged.generate(**ids)\n"
    assert ("rt.load_model('Qwen/Qwen3-0.6B', mesh)\n" in behind(ported(load + SAVED + run))) == (not cast)
