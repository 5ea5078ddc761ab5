"""Values of another kind than their keyword wants: a finding at their place, and never code that can't run."""

from __future__ import annotations

import ast

import pytest

from porter.engine.packs.kinds import is_of_kind

from .porting import port


@pytest.mark.parametrize(
    ("value", "annotation", "want"),
    [
        (None, "int", True),
        (True, "int", True),
        ("2", "int | float | None", False),
        (2, "str", True),
        ("no", "bool", True),
        (b"x", "str | None", False),
        ("q_proj", "list[str] | None", True),
        (["q_proj"], "list[str] | str | None", True),
        ({"q_proj"}, "list[str] | str | None", True),
        (-1, "list[str] | str | None", False),
        ([1], "list[str] | str | None", False),
        ({"a": 1}, "dict[str, bool] | None", False),
        ({"a": True}, "dict[str, bool] | None", True),
        ("{}", "dict[str, Any] | str | None", True),
        (0, "dict[str, Any] | str | None", False),
        ((0.9, 0.999), "tuple[float, float]", True),
        ((0.9,), "tuple[float, float]", False),
        ([[0, 4], [2, 6]], "list[tuple[int, int]] | None", True),
        ("none", "Literal['none', 'all']", True),
        ([], "Literal['none', 'all']", False),
        ("x", "object", True),
        ("bfloat16", "torch.dtype | None", True),
        ("x", "PeftConfig | None", False),
        ([{"path": "x"}], "list[DatasetConfig]", True),
    ],
)
def test_what_is_of_a_kind(value: object, annotation: str, want: bool) -> None:
    assert is_of_kind(value, annotation) is want


SCRIPT = """\
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer
trainer = SFTTrainer("Qwen/Qwen3-0.6B", {}, train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("args=0", "SFTTrainer.args=0: the release wants TrainingArguments | None here."),
        ("args='out'", "SFTTrainer.args='out': the release wants TrainingArguments | None here."),
        ("peft_config='lora'", "SFTTrainer.peft_config='lora': the release wants PeftConfig | None here."),
        ("peft_config=LoraConfig(target_modules=-1)", "LoraConfig.target_modules=-1: the release wants list[str]"),
        ("peft_config=LoraConfig(rank_pattern=[1])", "LoraConfig.rank_pattern=[1]: the release wants dict | None"),
        ("args=SFTConfig(model_init_kwargs=0)", "SFTConfig.model_init_kwargs=0: the release wants dict[str, Any]"),
        ("args=SFTConfig(lr_scheduler_kwargs=())", "SFTConfig.lr_scheduler_kwargs=(): the release wants dict"),
    ],
)
def test_what_is_of_no_kind_is_a_finding(given: str, said: str) -> None:
    found = port(SCRIPT.format(given))
    assert [finding.message for finding in found.findings if finding.message.startswith(said)]
    assert found.status == "partial" and ast.parse(found.after)


def test_a_loss_that_is_a_number_is_none() -> None:
    text = """from datasets import load_dataset
from trl import CPOConfig, CPOTrainer
CPOTrainer(
    "Qwen/Qwen3-0.6B",
    CPOConfig(loss_type=-1, output_dir="simpo"),
    train_dataset=load_dataset("trl-lib/ultrafeedback_binarized", split="train"),
).train()
"""
    assert any("CPOTrainer has no such loss" in finding.message for finding in port(text).recipe.findings)
