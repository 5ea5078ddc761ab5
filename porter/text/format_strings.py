"""Code that lands inside an f-string: until Python 3.12 it can't hold the quote that this has, nor line breaks."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from ..safety.shown import spelled
from ..source.module import Module
from .edit import Edit

OTHER = {'"': "'", "'": '"'}


def in_f_string(text: str, around: cst.FormattedString) -> str | None:
    """Text as the words of an f-string say it: braces doubled, quotes, backslashes and line ends escaped.

    None where it can't be said: a raw f-string has no escapes.
    """
    if "r" in around.start.lower() and not RAW.fullmatch(text):
        return None
    return "".join(_escaped(character) for character in text)


RAW = re.compile(r"[^\\'\"\x00-\x1f\x7f-\x9f]*")


def _escaped(character: str) -> str:
    if character in "{}":
        return character * 2
    if character == "\\":
        return "\\\\"
    if character in "'\"":  # by number: it stays whatever quote the f-string ends up with
        return f"\\x{ord(character):02x}"
    return character if character.isprintable() else spelled(character)


def requoted(module: Module, edits: Sequence[Edit]) -> list[Edit]:
    """The edits, those within an f-string on one line, with the other kind of quote where they don't have both."""
    nodes = [node for node in module.parents if isinstance(node, cst.FormattedString) and node.quote in OTHER]
    strings = [(*module.span(node), node.quote) for node in nodes]
    return [_requoted(edit, strings) for edit in edits]


def _requoted(edit: Edit, strings: Sequence[tuple[int, int, str]]) -> Edit:
    for start, end, quote in strings:
        if start < edit.start and edit.end < end:
            new = _on_one_line(edit.new)
            new = new.replace(quote, OTHER[quote]) if OTHER[quote] not in new else new
            return replace(edit, new=new) if new != edit.new else edit
    return edit


def _on_one_line(code: str) -> str:
    if "\n" not in code and "\r" not in code:
        return code
    try:
        return ast.unparse(ast.parse(f"({code}\n)", mode="eval"))
    except SyntaxError:
        return code
