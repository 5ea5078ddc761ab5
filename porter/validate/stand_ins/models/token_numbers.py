"""Tokens that a script names by their numbers, `tokenizer.pad_token_id = 18610`, of a stand-in that has fewer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMED = ("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "mask_token_id")
NOTE = "the tiny tokenizer has no token {asked}, which the script makes its {name}: {token!r} was taken for it"


def take_numbers(tokenizers: Any, folder: Path, note: Callable[[str], None]) -> None:
    """Tokenizers of the class `tokenizers` from below `folder` take a number that they lack for one of their own.

    It is the same on both sides, and no special token's.
    """
    original = tokenizers.__setattr__

    @functools.wraps(original)
    def setattr_(self: Any, name: str, value: Any) -> None:
        if name in NAMED and type(value) is int and value >= len(self) and folder in Path(self.name_or_path).parents:
            special, asked = {*self.all_special_ids}, value
            value = next((number for number in range(value % len(self), len(self)) if number not in special), None)
            note(NOTE.format(asked=asked, name=name.removesuffix("_id"), token=self.convert_ids_to_tokens(value)))
        original(self, name, value)

    tokenizers.__setattr__ = setattr_
