"""Small pieces of code built from Values."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise

from ..recipe import Value, literal_code
from ..source.conditions import bare

OPENING, CLOSING = frozenset("([{"), frozenset(")]}")


def number(value: Value, text: str) -> str:
    """`text`, as a float literal when it is a plain integer literal (`8` → `8.0`)."""
    return f"{text}.0" if value.known and re.fullmatch(r"\d+", text) else text


def times(text: str, factor: int) -> str:
    """`text * factor`, calculated when `text` is an integer literal."""
    if factor == 1:
        return text
    if re.fullmatch(r"\d[\d_]*", text):
        return str(int(text) * factor)
    return f"{factor} * {atom(text)}"


def parsed(code: str) -> ast.expr:
    """The tree of an expression that may go over several lines. SyntaxError where it is none."""
    return ast.parse(f"({code}\n)", mode="eval").body


def names_in(code: str) -> set[str]:
    """The names that an expression reads."""
    return {part.id for part in ast.walk(parsed(code)) if isinstance(part, ast.Name)}


def parts_of_choice(code: str) -> tuple[str, str, str] | None:
    """The three parts of `one if test else other`."""
    raw = bare(code).encode()  # places of the tree count bytes
    node = ast.parse(raw, mode="eval").body
    if not isinstance(node, ast.IfExp) or node.body.end_col_offset is None or node.test.end_col_offset is None:
        return None
    first, second = raw.index(b" if ", node.body.end_col_offset), raw.index(b" else ", node.test.end_col_offset)
    one, test, other = raw[:first], raw[first + len(" if ") : second], raw[second + len(" else ") :]
    return one.decode(), test.decode(), other.decode()


def _is_atom(text: str) -> bool:
    """Whether an expression binds tighter than any operator around it."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(node, ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript | ast.List | ast.Tuple)


LOOSE = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.BinOp, ast.Compare, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
BRACED = (ast.Dict, ast.Set, ast.DictComp, ast.SetComp)


@lru_cache(4096)
def is_tight(text: str, in_braces: bool = False) -> bool:
    """Whether an expression may stand where another stood as it is: no operator around it takes a part of it.

    `in_braces`: in those of an f-string, where a colon would begin a format and a second brace be a brace.
    """
    try:
        node = ast.parse(text.lstrip(), mode="eval").body
    except SyntaxError:
        return True
    if node.col_offset:
        return True  # it has parentheses of its own
    if in_braces:
        return not isinstance(node, (ast.Lambda, ast.NamedExpr, *BRACED))
    return not (isinstance(node, LOOSE) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)))


def atom(text: str) -> str:
    """An expression as one that binds tighter than any operator around it, in parentheses where it needs them."""
    return text if _is_atom(text) else f"({text})"


def operand(text: str) -> str:
    """An expression as it may stand beside any operator: `not {it}`, `{it} is None`."""
    return text if is_tight(text) else f"({text})"


def choice(test: str, one: str, other: str) -> str:
    """`one if test else other`, of which `one` and `test` may be choices themselves."""
    return f"{_no_choice(one)} if {_no_choice(test)} else {other}"


CHOICES = (ast.IfExp, ast.Lambda, ast.NamedExpr, ast.Yield, ast.YieldFrom)


def _no_choice(text: str) -> str:
    try:
        node = parsed(text)
    except SyntaxError:
        return text
    within = node.col_offset > len("(")  # parentheses of its own
    return f"({text})" if isinstance(node, CHOICES) and not within else text


@lru_cache(4096)
def enclosed(text: str) -> str:
    """An expression as it may stand outside brackets: its own line breaks outside of any are spaces, or where a
    comment is in the way it gets parentheses.
    """
    if "\n" not in text and "\r" not in text:
        return text
    try:
        if len(ast.parse(f"_ = {text}").body) == 1:
            return text
    except SyntaxError:
        pass  # its further lines are no statements
    return _joined(re.sub(r"\r\n?", "\n", text)) or f"({text})"


def _joined(text: str) -> str:
    """`text` without the line breaks that stand in no brackets of its own; nothing where one follows a comment."""
    depth, breaks = 1, []
    lines = text.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(f"({text})").readline))
    except (tokenize.TokenError, SyntaxError):
        return ""
    for before, token in pairwise(tokens):
        depth += (token.string in OPENING) - (token.string in CLOSING) if token.type == tokenize.OP else 0
        if token.type == tokenize.NL and depth == 1:
            if before.type == tokenize.COMMENT:
                return ""
            breaks.append(token.start[0] - 1)
    for index in reversed(breaks):
        if index + 1 < len(lines):
            one, other = lines[index].rstrip(), lines[index + 1].lstrip()
            between = "" if other.startswith(".") and one.endswith((")", "]")) else " "
            lines[index : index + 2] = [f"{one}{between}{other}"]
    return "".join(lines)


def quoted(text: str) -> str:
    """A string literal in double quotes; raw where it holds backslashes (a regular expression)."""
    if "\\" in text and '"' not in text and not text.endswith("\\") and text.isprintable():
        return f'r"{text}"'
    body = repr(text)[1:-1]
    if repr(text).startswith("'"):
        body = body.replace("\\'", "'").replace('"', '\\"')
    return f'"{body}"'


def type_name(code: str, types: Mapping[str, str]) -> str:
    """The code of a type's name, which `rt.load_model(dtype=)` takes, for code that looks it up in torch.

    `x if x in ["auto", None] else getattr(torch, x)`, as TRL's scripts have it, is `x`; a choice between 16-bit types
    is bfloat16; other code stays as it is.
    """
    try:
        node = parsed(code)
    except SyntaxError:
        return code
    ways = [ast.unparse(way) for way in (node.body, node.orelse)] if isinstance(node, ast.IfExp) else []
    if ways and {types.get(way) for way in ways} <= HALF:  # the source's own name is respelled where every type is
        return next((way for way in ways if types[way] == "bfloat16"), '"bfloat16"')
    name = _looked_up(node.orelse if isinstance(node, ast.IfExp) else node, types)
    if name is None or not isinstance(node, ast.IfExp):
        return code if name is None else ast.unparse(name)
    test = node.test
    asked = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.In | ast.Eq | ast.Is)
    same = asked and ast.dump(test.left) == ast.dump(node.body) == ast.dump(name)  # type: ignore[attr-defined]
    plain = same and ast.unparse(test.comparators[0]) in AS_LOADED  # type: ignore[attr-defined]
    return ast.unparse(name) if plain else code


HALF = frozenset({"bfloat16", "float16"})
# What a type's name is compared with where it may be no type: load_model takes these as it is.
AS_LOADED = frozenset({"['auto', None]", "[None, 'auto']", "('auto', None)", "(None, 'auto')", "'auto'", "None"})


def _looked_up(node: ast.expr, types: Iterable[str]) -> ast.expr | None:
    """`x` of `getattr(torch, x)`."""
    match node:
        case ast.Call(func=ast.Name("getattr"), args=[ast.Name(package), name], keywords=[]):
            return name if any(each.startswith(f"{package}.") for each in types) else None
    return None


def python(value: object) -> str:
    """The literal of a Python object, strings in double quotes."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(python(item) for item in value) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(python(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{python(key)}: {python(item)}" for key, item in value.items()) + "}"
    return literal_code(value)
