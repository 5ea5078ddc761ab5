"""Names that nothing binds: where the GPU run ends with a NameError."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from ..notebooks import saved

SCRIPT = """\
{above}
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer


def main(rate=1e-4):
    {inside}
    rows = load_dataset("trl-lib/Capybara", split="train")
    SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out", learning_rate=rate), train_dataset=rows).train()


main()
"""


@pytest.mark.parametrize(
    ("above", "inside", "names"),
    [
        ("", 'print(f"group_by_length: {group_by_length}, {rate}, {__file__}")', ["group_by_length"]),
        ("def other(end=True):\n    return end", "print(end)", ["end"]),  # another function's
        (
            "class Kept:\n    most = 3\n    def few(self, most=most):\n        return most",
            "print(Kept, most)",
            ["most"],
        ),
        (
            "class Kept:\n    most = 3\n    def few(self):\n        return most",
            "print(Kept)",
            ["most"],
        ),  # not its methods
        ("def few(most=most):\n    return most", "print(few)", ["most"]),  # what the default reads
        ("rates = [one for one in (1, 2)]", "print([rate for rate in rates], (lambda x, y=rates: x + y)(1))", []),
        ("import torch", "torch.cuda.set_device(gpu)", []),  # which the port has no more
        ("import numpy as np\nfrom os import path as place", "print(numpy, np, path, place)", ["numpy", "path"]),
        ("from os.path import *", "print(join('a', 'b'))", []),
        ("# Databricks notebook source", "print(spark, dbutils, lengths)", ["lengths"]),
        ("globals().update(lengths=3)", "print(lengths)", []),
        ("", "try:\n        print(lengths)\n    except NameError:\n        pass", []),
        ("", "if 'lengths' in dir():\n        print(lengths)", []),
        ("def plan(given: Given) -> Given:\n    global lengths\n    lengths = given", "print(lengths)", []),
    ],
)
def test_names_that_nothing_binds(above: str, inside: str, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(above=above, inside=inside))
    port = port_file(tmp_path / "train.py")
    said = [each.message.partition(" ")[0] for each in port.findings if each.rule == "TP191"]
    assert (said, port.status) == (names, "ported")


def test_names_that_magics_bind(tmp_path: Path) -> None:
    train = SCRIPT.format(above="", inside="pass")
    cells = ["files = !ls", "%%capture shown\nprint(1)", "%%bash --out listed\nls", train]
    script = saved(tmp_path / "train.ipynb", *cells, "print(files, shown, listed, lengths)")
    said = [each.message for each in port_file(script).findings if each.rule == "TP191"]
    assert [message.partition(" ")[0] for message in said] == ["lengths"]


@pytest.mark.parametrize(("cell", "told"), [("rows = 1 2", []), ("rows = 1", ["lengths"])])
def test_a_cell_that_is_no_python_may_bind_any_name(cell: str, told: list[str], tmp_path: Path) -> None:
    script = saved(tmp_path / "train.ipynb", cell, SCRIPT.format(above="", inside="pass"), "print(lengths)")
    said = [each.message for each in port_file(script).findings if each.rule == "TP191"]
    assert [message.partition(" ")[0] for message in said] == told
