"""Functions of the runtime that the observer puts others in the place of."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def replace_everywhere(runtime: ModuleType, name: str, function: Any) -> None:
    """Put `function` in the package and in the module that defines it."""
    original = getattr(runtime, name)
    home = sys.modules.get(getattr(original, "__module__", ""), runtime)
    setattr(runtime, name, function)
    if getattr(home, name, None) is original:
        setattr(home, name, function)
