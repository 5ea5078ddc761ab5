"""Models in a list or a dict of the script, of which Tunix lacks one."""

from __future__ import annotations

import pytest

from .porting import port

PHI = "microsoft/Phi-3-mini-4k-instruct"
SCRIPT = """from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
from datasets import load_dataset
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--model", default="qwen")
args = parser.parse_args()
rows = load_dataset("a/b", split="train")
def train(name):
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(name),
        args=SFTConfig(output_dir="out"),
        train_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(name),
    )
    trainer.train()
"""
LOOPS = [
    'for name in ["Qwen/Qwen3-0.6B", "{model}"]:\n    train(name)',
    'MODELS = ("Qwen/Qwen3-0.6B", "{model}")\nfor i, name in enumerate(MODELS):\n    train(name)',
    'MODELS = {{"q": "Qwen/Qwen3-0.6B", "p": "{model}"}}\nfor key, name in MODELS.items():\n    train(name)',
    'RUNS = [{{"id": "Qwen/Qwen3-0.6B", "out": "a/b"}}, {{"id": "{model}", "out": "a/phi-3"}}]\nfor run in RUNS:\n'
    '    train(run["id"])',
]
MENUS = [
    'MODELS = {{"qwen": "Qwen/Qwen3-0.6B", "phi": "{model}"}}\ntrain(MODELS[args.model])',
    'MODELS = {{"qwen": "Qwen/Qwen3-0.6B", "phi": "{model}"}}\nname = MODELS.get(args.model)\ntrain(name)',
    'MODELS = {{"qwen": {{"id": "Qwen/Qwen3-0.6B"}}, "phi": {{"id": "{model}"}}}}\nchosen = MODELS[args.model]\n'
    'train(chosen["id"])',
]


def said(end: str, model: str = PHI) -> list[tuple[str, str]]:
    found = port(SCRIPT + end.format(model=model) + "\n")
    return [(each.severity, each.message) for each in found.findings if each.rule == "TP302"]


@pytest.mark.parametrize("end", LOOPS)
def test_a_loop_that_comes_to_a_model_without_a_family(end: str) -> None:
    message = f"{PHI}: Tunix can't compute it; the port ends when the loop comes to it."

    assert said(end) == [("error", message)]


@pytest.mark.parametrize("end", MENUS)
def test_a_menu_with_a_model_without_a_family(end: str) -> None:
    assert said(end) == [("info", f"{PHI}: may be chosen here, and Tunix can't compute it; the port ends then.")]


@pytest.mark.parametrize("end", [*LOOPS, *MENUS])
def test_models_that_tunix_has_need_no_word(end: str) -> None:
    assert said(end, "Qwen/Qwen2-7B") == []


def test_where_something_is_saved_is_no_model() -> None:
    end = LOOPS[3].format(model="Qwen/Qwen3-1.7B").replace("{", "{{").replace("}", "}}")

    assert "a/phi-3" in end
    assert said(end) == []
