"""IPython's own lines in a source: magics, shell lines and help.

They are the user's and stay as they are. Python's parser gets a stand-in of the same length for each, so that every
other offset in the text is right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A text without any of these has no line of IPython's.
CANDIDATE = re.compile(r"(?m)^[ \t]*(?:[!%?]|(?:pip3?|conda|apt|apt-get)[ \t]|[\w.]+\?)|=[ \t]*[!%]")
AUTOMAGIC = re.compile(r"(?:pip3?|conda|apt|apt-get)[ \t]+(?:install|uninstall|update|list|show)\b(?![ \t]*[=(.,])")
HELP = re.compile(r"\?{1,2}[\w.*]+\s*$|[\w.*]+\?{1,2}\s*$")
ASSIGNED = re.compile(r"[ \t]*[\w.\[\], \t]+?=[ \t]*(?P<magic>[!%][^=\s][^\r\n]*)")
# Cell magics whose cell is Python all the same; the cell of any other is a file, a shell script, another language.
OF_PYTHON = frozenset({"capture", "time", "timeit", "prun"})
CELL_MAGIC = re.compile(r"\s*%%(?P<name>\w+)")
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
    state = _State()
    lines = list(LINE.finditer(text))
    while lines:
        body = lines[0]["body"]
        magic = _magic_at(body) if state.between_statements else None
        if magic is None:
            _scan(body, state)
            parts.append(lines.pop(0)[0])
            continue
        count = 1  # the lines that it goes on over
        while lines[count - 1]["body"].endswith("\\") and count < len(lines) and lines[count]["body"].strip():
            count += 1
        whole, lines = lines[:count], lines[count:]
        code = [body[magic:], *(line["body"] for line in whole[1:])]
        inner = _stand_in(code[0]) if count == 1 else _over_lines(code)
        parts.append(body[:magic])
        parts += [piece + line["end"] for piece, line in zip(inner, whole, strict=True)]
    return "".join(parts)


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


def _stand_in(code: str) -> list[str]:
    """An expression of the same length, which is a statement too."""
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
