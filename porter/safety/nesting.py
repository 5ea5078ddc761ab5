"""How long libcst's parser will take over what is nested in a text.

The time of its parser grows with the square of how deep brackets and operators stand in one another, in patterns of
`case` by a factor a bracket, and nothing can interrupt it: a line of 200 brackets takes a quarter of a second, a
pattern of twelve takes longer than anybody waits.
"""

from __future__ import annotations

import re

STRING = (
    r"(?i:[a-z]{0,2})(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\""
    r"|'(?:[^'\\\r\n]|\\.)*'|\"(?:[^\"\\\r\n]|\\.)*\")"
)
OPERATOR = r"\.(?=[ \t\\\r\n]*[^\W\d])|\*\*|//|<<|>>|:=|[-+*/%@&|^~]|\b(?:lambda|not|if|await|yield)\b"
TOKEN = re.compile(
    rf"(?P<skip>\#[^\r\n]*|\\\r?\n)|(?P<string>{STRING})|(?P<open>[(\[{{])|(?P<close>[)\]}}])|(?P<next>[,;])"
    rf"|(?P<line>[\r\n]+(?:[ \t]*(?P<case>case)\b)?)|(?P<operator>{OPERATOR})",
    re.DOTALL,
)
IN_FIELD = re.compile(rf"[(\[{{}}]|{OPERATOR}")
# Of one measure 2 microseconds pass on a machine of 2024; what people write has none.
BRACKET, PLAIN_BRACKETS, PLAIN_OPERATORS = 10, 8, 16
MOST = 5_000_000
PATTERN = {"{": 4, "[": 2, "(": 2}  # by how much a bracket of a pattern multiplies the time


def nesting(text: str) -> int:
    """A measure of the time that libcst takes over the nesting of a text; `MOST` is about ten seconds."""
    measure = depth = 0
    brackets: list[int] = []  # the depth around each open bracket
    pattern = 0  # by how much the brackets of a pattern multiply, 0 outside of one
    for token in TOKEN.finditer(f"\n{text}"):
        kind = token.lastgroup
        if kind in ("open", "operator"):
            if kind == "open":
                brackets.append(depth)
                pattern *= PATTERN[token[0]]
            depth += 1
            measure += max(0, len(brackets) - PLAIN_BRACKETS) * BRACKET + max(0, depth - PLAIN_OPERATORS) + pattern // 2
            if measure > MOST:
                break
        elif kind == "close" and brackets:
            depth = brackets.pop() + 1
        elif kind == "next":
            depth = brackets[-1] + 1 if brackets else 0
        elif kind == "string":
            measure += _in_fields(token[0])
        elif kind == "line" and not brackets:
            depth, pattern = 0, int(token["case"] is not None)
    return measure


def _in_fields(string: str) -> int:
    """The measure of what stands in the fields of an f-string."""
    if "f" not in re.split("['\"]", string, maxsplit=1)[0].lower():
        return 0
    measure = level = count = 0
    for token in IN_FIELD.finditer(string.replace("{{", "")):
        level += {"{": 1, "}": -1}.get(token[0], 0)
        if level > 0:
            count += 1
            continue
        measure += _of_field(count)
        level = count = 0
    return measure + _of_field(count)


def _of_field(count: int) -> int:
    return BRACKET * count * count // 2 if count > PLAIN_OPERATORS else 0
