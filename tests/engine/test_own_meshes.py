"""TP314 in a function that the trainer's mesh isn't known to: it makes its own."""

from __future__ import annotations

from .porting import port

SCRIPT = """\
import torch
from datasets import load_dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

NAME = "Qwen/Qwen3-0.6B"


def train(rows):
    model = AutoModelForCausalLM.from_pretrained(NAME)
    args = SFTConfig(output_dir="out")
    trainer = SFTTrainer(model, args=args, train_dataset=rows, peft_config=LoraConfig(r=8))
    trainer.train()
    trainer.save_model("out")


def ask(text):
    tokenizer = AutoTokenizer.from_pretrained("out")
    LOAD
    inputs = tokenizer(text, return_tensors="pt").to("cuda")
    with torch.no_grad():
        return model.generate(**inputs)


train(load_dataset("me/rows", split="train"))
print(ask("a"))
"""
MESH = 'mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)\n'
CONFIG = "quantization_config=BitsAndBytesConfig(load_in_4bit=True)"
BASE = f"base = AutoModelForCausalLM.from_pretrained(NAME, {CONFIG})\n    "
TWO = BASE + "model = PeftModel.from_pretrained(base, 'out')"


def test_a_function_makes_the_mesh_that_it_loads_with() -> None:
    found = port(SCRIPT.replace("LOAD", TWO))
    assert found.status == "ported", found.findings
    loads = "base = rt.load_model(NAME, mesh, quantization=BitsAndBytesConfig(load_in_4bit=True))\n"
    loads += "    model = rt.apply_adapter(base, 'out', mesh)\n"
    assert f"    {MESH}    {loads}" in found.after
    assert "    with mesh:\n        return rt.generate(model, **inputs)\n" in found.after
    assert found.after.count(MESH) == 2 and "import torch" not in found.after


def test_two_loads_of_a_function_share_it() -> None:
    second = (
        TWO + "\n    plain = AutoModelForCausalLM.from_pretrained(NAME)\n    print(plain.generate(**tokenizer('b')))"
    )
    found = port(SCRIPT.replace("LOAD", second))
    assert found.after.count(MESH) == 2 and found.after.count("rt.load_model(NAME, mesh") == 3


def test_a_load_by_condition_does_not_give_one_to_what_is_behind() -> None:
    maybe = "if text:\n        model = AutoModelForCausalLM.from_pretrained(NAME)\n        model.generate()\n    " + TWO
    found = port(SCRIPT.replace("LOAD", maybe))
    assert found.after.count(MESH) == 3


def test_a_line_of_its_own_stands_in_front_of_a_condition() -> None:
    load = "if text: model = AutoModelForCausalLM.from_pretrained(NAME)"
    after = port(SCRIPT.replace("LOAD", load)).after
    assert f"    {MESH}    if text: model = rt.load_model(NAME, mesh" in after


def test_a_mesh_of_the_file_does_for_all() -> None:
    load = "    model = AutoModelForCausalLM.from_pretrained(NAME)\n"
    text = SCRIPT.replace("LOAD", TWO).replace(load, "", 1)
    text = text.replace("def train(rows)", load.strip() + "\n\n\ndef train(rows)")
    assert port(text).after.count(MESH) == 1
