"""A function of the script that loads the model in one way or another, and is asked again behind the training."""

import pytest

from porter.port import Port

from .porting import port

SCRIPT = """\
import sys
import torch
from datasets import load_dataset
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen3-0.6B"


def load(name):
{body}

{made} = load(MODEL)
model = get_peft_model(model, LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
args = SFTConfig("out", max_steps=4, report_to="none")
trainer = SFTTrainer(model, args=args, train_dataset=load_dataset("x/y", split="train"))
trainer.train()
trainer.save_model("adapter")
{behind}
"""
ONCE = "    return AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)\n"
TRIED = """\
    try:
        return AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)
    except Exception:
        return AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
"""
PAIRS = """\
    tokenizer = AutoTokenizer.from_pretrained(name)
    if len(sys.argv) > 1:
        config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
        model = AutoModelForCausalLM.from_pretrained(name, quantization_config=config)
        return model, tokenizer
    return AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16), tokenizer
"""
OTHER = "    if len(sys.argv) > 1:\n        return open(name)\n" + ONCE


def ported(body: str, made: str = "model", behind: str = "") -> tuple[str, str]:
    found = port(SCRIPT.format(body=body, made=made, behind=behind))
    return found.status, found.after


@pytest.mark.parametrize(
    ("body", "made", "loads"),
    [
        (TRIED, "model", ["return rt.load_model(name, mesh, dtype=jnp.bfloat16)"] * 2),
        (
            PAIRS,
            "model, tokenizer",
            [
                'model = rt.load_model(name, mesh, dtype=jnp.bfloat16, quantization="nf4")',
                "return rt.load_model(name, mesh, dtype=jnp.bfloat16), tokenizer",
            ],
        ),
    ],
)
def test_every_return_loads_it(body: str, made: str, loads: list[str]) -> None:
    status, after = ported(body, made)
    assert status == "ported" and [line.strip() for line in after.splitlines() if "rt.load_model(" in line] == loads


def test_a_return_of_something_else_is_left_to_a_person() -> None:
    assert ported(OTHER)[0] == "partial"
    pair = f"    if not name:\n        return open(name)\n{PAIRS}"
    assert ported(pair, "model, tokenizer")[0] == "partial"


@pytest.mark.parametrize("body", [ONCE, TRIED])
def test_a_base_loaded_again_to_merge_the_saved_adapter(body: str) -> None:
    lines = "base = load(MODEL)\nmerged = PeftModel.from_pretrained(base, 'adapter')\n"
    status, after = ported(body, behind=f"{lines}merged = merged.merge_and_unload()\nmerged.save_pretrained('whole')")
    assert status == "ported" and "PeftModel" not in after
    tuned = "merged = rt.apply_adapter(base, 'adapter', mesh)\nmerged = rt.merge_and_unload(merged)\n"
    assert f"base = load(MODEL)\n{tuned}merged.save_pretrained('whole')\n" in after
    assert ported(body, behind=f"{lines}print(merged)")[0] == "partial"  # not merged: peft has no place in it


TRAINS = """\
def train(model):
    args = SFTConfig("out", max_steps=4, report_to="none")
    lora = LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM")
    trainer = SFTTrainer(model, args=args, train_dataset=load_dataset("x/y", split="train"), peft_config=lora)
    trainer.train()


def main():
    base = AutoModelForCausalLM.from_pretrained(MODEL)
    {lines}


main()
"""


def by_function(*lines: str) -> Port:
    return port(SCRIPT.partition("\n\ndef load")[0] + f"\n\n{TRAINS.format(lines=f'{chr(10)}    '.join(lines))}")


def test_an_adapter_is_merged_in_front_of_the_function_that_trains_on() -> None:
    found = by_function('base = PeftModel.from_pretrained(base, "old").merge_and_unload()', "train(base)")
    assert found.status == "ported" and '    base = rt.merge_adapter(base, "old", mesh)\n' in found.after


@pytest.mark.parametrize("merge", ["", "whole = whole"])
def test_adapters_that_a_function_puts_in_and_trains_are_not_known_where_it_is_called(merge: str) -> None:
    lines = [f'whole = PeftModel.from_pretrained(base, "out"){"" if merge else ".merge_and_unload()"}']
    lines += [f"{merge}.merge_and_unload()"] if merge else []
    found = by_function("train(base)", *lines, 'whole.save_pretrained("whole")')
    assert found.status == "partial"
    assert any("where the model that was trained is held isn't known" in each.message for each in found.findings)


AGAIN = "base = load(MODEL)\nmerged = PeftModel.from_pretrained(base, 'adapter'{more}).merge_and_unload()\n"
OTHERS = "def other():\n    return AutoModelForCausalLM.from_pretrained('b')\n\n"


def test_a_base_of_another_function_stays_torchs() -> None:
    status, after = ported(ONCE, behind=OTHERS + AGAIN.format(more="").replace("load(MODEL)", "other()"))
    assert status == "ported" and "merged = PeftModel.from_pretrained(base, 'adapter').merge_and_unload()\n" in after


def test_a_merge_that_says_more_is_left_to_a_person() -> None:
    status, after = ported(ONCE, behind=AGAIN.format(more=", config=args"))
    assert status == "partial" and "PeftModel.from_pretrained(base, 'adapter', config=args)" in after


def test_an_adapter_is_merged_into_what_the_function_loaded_for_the_training() -> None:
    merged = "base = PeftModel.from_pretrained(model, 'old').merge_and_unload()\nmodel = get_peft_model(base"
    found = port(SCRIPT.format(body=ONCE, made="model", behind="").replace("model = get_peft_model(model", merged))
    assert found.status == "ported" and "base = rt.merge_adapter(model, 'old', mesh)\n" in found.after


def test_adapters_of_a_folder_are_put_into_the_trained_model() -> None:
    text = SCRIPT.format(body=ONCE, made="model", behind="model = PeftModel.from_pretrained(model, 'best')\n")
    found = port(
        text.replace("model = get_peft_model", "tuned = get_peft_model").replace("SFTTrainer(model", "SFTTrainer(tuned")
    )
    assert found.status == "ported" and "model = rt.load_adapter(tuned, 'best')\n" in found.after
