"""Where the built-in rules and tables are: inside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .runtime.facts.toml_memory import read_toml

PACKAGE = Path(__file__).resolve().parent


@cache
def rules_folder() -> Path:
    """The folder of the built-in packs (`trl/`, `peft/`, `models/`, ...)."""
    installed = PACKAGE / "rules"
    return installed if installed.is_dir() else PACKAGE.parent / "rules"


def packs() -> list[Path]:
    """The built-in packs' folders, by name."""
    return sorted(path.parent for path in rules_folder().glob("*/pack.toml"))


def said_by_built_in(fact: str) -> frozenset[str]:
    """What the built-in packs list in `[facts]` under a word: for what is asked before any pack is loaded."""
    return _said(rules_folder(), fact)


@cache
def _said(folder: Path, fact: str) -> frozenset[str]:
    files = sorted(folder.glob("*/pack.toml"))
    return frozenset(name for file in files for name in read_toml(file).get("facts", {}).get(fact, ()))


def libraries_read() -> frozenset[str]:
    """The libraries that the built-in packs read."""
    return _read(rules_folder())


@cache
def _read(folder: Path) -> frozenset[str]:
    return frozenset(name for file in folder.glob("*/pack.toml") for name in read_toml(file).get("reads", {}))
