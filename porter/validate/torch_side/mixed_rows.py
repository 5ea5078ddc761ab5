"""Rows of which one column is a text and another the turns of a conversation, in TRL's trainers.

`is_conversational` looks at one of a row's columns: the first of a set of names, whose order is another in each
process. In some runs such rows are conversations, and their texts end the run; in the others they are texts.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

COLUMNS = ("prompt", "chosen", "rejected", "completion", "messages")


def take_texts() -> None:
    """From now on a row with a text among these columns is no conversation."""
    try:
        home = importlib.import_module("trl.data_utils")
        original = home.is_conversational
    except (ImportError, AttributeError):
        return

    @functools.wraps(original)
    def is_conversational(example: Any, *args: Any, **kwargs: Any) -> Any:
        texts = any(isinstance(example.get(name), str) for name in COLUMNS)
        return not texts and original(example, *args, **kwargs)

    for name, module in list(sys.modules.items()):
        if name.startswith("trl.") and vars(module).get("is_conversational") is original:
            vars(module)["is_conversational"] = is_conversational
