"""`kwargs = dict(model=model, ...)` of which a trainer takes its keywords: it hands the model to nothing else."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

rows = load_dataset("some/rows", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
kwargs{typed} = {made}
{between}
trainer = SFTTrainer(**kwargs)
{behind}
trainer.train()
"""
MADE = 'dict(model=model, args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)'
BY_BRANCH = 'if "chosen" in rows.column_names:\n    kwargs["eval_dataset"] = rows'


def ported(made: str = MADE, typed: str = "", between: str = "", behind: str = "") -> tuple[str, list[str]]:
    found = port(SCRIPT.format(made=made, typed=typed, between=between, behind=behind))
    return found.status, [each.message for each in found.findings if each.severity == "error"]


@pytest.mark.parametrize("typed", ["", ": dict[str, object]"])
@pytest.mark.parametrize("between", ["", BY_BRANCH, 'print(kwargs["train_dataset"])', 'kwargs.get("eval_dataset")'])
def test_the_trainer_alone_gets_the_model(typed: str, between: str) -> None:
    assert ported(typed=typed, between=between) == ("ported", [])


@pytest.mark.parametrize(
    ("between", "behind"),
    [("", "look(kwargs)"), ("", 'look(kwargs["model"])'), ("", "look(**kwargs)")],
)
def test_somebody_else_gets_it_too(between: str, behind: str) -> None:
    status, errors = ported(between=between, behind=behind)
    assert status == "partial" and any("gets Tunix's model now" in error for error in errors)


def test_a_dict_of_the_scripts_own() -> None:
    status, errors = ported(between="def dict(**given):\n    return given\n")
    assert status == "partial" and errors


MENU = """\
import sys

MODELS = {
    "small": {"name": "Qwen/Qwen3-0.6B", "load": {"dtype": "bfloat16", "trust_remote_code": True}},
    "large": {"name": "Qwen/Qwen3-1.7B", "load": {"dtype": "bfloat16", "trust_remote_code": True}},
}
chosen = MODELS[%s]
"""


@pytest.mark.parametrize("key", ['"small"', "sys.argv[1]"])
@pytest.mark.parametrize(
    ("second", "status", "loaded"),
    [
        ('"bfloat16"', "ported", "dtype=jnp.bfloat16"),
        ('"float32"', "ported", 'dtype=chosen["load"]["dtype"]'),
    ],
)
def test_keywords_of_a_menu_of_models(key: str, second: str, status: str, loaded: str) -> None:
    menu = MENU % key
    menu = menu.replace(
        '"Qwen/Qwen3-1.7B", "load": {"dtype": "bfloat16"', f'"Qwen/Qwen3-1.7B", "load": {{"dtype": {second}'
    )
    load = 'from_pretrained(chosen["name"], **chosen["load"])'
    text = menu + SCRIPT.format(made=MADE, typed="", between="", behind="")
    found = port(text.replace('from_pretrained("Qwen/Qwen3-0.6B")', load, 1))
    assert found.status == status, found.findings
    assert (loaded if key != '"small"' else "dtype=jnp.bfloat16") in found.after


@pytest.mark.parametrize(
    "change", ['MODELS["small"]["load"]["dtype"] = sys.argv[2]', 'MODELS["small"]["load"].update(dtype=sys.argv[2])']
)
def test_keywords_of_a_menu_that_is_changed(change: str) -> None:
    menu = (MENU % '"small"').replace("chosen = MODELS", f"{change}\nchosen = MODELS")
    load = 'from_pretrained(MODELS["small"]["name"], **MODELS["small"]["load"])'
    text = menu + SCRIPT.format(made=MADE, typed="", between="", behind="")
    found = port(text.replace('from_pretrained("Qwen/Qwen3-0.6B")', load, 1))
    assert "dtype=jnp.bfloat16" not in found.after, found.after
