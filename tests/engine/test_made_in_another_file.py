"""Trainers that a function of another file makes, in a notebook, whose project's modules aren't ported with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.beside.with_modules import port_with_modules
from porter.port import Options
from tests.notebooks import saved

MODULE = """\
from trl import SFTTrainer

def load_trainer(rows):
    return SFTTrainer("Qwen/Qwen3-0.6B", train_dataset=rows)
"""
CELL = """\
from datasets import load_dataset
from src.training import load_net, load_trainer
trainer = load_trainer(load_dataset("x", split="train"))
{line}
"""


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("trainer.train()", "unsupported"),
        ("trainer.evaluate()", "unchanged"),
        ("net = load_net()\nnet.train()", "unchanged"),
        ("from acme import own_trainer\nother = own_trainer(1)\nother.train()", "unchanged"),  # a library's
    ],
)
def test_a_notebook_that_trains_by_a_module_is_not_silent(tmp_path: Path, line: str, status: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/training.py").write_text(MODULE)
    (tmp_path / "notebooks").mkdir()
    notebook = saved(tmp_path / "notebooks/train.ipynb", CELL.format(line=line))
    found = port_with_modules(notebook, Options())
    assert found.status == status
    assert [each.rule for each in found.findings] == (["TP004"] if status == "unsupported" else [])


def test_a_script_is_ported_with_that_module(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/training.py").write_text(MODULE)
    (tmp_path / "train.py").write_text(CELL.format(line="trainer.train()"))
    found = port_with_modules(tmp_path / "train.py", Options())
    assert found.status == "ported" and len(found.modules) == 1
