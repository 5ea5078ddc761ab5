"""Mixtures of local datasets, as TRL's command line names them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from porter.runtime.settings.mixtures import get_dataset


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = []
    for name, count in (("a", 6), ("b", 4)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"text": f"{name}{i}", "id": i}) + "\n" for i in range(count)))
        paths.append(str(path))
    return paths


def mixture(files: list[str], fractions: list[float | None] | None = None, **settings: Any) -> Any:
    configs = [
        SimpleNamespace(
            path="json", name=None, data_dir=None, data_files=file, split="train", columns=["text"], fraction=f
        )
        for file, f in zip(files, fractions or [None] * len(files), strict=True)
    ]
    return SimpleNamespace(**{"datasets": configs, "streaming": False, "test_split_size": None, **settings})


def test_datasets_follow_each_other(files: list[str]) -> None:
    made = get_dataset(mixture(files))
    assert made["train"].column_names == ["text"]
    assert made["train"]["text"][4:8] == ["a4", "a5", "b0", "b1"]


def test_fractions_take_the_first_rows_in_proportion(files: list[str]) -> None:
    assert get_dataset(mixture(files, [1.0, 3.0]))["train"]["text"][:] == ["a0", "b0", "b1", "b2", "b3"]


def test_a_test_split_and_a_stream(files: list[str]) -> None:
    assert get_dataset(mixture(files, test_split_size=0.2)).num_rows == {"train": 8, "test": 2}
    assert [row["text"] for row in get_dataset(mixture(files, streaming=True))["train"]][-1] == "b3"


@pytest.mark.parametrize(
    ("fractions", "settings", "message"),
    [
        ([1.0, None], {}, "1 of 2 datasets"),
        ([1.0, 1.0], {"streaming": True}, "drop streaming"),
        (None, {"streaming": True, "test_split_size": 0.5}, "drop streaming"),
    ],
)
def test_what_has_no_meaning_is_refused(files: list[str], fractions: Any, settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_dataset(mixture(files, fractions, **settings))


def test_no_dataset_is_refused() -> None:
    with pytest.raises(ValueError, match="--dataset_name"):
        get_dataset(mixture([]))
