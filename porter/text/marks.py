"""Marks: characters that say, while a port is written, of which value of the source the text behind them is made.

They are private-use characters that the source doesn't have. An edit keeps them as the numbers of its lines, and its
text is without them; what measures text before that, measures without them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# What a mark stands for: a place of the source, or what else a row of the report is known by.
Key = tuple[str | int, ...]
Carries = tuple[tuple[int, Key], ...]

FIRST = 0x100000
PRIVATE = re.compile("[\U00100000-\U0010fffd]")
MARKS = re.compile("[\U000f0000-\U000ffffd\U00100000-\U0010fffd]")
LEADING = re.compile(f"{MARKS.pattern}*")


@dataclass
class Marks:
    """The marks of one port, each with what it stands for.

    `stays`: keywords of code that the port has as the source does, where a rule says so. `also`: of a place of the
    Recipe what else says its value, a DeepSpeed file's setting. `unread`: why keywords are dropped unless code for
    them is written. `off`: places of keywords that say None or False, which is their default. `objects`: of a keyword
    in the call of an object that the port keeps, the object's code and the attribute's name.
    """

    keys: dict[str, Key] = field(default_factory=dict)
    chars: dict[Key, str] = field(default_factory=dict)
    stays: set[Key] = field(default_factory=set)
    also: dict[str, list[Key]] = field(default_factory=dict)
    unread: dict[Key, str] = field(default_factory=dict)
    off: set[Key] = field(default_factory=set)
    objects: dict[Key, list[tuple[str, str]]] = field(default_factory=dict)

    def mark(self, key: Key, source: str) -> str:
        """The mark of `key`: a character that `source` doesn't have."""
        if key not in self.chars:
            number = FIRST + len(self.keys)
            while (char := chr(number)) in source or char in self.keys:
                number += 1
            self.chars[key] = char
            self.keys[char] = key
        return self.chars[key]

    def lifted(self, text: str) -> tuple[str, Carries]:
        """Text without its marks, and of each the number of its line (from 0) with what it stands for."""
        if PRIVATE.search(text) is None:
            return text, ()
        found: list[tuple[int, Key]] = []
        for number, line in enumerate(text.split("\n")):
            found += [(number, self.keys[char]) for char in PRIVATE.findall(line) if char in self.keys]
        return "".join(char for char in text if char not in self.keys), tuple(dict.fromkeys(found))


def columns(text: str) -> int:
    """The columns that a text takes."""
    return len(text) if text.isascii() else len(text) - len(MARKS.findall(text))


def parted(text: str) -> tuple[str, str]:
    """The marks in front of a text, and the text."""
    found = LEADING.match(text)
    end = found.end() if found is not None else 0
    return text[:end], text[end:]
