"""NLTK's data is made up where a script imports NLTK."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from porter.validate.world import nltk_data


@pytest.mark.parametrize(
    ("source", "made"),
    [("import nltk\n", True), ("    from nltk.corpus import stopwords\n", True), ("x = 'nltk'\n", False)],
)
def test_data_is_made_up_for_who_imports_nltk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, made: bool
) -> None:
    monkeypatch.setattr(nltk_data, "INSTALLED", ())
    monkeypatch.setenv("NLTK_DATA", "/own")
    notes: list[str] = []
    nltk_data.stand_in_nltk_data(tmp_path / "data", ["import os\n", source], notes.append)
    assert (tmp_path / "data" / "corpora" / "stopwords" / "english").is_file() is made
    assert os.environ["NLTK_DATA"] == (f"/own{os.pathsep}{tmp_path / 'data'}" if made else "/own")
    assert notes == ([nltk_data.NOTE] if made else [])


def test_what_the_machine_has_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk_data, "INSTALLED", (tmp_path,))
    nltk_data.stand_in_nltk_data(tmp_path / "data", ["import nltk\n"], lambda _: None)
    assert not (tmp_path / "data").exists()
