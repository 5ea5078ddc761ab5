"""Where the built-in rules and tables are: inside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


@cache
def rules_folder() -> Path:
    """The folder of the built-in packs (`trl/`, `peft/`, `models/`, ...)."""
    installed = PACKAGE / "rules"
    return installed if installed.is_dir() else PACKAGE.parent / "rules"


def packs() -> list[Path]:
    """The built-in packs' folders, by name."""
    return sorted(path.parent for path in rules_folder().glob("*/pack.toml"))
