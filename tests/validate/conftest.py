"""A project whose script runs as `validate` runs it: in a copy in the folder of the runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from porter.validate.preloading import client

from .observed import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    found = Project(tmp_path / "work", tmp_path / "work" / "copy" / "train.py")
    found.folder.mkdir(parents=True)
    return found


@pytest.fixture
def no_interpreters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """None has imported yet in this test, and none is left by it; those that other tests fork from stay."""
    monkeypatch.setattr(client, "_servers", {})
    monkeypatch.setattr(client, "_folder", [])
    yield
    client.stop()
