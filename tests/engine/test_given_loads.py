"""A function that trains the model which it is given, called with models that were loaded in several places."""

import pytest

from .porting import port

SCRIPT = """\
import sys
import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

rows = load_dataset("x/y", split="train")


def train(model, rank):
    model = get_peft_model(model, LoraConfig(r=rank, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    args = SFTConfig(f"out{{rank}}", max_steps=4, report_to="none")
    trainer = SFTTrainer(model, args=args, train_dataset=rows)
    trainer.train()
    return model


first = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16)
train(first, 4)
for rank in (8, 16):
    base = {loaded}
    train(model=base, rank=rank).save_pretrained(f"tuned{{rank}}")
"""
AGAIN = 'AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16)'


def test_each_load_is_the_ports() -> None:
    found = port(SCRIPT.format(loaded=AGAIN))
    assert found.status == "ported", found.findings
    load = 'rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)'
    assert f"\nfirst = {load}\n" in found.after and f"\n    base = {load}\n" in found.after
    assert "model = rt.apply_lora(model, " in found.after and "torch" not in found.after


def test_each_is_loaded_as_it_says() -> None:
    given = "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4')"
    text = SCRIPT.format(loaded=AGAIN.replace(")", f", quantization_config={given})"))
    found = port(text.replace("AutoModelForCausalLM\n", "AutoModelForCausalLM, BitsAndBytesConfig\n", 1))
    assert found.status == "ported", found.findings
    assert 'first = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)\n' in found.after
    assert '    base = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16, quantization="nf4")\n' in found.after


@pytest.mark.parametrize("loaded", ["made(rank)", "torch.load('whole.pt')", "None if sys.argv else first"])
def test_a_call_that_gives_something_else_leaves_it_to_a_person(loaded: str) -> None:
    found = port(SCRIPT.format(loaded=loaded))
    assert found.status == "partial" and any("where this model comes from" in each.message for each in found.findings)


def test_a_function_that_calls_itself_is_not_followed() -> None:
    again = "    return model\n\n\nfirst"
    text = SCRIPT.format(loaded=AGAIN).replace(again, f"    train(model, 2)\n{again}")
    assert port(text).status == "partial"
