"""What the port does once it holds the devices: processes that are forked (TP545), the script started anew (TP010)."""

from __future__ import annotations

import pytest

from .porting import port

HEAD = """\
import subprocess, sys
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


def work(rows=None):
    {work}


def train():
    {above}
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    {below}
    rows = load_dataset("some/rows", split="train")
    trainer = SFTTrainer(
        model,
        args=SFTConfig("out", max_steps=5),
        train_dataset={rows},
        processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
    )
    trainer.train()


{before}
train()
{behind}
"""
START = 'subprocess.run([sys.executable, __file__, "--eval"])'
FORK = 'load_dataset("a").map(len, num_proc=8)'
RULES = pytest.mark.parametrize(("rule", "code"), [("TP010", START), ("TP545", FORK)])


def said(rule: str, **parts: str) -> list[str]:
    """The lines of which the rule speaks."""
    plain = dict.fromkeys(("work", "above", "below", "before", "behind"), "pass")
    text = HEAD.format(**(plain | {"rows": "rows"} | parts))
    return [text.splitlines()[each.line - 1].strip() for each in port(text).findings if each.rule == rule]


@RULES
@pytest.mark.parametrize("place", ["below", "behind"])
def test_what_stands_below_the_model_is_told(rule: str, code: str, place: str) -> None:
    assert said(rule, **{place: code}) == [code]
    assert said(rule, work=code, **{place: "work()"}) == [code]


@RULES
@pytest.mark.parametrize("place", ["above", "before"])
def test_what_stands_above_it_is_not(rule: str, code: str, place: str) -> None:
    assert said(rule, **{place: code}) == []
    assert said(rule, work=code, **{place: "work()"}) == []
    assert said(rule, work=code) == []


@pytest.mark.parametrize(("rule", "code"), [("TP010", "work()"), ("TP545", "work()")])
def test_a_function_that_makes_the_model_comes_there(rule: str, code: str) -> None:
    script = {"work": START if rule == "TP010" else FORK, "before": "train()", "behind": code}
    assert said(rule, **script) == [script["work"]]


def test_rows_that_the_trainer_is_given_are_made_below_the_model() -> None:
    rows = "rows.map(len, num_proc=8)"
    assert said("TP545", rows=rows) == [f"train_dataset={rows},"]
    assert said("TP545", work=f"return {rows}", rows="work(rows)") == [f"return {rows}"]
