"""Ports of texts that stand nowhere: `train.py` in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("around") / "empty"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def nothing_lies_around(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the tests are started the whole repository would be the script's project: a fifth of a port's time."""
    monkeypatch.chdir(empty)
