"""Code of the source that new code repeats, `dtype=args.dtype`: where that becomes something else, it does there, too.

Strings and comments of new code stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from .edit import Edit
from .expressions import is_tight
from .import_lines import STRING


def repeats(edit: Edit, code: str) -> bool:
    """Whether an edit's code has `code` in it."""
    return code in edit.new and any(True for _ in _places(edit.new, code))


def respelled(edit: Edit, code: str, new: str, *, operand: bool = False) -> Edit:
    """The edit with `new` for `code`; `operand`: in parentheses where it stands among operators and needs them."""
    if code not in edit.new:
        return edit
    parts, position = [], 0
    for found in _places(edit.new, code):
        parts += [edit.new[position : found.start()], _as_it_binds(new, found) if operand else new]
        position = found.end()
    return replace(edit, new="".join([*parts, edit.new[position:]])) if parts else edit


def _places(text: str, code: str) -> Iterator[re.Match[str]]:
    """Where `code` stands in a text as code, not as a part of a longer name."""
    quiet = [
        match.span() for match in STRING.finditer(text) if "f" not in (match["prefix"] or "").lower()
    ]  # an f-string holds code
    for found in re.finditer(rf"(?<![\w.]){re.escape(code)}(?!\w)", text):
        if not any(start < found.start() < end for start, end in quiet):
            yield found


def _as_it_binds(text: str, found: re.Match[str]) -> str:
    """`text` for what was found in code, in parentheses where it isn't an argument, item or value of its own."""
    before, after = found.string[: found.start()].rstrip(" "), found.string[found.end() :].lstrip(" ")
    alone = re.search(r"(?:[(,\[]|(?<![=!<>])=)\s*$", before) and re.match(r"[),\]\n]|$", after)
    return text if alone or is_tight(text) else f"({text})"
