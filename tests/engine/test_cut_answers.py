"""How long pairs of ORPOTrainer and CPOTrainer are cut, by release: in the port's batches, and said."""

import pytest

from .porting import port

PAIRS = """from datasets import load_dataset
from trl.experimental.{folder} import {name}Config, {name}Trainer

rows = load_dataset("mine/pairs", split="train")
trainer = {name}Trainer("Qwen/Qwen2.5-0.5B", args={name}Config("out"), train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize("name", ["ORPO", "CPO"])
@pytest.mark.parametrize(
    ("release", "written", "cut"),
    [("0.27.2", True, False), ("0.28.0", True, True), ("1.14.2", True, True), ("1.15.0", False, False)],
)
def test_the_answers_are_cut_as_the_release_cuts_them(name: str, release: str, written: bool, cut: bool) -> None:
    text = f"# pip install trl=={release}\n" + PAIRS.format(name=name, folder=name.lower())
    ported = port(text)
    assert (f'trl="{release}"' in ported.after) == written, ported.after
    assert any("less the longer answer" in finding.message for finding in ported.findings) == cut
