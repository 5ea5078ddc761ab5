"""A folder for a run, and a project beside it whose script it starts."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, Path]:
    """The run's folder, and where the project's script goes."""
    work, folder = tmp_path / "work", tmp_path / "project"
    work.mkdir()
    folder.mkdir()
    return work, folder / "train.py"
