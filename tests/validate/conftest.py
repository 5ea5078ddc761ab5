"""A project whose script runs as `validate` runs it: in a copy in the folder of the runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .observed import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    found = Project(tmp_path / "work", tmp_path / "work" / "copy" / "train.py")
    found.folder.mkdir(parents=True)
    return found
