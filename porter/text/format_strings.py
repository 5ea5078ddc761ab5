"""Code that lands inside an f-string: until Python 3.12 it can't hold the quote that this has, nor line breaks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

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
    """The edits, those within an f-string on one line, with the other kind of quote; an f-string gets three where an
    edit in it has both."""
    nodes = [node for node in module.parents if isinstance(node, cst.FormattedString) and node.quote in OTHER]
    strings = [(*module.span(node), node.quote) for node in nodes]
    whole = {module.span(part.expression): module.span(part) for node in nodes for part in node.parts if _is_bare(part)}
    found: list[Edit] = []
    tripled: dict[tuple[int, int], Edit] = {}
    for edit in edits:
        around = next((each for each in strings if each[0] < edit.start and edit.end < each[1]), None)
        if around is not None:
            start, end, quote = around
            new = _on_one_line(edit.new)
            if quote in new and OTHER[quote] in new:
                tripled[start, end] = edit
            elif quote in new:
                new = new.replace(quote, OTHER[quote])
            edit = replace(edit, new=new)
            if new.isdigit() and (edit.start, edit.end) in whole:  # `{torch.cuda.device_count()}`, which is 1
                start, end = whole[edit.start, edit.end]
                edit = replace(edit, start=start, end=end)
        found.append(edit)
    for (start, end), edit in tripled.items():
        opens = module.text.index(module.text[end - 1], start) + 1
        for place in (opens, end - 1):
            found.append(replace(edit, start=place, end=place, new=module.text[end - 1] * 2, part="", carries=()))
    return found


def _is_bare(part: cst.BaseFormattedStringContent) -> TypeGuard[cst.FormattedStringExpression]:
    """Whether a part of an f-string is an expression without a format."""
    return isinstance(part, cst.FormattedStringExpression) and not (part.format_spec or part.conversion or part.equal)


def _on_one_line(code: str) -> str:
    if "\n" not in code and "\r" not in code:
        return code
    try:
        return ast.unparse(ast.parse(f"({code}\n)", mode="eval"))
    except SyntaxError:
        return code


# An f-string with the same quote within its braces: a first look, which finds too many.
NESTS = re.compile(r"\b[fF][rR]?([\"'])[^\n]*?\{[^\n}]*?\1")


def unnested(edits: Sequence[Edit], after: str) -> list[Edit]:
    """The edits, without f-strings whose expressions hold their own quote: `f"{f"{folder}/model"}/final"`, which a
    setting that is read in an f-string brings along, is `f"{folder}/model/final"`. `after` is the text they make.

    What stood so in the source stays: it is of Python 3.12.
    """
    if not any(NESTS.search(edit.new) for edit in edits):
        return list(edits)
    found = cst.parse_module(after)
    mended: dict[str, str] = {}
    for node in _strings_of(found):
        if node.quote in OTHER and _holds(node, node.quote):
            mended[found.code_for_node(node)] = found.code_for_node(_unnested(node))
    for old in sorted(mended, key=len, reverse=True):
        edits = [replace(edit, new=edit.new.replace(old, mended[old])) if old in edit.new else edit for edit in edits]
    return list(edits)


def _strings_of(node: cst.CSTNode) -> Iterator[cst.FormattedString]:
    """The f-strings of a tree, those in others, too."""
    if isinstance(node, cst.FormattedString):
        yield node
    for child in node.children:
        yield from _strings_of(child)


def _holds(node: cst.FormattedString, quote: str) -> bool:
    """Whether one of the expressions of an f-string has a quote in it."""
    blank = cst.Module([])
    held = [part for part in node.parts if isinstance(part, cst.FormattedStringExpression)]
    return any(quote in blank.code_for_node(part) for part in held)


def _unnested(node: cst.FormattedString) -> cst.FormattedString:
    """The f-string with those in it spliced in, else with other quotes."""
    parts: list[cst.BaseFormattedStringContent] = []
    for part in node.parts:
        inner = part.expression if isinstance(part, cst.FormattedStringExpression) else None
        plain = _is_bare(part)
        same = isinstance(inner, cst.FormattedString) and (inner.start, inner.end) == (node.start, node.end)
        if plain and same and isinstance(inner, cst.FormattedString):
            parts += _unnested(inner).parts
        elif plain and isinstance(inner, cst.SimpleString) and (inner.prefix, inner.quote) == ("", node.quote):
            text = inner.raw_value.replace("{", "{{").replace("}", "}}")
            parts += [cst.FormattedStringText(text)] if text else []
        else:
            parts.append(part)
    node = node.with_changes(parts=parts)
    if not _holds(node, node.quote):
        return node
    other, blank = OTHER[node.quote], cst.Module([])
    if other not in "".join(blank.code_for_node(part) for part in node.parts):
        return node.with_changes(start=node.start.replace(node.quote, other), end=other)
    return node.with_changes(start=node.start.replace(node.quote, node.quote * 3), end=node.quote * 3)
