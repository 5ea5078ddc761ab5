"""IPython's own lines in a source: magics, shell lines and help.

They are the user's and stay as they are. Python's parser gets a stand-in of the same length for each, so that every
other offset in the text is right.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

# A text without any of these has no line of IPython's.
CANDIDATE = re.compile(
    r"(?m)^[ \t]*(?:[!%?]|(?:pip3?|conda|apt|apt-get|cd|ls|cat|cp|mv|rm|mkdir|rmdir)(?:[ \t]|$)|[\w.]+\?)|=[ \t]*[!%]"
)
AUTOMAGIC = re.compile(
    r"(?:pip3?|conda|apt|apt-get)[ \t]+(?:-[\w-]+[ \t]+)*(?:install|uninstall|update|list|show)\b(?![ \t]*[=(.,])"
    r"|(?:cd|ls|cat|cp|mv|rm|mkdir|rmdir)[ \t]+(?![-+*/%&|^<>=!@]?[ =]|[=(,:\[]|(?:if|in|is|and|or|not|for)\b)\S"
    r"|ls$"
)
HELP = re.compile(r"\?{1,2}[\w.*]+\s*$|[\w.*]+\?{1,2}\s*$")
ASSIGNED = re.compile(r"[ \t]*[\w.\[\], \t]+?=[ \t]*(?P<magic>(?:![ \t]*|%)[^=\s][^\r\n]*)")
# Cell magics whose cell is Python all the same; the cell of any other is a file, a shell script, another language.
OF_PYTHON = frozenset({"capture", "time", "timeit", "prun", "wandb", "memit", "mprun", "lprun"})
CELL_MAGIC = re.compile(r"\s*(?P<mark>%%(?P<name>\w+))")
# Magics whose rest of the line is a statement that they run, with their options: at least as long as `None; `.
RUNNING = re.compile(r"%(?:time|timeit|prun|memit)(?:[ \t]+-[A-Za-z]\S*(?:[ \t]+\d+)?)*[ \t]+(?=[^\s-])")
LINE = re.compile(r"(?P<body>[^\r\n]*)(?P<end>\r\n|\r|\n|$)")
TOKEN = re.compile(r"'''|\"\"\"|['\"]|[()\[\]{}]|#|\\.?", re.DOTALL)


@dataclass
class _State:
    """Where the scan stands: open brackets, the quotes of an open string, a line that goes on."""

    depth: int = 0
    quotes: str = ""
    goes_on: bool = False

    @property
    def between_statements(self) -> bool:
        return not (self.depth or self.quotes or self.goes_on)


def is_python(cell: str) -> bool:
    """Whether a notebook cell holds Python: it has no cell magic, or one whose body is Python."""
    magic = CELL_MAGIC.match(cell)
    return magic is None or magic["name"] in OF_PYTHON


def masked(text: str) -> str:
    """The text with a Python stand-in for every line that is IPython's; of the same length, and equal without any."""
    if CANDIDATE.search(text) is None:
        return text
    parts: list[str] = []
    for whole, magic in statements(text):
        if magic is None:
            parts += [line[0] for line in whole]
            continue
        code = code_of(whole, magic)
        inner = _stand_in(code[0]) if len(whole) == 1 else _over_lines(code)
        parts.append(whole[0]["body"][:magic])
        parts += [piece + line["end"] for piece, line in zip(inner, whole, strict=True)]
    return "".join(parts)


def statements(text: str) -> Iterator[tuple[list[re.Match[str]], int | None]]:
    """The lines of a text, those of a magic that goes on together, with where IPython's part of the first begins.

    None for a line of Python's. The groups `body` and `end` of a line are what it says and its end.
    """
    state = _State()
    lines = list(LINE.finditer(text))
    at = 0
    while at < len(lines):
        body = lines[at]["body"]
        magic = _magic_at(body) if state.between_statements else None
        if magic is None:
            _scan(body, state)
            yield [lines[at]], None
            at += 1
            continue
        last = at + 1
        while lines[last - 1]["body"].endswith("\\") and last < len(lines) and lines[last]["body"].strip():
            last += 1
        yield lines[at:last], magic
        at = last


def code_of(whole: list[re.Match[str]], magic: int) -> list[str]:
    """IPython's part of the lines that `statements` gave."""
    return [whole[0]["body"][magic:], *(line["body"] for line in whole[1:])]


def _magic_at(line: str) -> int | None:
    """Where IPython's part of a line begins at which a statement begins; None when there is none."""
    if is_magic(line):
        return len(line) - len(line.lstrip())
    assigned = ASSIGNED.fullmatch(line)
    return assigned.start("magic") if assigned is not None else None


def is_magic(line: str) -> bool:
    """Whether a line at which a statement begins is IPython's."""
    body = line.strip()
    return body[:1] in ("!", "%") or HELP.match(body) is not None or AUTOMAGIC.match(body) is not None


def statement_of(code: str) -> int | None:
    """Where the simple statement that a line magic runs begins (`%time trainer.train()`); None when it runs none."""
    found = RUNNING.match(code)
    if found is None:
        return None
    try:
        [statement] = ast.parse(code[found.end() :]).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return None if hasattr(statement, "body") else found.end()


def _stand_in(code: str) -> list[str]:
    """An expression of the same length, which is a statement too; before the statement that `%time` runs."""
    begin = statement_of(code)
    if begin is not None:
        return [f"None;{' ' * (begin - 5)}{code[begin:]}"]
    return [_closed(f"None#{code[5:]}") if len(code) >= 5 else "0" * len(code)]


def _over_lines(code: list[str]) -> list[str]:
    """The same for several lines: brackets around a number, the lines between them comments."""
    comments = [_closed(re.sub(r"\S", "#", line, count=1)) for line in code[1:-1]]
    return [_closed(f"(0#{code[0][3:]}"[: len(code[0])]), *comments, " " * (len(code[-1]) - 1) + ")"]


def _closed(comment: str) -> str:
    """libcst 1.8 loses what follows a comment that ends in a backslash."""
    return f"{comment[:-1]}_" if comment.endswith("\\") else comment


def _scan(line: str, state: _State) -> None:
    """Follow strings and brackets through one line of Python."""
    state.goes_on = False
    for token in TOKEN.finditer(line):
        text = token[0]
        if state.quotes:
            if text == state.quotes or (len(state.quotes) == 1 and text[:1] == state.quotes):
                state.quotes = ""
            elif text == "\\":
                return  # the string goes on in the next line
        elif text == "#":
            return
        elif text[0] in "'\"":
            state.quotes = text
        elif text in "([{":
            state.depth += 1
        elif text in ")]}":
            state.depth = max(0, state.depth - 1)
        elif text == "\\":
            state.goes_on = True
    if len(state.quotes) == 1:
        state.quotes = ""  # a string of one line that wasn't closed
