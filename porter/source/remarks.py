"""The comments on the keywords of a call, or on the items of a dict display.

A comment behind a keyword belongs to it, and so does a line above it. A line above that opens a section (below a blank
line, drawn as a rule, or one of several titles in the call) heads the keywords below it, up to the next blank line or
comment line.
A keyword that is commented out says nothing of the others and is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

RULE = re.compile(r"([-=#*~])\1{2,}")  # drawn in a comment: `# --- optimizer ---`
TITLE = re.compile(r"#+ *[A-Z][\w&/,+-]*( [\w&/,+-]+){0,3}:?")
SPACED = re.compile(r"^\w+ +=")  # `default = 8` is prose unless a comma follows


@dataclass(frozen=True, eq=False)
class Heading:
    """Comment lines above a keyword: one object for all the keywords that they head; a section may head several."""

    lines: tuple[str, ...]
    is_section: bool


@dataclass(frozen=True)
class Remark:
    """The comments on one keyword: the lines above it, and that behind it on its line."""

    heading: Heading | None = None
    behind: str = ""


UNSAID = Remark()


def remarks_in(node: cst.Call | cst.Dict) -> dict[cst.BaseExpression, Remark]:
    """What is said of each argument of a call, or item of a dict display, by its value."""
    if isinstance(node, cst.Call):
        parts = [(argument.value, _after(argument, argument.whitespace_after_arg)) for argument in node.args]
        return _remarks(node.whitespace_before_args, parts)
    items = [(element.value, _after(element)) for element in node.elements]
    items[-1:] = [(value, node.rbrace.whitespace_before) for value, _ in items[-1:]]  # behind the last comma, too
    return _remarks(node.lbrace.whitespace_after, items)


def _after(
    part: cst.Arg | cst.BaseDictElement, otherwise: cst.BaseParenthesizableWhitespace | None = None
) -> cst.BaseParenthesizableWhitespace | None:
    comma = part.comma
    return comma.whitespace_after if isinstance(comma, cst.Comma) else otherwise


def _remarks(
    opening: cst.BaseParenthesizableWhitespace,
    parts: Sequence[tuple[cst.BaseExpression, cst.BaseParenthesizableWhitespace | None]],
) -> dict[cst.BaseExpression, Remark]:
    found: dict[cst.BaseExpression, Remark] = {}
    first, above = _split(opening)
    above = [*([first] if first else []), *above]
    following = [_split(space)[1] for _, space in parts]
    has_sections = any(None in lines for lines in following)
    has_titles = sum(_is_title(lines) for lines in (above, *following)) >= 3
    heading: Heading | None = None
    for index, (value, space) in enumerate(parts):
        lines = tuple(line for line in _without_code(above) if line is not None)
        if lines:
            opens = above[0] is None or (index == 0 and has_sections)
            opens = opens or (has_titles and _is_title(above))
            heading = Heading(lines, opens or any(RULE.search(line) for line in lines))
        elif heading is not None and (None in above or not heading.is_section):
            heading = None
        behind, above = _split(space)
        found[value] = Remark(heading, behind)
    return found


def _is_title(lines: Sequence[str | None]) -> bool:
    """Whether a comment is a title, `# Optimizer`: a call with three of them is divided by them without blank lines."""
    return len(lines) == 1 and lines[0] is not None and TITLE.fullmatch(lines[0]) is not None


def _split(space: cst.BaseParenthesizableWhitespace | None) -> tuple[str, list[str | None]]:
    """The comment on the same line, and the lines below it: their comments, None for a blank one."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return "", []
    first = space.first_line.comment
    lines = [line.comment.value if line.comment is not None else "" for line in space.empty_lines]
    return first.value if first is not None else "", [line if line.strip("# ") else None for line in lines]


def _without_code(lines: Sequence[str | None]) -> Iterator[str | None]:
    """The lines without the keywords that are commented out."""
    index = 0
    while index < len(lines):
        end = next((end for end in range(len(lines), index, -1) if _is_keyword(lines[index:end])), index)
        if end == index:
            yield lines[index]
        index = max(end, index + 1)


def _is_keyword(lines: Sequence[str | None]) -> bool:
    """Whether comment lines are keywords, or items of a dict, when the `#` is taken away."""
    code = "\n".join((line or "").lstrip("#").strip() for line in lines)
    if None in lines or (SPACED.search(code) and not code.split("#")[0].rstrip().endswith(",")):
        return False
    for text in (f"f(\n{code}\n)", f"{{\n{code}\n}}"):
        try:
            node = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError):
            continue
        if isinstance(node, ast.Call):
            return bool(node.keywords) and not node.args
        if isinstance(node, ast.Dict):
            return bool(node.keys) and all(isinstance(key, ast.Constant) for key in node.keys)
    return False
