"""A model of a family that Tunix has not, and files of a project that name one."""

from __future__ import annotations

from pathlib import Path

PHI = "microsoft/Phi-3-mini-4k-instruct"


def folder(path: Path, model: str) -> Path:
    (path / "conf.py").write_text(f"MODEL_ID = {model!r}\n")
    (path / "config.yaml").write_text(f"model:\n  name: {model}\n")
    (path / "config.json").write_text(f'{{"model": {{"name": "{model}"}}}}')
    return path / "train.py"
