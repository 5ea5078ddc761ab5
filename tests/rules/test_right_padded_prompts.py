"""Prompts of messages that TRL 0.25 to 0.29 pads on the tokenizer's own side, and samples behind the padding."""

from __future__ import annotations

import pytest

from tests.engine.porting import port

SCRIPT = """\
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import {kind}Config, {kind}Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct"{load})
rows = load_dataset("x", split="train").map(lambda row: {{"prompt": {prompt}}})
trainer = {kind}Trainer(
    "Qwen/Qwen2.5-0.5B-Instruct",
    args={kind}Config("out", per_device_train_batch_size=8, num_generations=4{config}),
    reward_funcs=lambda completions, **_: [1.0 for _ in completions],
    train_dataset=rows,
    processing_class={given},
)
trainer.train()
"""
MESSAGES = '[{"role": "user", "content": row["question"]}]'


def said(release: str = "0.27.1", **more: str) -> list[str]:
    parts = {"kind": "GRPO", "load": "", "config": "", "given": "tokenizer", "prompt": MESSAGES} | more
    found = port(SCRIPT.format(**parts), source_trl=release)
    return [each.severity for each in found.findings if "on the tokenizer's own side" in each.message]


@pytest.mark.parametrize(
    ("release", "warns"), [("0.24.0", False), ("0.25.0", True), ("0.29.1", True), ("1.0.0", False), ("1.16.0", False)]
)
def test_releases_that_pad_messages_so(release: str, warns: bool) -> None:
    assert said(release) == ["warning"] * warns
    assert said(release, kind="RLOO") == ["warning"] * warns


@pytest.mark.parametrize(
    "more",
    [
        {"load": ', padding_side="left"'},
        {"given": "None"},
        {"config": ", use_vllm=True"},
        {"config": ", use_transformers_paged=True"},
    ],
)
def test_where_nothing_is_padded_so(more: dict[str, str]) -> None:
    assert said(**more) == []


def test_rows_whose_form_is_not_seen_and_prompts_that_are_sampled_alone() -> None:
    assert said(prompt='row["question"]') == ["info"]
    assert said(config=", gradient_accumulation_steps=2") == ["warning"]
    alone = SCRIPT.replace("num_generations=4", "num_generations=8")
    parts = {"kind": "GRPO", "load": "", "config": "", "given": "tokenizer", "prompt": MESSAGES}
    found = port(alone.format(**parts), source_trl="0.27.1").findings
    assert not any("on the tokenizer's own side" in each.message for each in found)
