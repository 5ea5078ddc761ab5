"""Laying out generated code: calls on one line where they fit, one argument a line where they don't."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from .marks import columns, parted

WIDTH = 120
ROW_WIDTH = 150


@dataclass(frozen=True)
class Arg:
    """One argument: `name=value` or `value`, with the comment that stands behind it and the lines above it."""

    value: str | Call
    name: str = ""
    comment: str = ""
    above: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """`head(arguments)` and what follows it (`tail`); `brackets` may be `[]` for a list.

    `spread`: always one argument a line. `flat`: a row of a table, which may be longer than other lines.
    """

    head: str
    arguments: list[Arg] = field(default_factory=list)
    tail: str = ""
    brackets: str = "()"
    spread: bool = False
    flat: bool = False


def render(node: str | Call, indent: str = "", step: str = "    ", before: int = 0) -> str:
    """The code of `node`; lines after the first start with `indent`. `before`: columns taken before its first line.

    Lines are joined by `\\n`; the writer turns them into the file's own newline.
    """
    if isinstance(node, str) and "\n" in node:
        return _shifted(node, indent)
    if isinstance(node, str):
        return node if len(indent) + before + columns(node) <= WIDTH else _broken(node, indent, step)
    flat = _flat(node)
    room = ROW_WIDTH if isinstance(node, Call) and node.flat else WIDTH
    if flat is not None and not node.spread and len(indent) + before + columns(flat) <= room:
        return flat
    inner = indent + step
    if flat is not None and not node.spread:
        between = flat[len(node.head) + 1 : len(flat) - len(node.tail) - 1]
        if len(inner) + columns(between) <= WIDTH:
            return f"{node.head}{node.brackets[0]}\n{inner}{between}\n{indent}{node.brackets[1]}{node.tail}"
    if len(node.arguments) == 1 and _hugs(node.arguments[0]):
        only = node.arguments[0].value
        hugged = render(only, indent, step, before + columns(node.head) + 1)
        return f"{node.head}{node.brackets[0]}{hugged}{node.brackets[1]}{node.tail}"
    lines = [f"{node.head}{node.brackets[0]}"]
    for argument in node.arguments:
        prefix = f"{argument.name}=" if argument.name else ""
        line = f"{inner}{prefix}{render(argument.value, inner, step, len(prefix) + 1)},"
        is_row = isinstance(argument.value, Call) and argument.value.flat
        above, line = commented(line, argument.comment, width=ROW_WIDTH if is_row else WIDTH)
        lines += [f"{inner}{comment}" for comment in (*argument.above, *above)]
        lines.append(line)
    lines.append(f"{indent}{node.brackets[1]}{node.tail}")
    return "\n".join(lines)


def _shifted(code: str, indent: str) -> str:
    """Code of several lines, as it stood elsewhere: its closing bracket stands below the line that it begins in."""
    first, *rest = code.split("\n")
    now = rest[-1][: len(rest[-1]) - len(rest[-1].lstrip())]
    lines = [line for line in rest if line.strip()]
    closes = rest[-1].lstrip()[:1] in (")", "]", "}")
    if not closes or now == indent or '"""' in code or "'''" in code or not all(line.startswith(now) for line in lines):
        return code
    return "\n".join([first, *(indent + line.removeprefix(now) if line.strip() else line for line in rest)])


def _broken(code: str, indent: str, step: str) -> str:
    """A conditional expression on three lines; other code as it is."""
    marks, code = parted(code)
    try:
        tree = ast.parse(code, mode="eval").body
    except SyntaxError:
        return marks + code
    if not isinstance(tree, ast.IfExp) or "\n" in code:
        return marks + code
    body, test, orelse = (ast.get_source_segment(code, part) or "" for part in (tree.body, tree.test, tree.orelse))
    if len(body) + len(test) + len(orelse) + len(" if  else ") != len(code):
        return marks + code  # parentheses of its own
    inner = f"\n{indent}{step}"
    return f"{marks}({inner}{body}{inner}if {test}{inner}else {orelse}\n{indent})"


def commented(code: str, comment: str, indent: str = "", width: int = WIDTH) -> tuple[list[str], str]:
    """Code with a comment behind it; where that makes its last line too long, the comment is a line above it.

    `indent` is what stands in front of code of one line, where it isn't part of `code`.
    """
    last = code.rsplit("\n", 1)[-1]
    width_of_last = columns(last) + (0 if "\n" in code else len(indent))
    if not comment:
        return [], code
    fits = width_of_last + 2 + len(comment) <= width or width_of_last > width
    return ([], f"{code}  {comment}") if fits else ([comment], code)


def _hugs(argument: Arg) -> bool:
    return isinstance(argument.value, Call) and argument.value.brackets == "[]" and not argument.name


def _flat(node: str | Call) -> str | None:
    if isinstance(node, str):
        return None if "\n" in node else node
    parts = []
    for argument in node.arguments:
        inner = _flat(argument.value)
        if inner is None or argument.comment or argument.above:
            return None
        parts.append(f"{argument.name}={inner}" if argument.name else inner)
    return f"{node.head}{node.brackets[0]}{', '.join(parts)}{node.brackets[1]}{node.tail}"
