"""A model's variable that nothing in reach makes: by a star import, or in a cell that is no Python."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
from somewhere import *
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer({given}, args=SFTConfig("out"), train_dataset=load_dataset("x", split="train"))
trainer.train()
"""


@pytest.mark.parametrize(
    ("given", "refused"),
    [("model", True), ("base", True), ("MODEL", False), ("model_name", False), ("model_id", False)],
)
def test_what_may_be_a_name_is_one(given: str, refused: bool) -> None:
    found = port(SCRIPT.format(given=given))
    said = [finding for finding in found.findings if "where this model comes from" in finding.message]
    assert [finding.severity for finding in said] == ["error"] * refused
    assert (f"rt.load_model({given}," in found.after) != refused
