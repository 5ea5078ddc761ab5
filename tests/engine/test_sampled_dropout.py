"""Dropout of adapters while an online trainer samples: on in TRL, off in a port."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
{imports}
from datasets import load_dataset
from peft import LoraConfig
from trl import {kind}Config, {kind}Trainer


def reward(completions, **kwargs):
    return [float(len(text)) for text in completions]


trainer = {kind}Trainer(
    "Qwen/Qwen3-0.6B",
    args={kind}Config("out"{config}),
    reward_funcs=reward,
    train_dataset=load_dataset("x", split="train"),
    peft_config=LoraConfig(r=8, target_modules=["q_proj"], lora_dropout={dropout}),
)
trainer.train()
"""


@pytest.mark.parametrize(
    ("kind", "dropout", "config", "imports", "says"),
    [
        ("GRPO", "0.05", "", "", True),
        ("RLOO", "0.05", "", "", True),
        ("GRPO", "0.0", "", "", False),
        ("GRPO", "0.05", ", use_vllm=True", "", False),
        ("GRPO", "0.05", ", disable_dropout=True", "", False),
        ("GRPO", "0.05", "", "import unsloth", False),
        ("GRPO", "0.05", ", use_transformers_continuous_batching=True", "", False),
    ],
)
def test_what_the_source_samples_with_is_said(kind: str, dropout: str, config: str, imports: str, says: bool) -> None:
    found = port(SCRIPT.format(kind=kind, dropout=dropout, config=config, imports=imports))
    (row,) = [row for row in found.fields if row.source.endswith(".lora_dropout")]
    assert ("TRL samples with it, too" in row.reason) == says
    assert not says or row.fate == "changed"


@pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
@pytest.mark.parametrize("adapters", [True, False])
def test_dropout_that_the_trainer_switches_off_is_off(kind: str, adapters: bool) -> None:
    text = SCRIPT.format(kind=kind, dropout="0.05", config=", disable_dropout=True", imports="")
    text = text if adapters else "".join(line for line in text.splitlines(keepends=True) if "peft_config" not in line)
    found = port(text)
    (row,) = [row for row in found.fields if row.source.endswith(".disable_dropout")]
    assert found.status == "ported" and "dropout=" not in found.after
    assert row.fate == ("exact" if adapters else "dropped")
    assert not [each for each in found.findings if "no line of the port" in each.message]
