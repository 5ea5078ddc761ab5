"""A call's arguments by place, however the caller spelled them, and the functions that stand before a library's."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest

from porter.validate.observing.spelling import by_place

from . import forked

RUN = """
import sys
from pathlib import Path
from porter.validate.observing.guard import Guard
from porter.validate.observing.settings import Settings
from porter.validate.stand_ins.loading import patch_loaders
from porter.validate.stand_ins.substitutes import Substitutes

work = sys.argv[1]
Settings(work=work).save(work + "/settings.json")
substitutes = Substitutes(Settings.load(work + "/settings.json"), "source", [])
patch_loaders(substitutes)
Guard(Path(work) / "outside", [work], substitutes.note, online=False).install()
import os
import pandas
import datasets
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(pretrained_model_name_or_path="Qwen/Qwen3-0.6B", use_fast=True)
assert substitutes.model("unsloth/Qwen3-0.6B") == substitutes.model("unsloth/Qwen3-0.6B-unsloth-bnb-4bit")
tokenizer.save_pretrained(save_directory="/nowhere/tokenizer")
assert AutoTokenizer.from_pretrained(pretrained_model_name_or_path="/nowhere/tokenizer").vocab == tokenizer.vocab
rows = datasets.load_from_disk(dataset_path="/nowhere/rows")
assert len(datasets.Dataset.from_json(path_or_paths="/nowhere/rows.json")) == len(rows)
assert rows["train"].num_rows, "made up"
with open("/nowhere/a", "w") as file:
    file.write("a")
os.rename(src="/nowhere/a", dst="/nowhere/b")
print(open("/nowhere/b").read(), substitutes.notes)
"""


def call(first: Any, second: Any = None, *more: Any, third: Any = 3, **others: Any) -> None:
    """What is called."""


@functools.wraps(call)
def wrapped(*args: Any, **kwargs: Any) -> None:
    call(*args, **kwargs)


@pytest.mark.parametrize("function", [call, wrapped])
def test_the_first_arguments_by_place(function: Any) -> None:
    assert by_place(function, (), {"first": 1, "third": 2}) == ((1,), {"third": 2})
    assert by_place(function, (1,), {"second": 2}, 2) == ((1, 2), {})
    assert by_place(function, (), {"second": 2}, 2) == ((), {"second": 2}), "the first is missing: the call says so"
    assert by_place(function, (1, 2, 3), {}) == ((1, 2, 3), {})
    assert by_place(os.rename, (), {"src": 1, "dst": 2}, 2) == ((1, 2), {})


@pytest.mark.real
def test_names_by_keyword_are_stood_in_for(tmp_path: Path) -> None:
    run = forked.run(RUN, tmp_path, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "a tiny random qwen3 model stood in for Qwen/Qwen3-0.6B" in run.stdout
