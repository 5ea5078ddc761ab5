"""Code that lands inside an f-string: until Python 3.12 it can't hold the quote that the f-string stands in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from ..port import Edit
from ..source.module import Module

OTHER = {'"': "'", "'": '"'}


def requoted(module: Module, edits: Sequence[Edit]) -> list[Edit]:
    """The edits, those within an f-string with the other kind of quote, where they don't have both."""
    nodes = [node for node in module.parents if isinstance(node, cst.FormattedString) and node.quote in OTHER]
    strings = [(*module.span(node), node.quote) for node in nodes]
    return [_requoted(edit, strings) for edit in edits]


def _requoted(edit: Edit, strings: Sequence[tuple[int, int, str]]) -> Edit:
    for start, end, quote in strings:
        if start < edit.start and edit.end < end and quote in edit.new and OTHER[quote] not in edit.new:
            return replace(edit, new=edit.new.replace(quote, OTHER[quote]))
    return edit
