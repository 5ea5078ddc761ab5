"""Functions that collect the names of all linear layers, and those around them."""

import pytest

from .porting import port

COLLECTS = """\
    names = set()
    for name, module in model.named_modules():
        if isinstance(module, bnb.nn.Linear4bit):
            names.add(name.split(".")[-1])
    names.discard("lm_head")
"""
HEAD = """\
import bitsandbytes as bnb
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

"""
TRAINS = """\
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
{names}    trainer = SFTTrainer(
        model,
        args=SFTConfig("out", report_to="none"),
        train_dataset=load_dataset("some/rows", split="train"),
        peft_config=LoraConfig(r=8, target_modules={targets}),
    )
    trainer.train()
    return trainer
"""


def indented(text: str) -> str:
    return "".join(f"    {line}" for line in text.splitlines(keepends=True))


def test_a_function_around_it_keeps_its_call() -> None:
    nested = f"    def find_all_linear_names(model):\n{indented(COLLECTS)}        return list(names)\n"
    body = TRAINS.format(names=nested, targets="find_all_linear_names(model)")
    found = port(f"{HEAD}def main(rank):\n{body}\nmain(8)\n")
    assert "main(8)\n" in found.after and "PeftTrainer(" in found.after
    assert 'targets="all-linear"' in found.after and "named_modules" not in found.after


def test_a_function_that_trains_as_well_keeps_its_call() -> None:
    body = TRAINS.format(names=COLLECTS, targets="list(names)")
    found = port(f"{HEAD}def main(rank):\n{body}\nmain(8)\n")
    assert "main(8)\n" in found.after and "def main(rank):" in found.after


@pytest.mark.parametrize(
    ("target", "refused"), [("embed_tokens", True), ("model.embed_tokens", True), ("v_proj", False)]
)
def test_adapters_on_the_embedding_of_a_model_that_the_run_names_are_an_error(target: str, refused: bool) -> None:
    lora = f'peft_config=LoraConfig(r=8, target_modules=["q_proj", "{target}"])'
    text = f"""
import sys
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

rows = load_dataset("json", data_files="rows.jsonl", split="train")
trainer = SFTTrainer(sys.argv[1], args=SFTConfig("out"), train_dataset=rows, {lora})
trainer.train()
"""
    found = port(text)
    said = [one for one in found.findings if "Qwix cannot adapt embeddings" in one.message]
    assert len(said) == refused and found.status == ("partial" if refused else "ported"), found.findings


LISTED = """\
def layers(model):
    common = {names}
    found = set()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            last = name.split(".")[-1]
            if last in common:
                found.add(last)
    return sorted(found)


def main():
{trains}

main()
"""


@pytest.mark.parametrize(
    ("names", "targets"),
    [
        ('{"v_proj", "q_proj", "c_attn"}', '["q_proj", "v_proj"]'),
        ('["q_proj", "lm_head"]', ""),
        ('("c_attn",)', ""),
    ],
)
def test_layers_that_a_list_names(names: str, targets: str) -> None:
    trains = TRAINS.format(names="    wanted = layers(model)\n", targets="wanted")
    found = port(HEAD.replace("bitsandbytes as bnb", "torch") + LISTED.format(names=names, trains=trains))
    assert (found.status == "ported") is bool(targets)
    assert (f"    wanted = {targets}\n" in found.after) is bool(targets)
    assert ("def layers" in found.after) is not bool(targets)


def test_layers_that_two_lists_name_are_left() -> None:
    function = LISTED.replace("if last in common", 'if last in {{"k_proj"}} or last in common')
    trains = TRAINS.format(names="    wanted = layers(model)\n", targets="wanted")
    head = HEAD.replace("bitsandbytes as bnb", "torch")
    found = port(head + function.format(names='{"v_proj"}', trains=trains))
    assert found.status == "partial" and "    wanted = layers(model)\n" in found.after
