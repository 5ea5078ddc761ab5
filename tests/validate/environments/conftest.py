"""Environments of a test are in a cache of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TPU_PORT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "environments"
