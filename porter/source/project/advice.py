"""What a script tells its users to install: advice for another machine, no command of its own."""

from __future__ import annotations

import ast
import re

PIP = re.compile(r"\bpip3?\b")


def without_messages(text: str) -> str:
    """A script without the messages of its assertions and exceptions: `assert ..., "Please pip install git+..."` is
    advice for another machine."""
    if not PIP.search(text) or not re.search(r"\b(?:assert|raise)\b", text):
        return text
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text
    lines = text.splitlines(keepends=True)
    for node in ast.walk(tree):
        said = node.msg if isinstance(node, ast.Assert) else node.exc if isinstance(node, ast.Raise) else None
        if said is not None and said.end_lineno is not None:
            for number in range(said.lineno - 1, said.end_lineno):
                lines[number] = PIP.sub("", lines[number])
    return "".join(lines)
