"""Bad input: what the user can put right, told in one line."""

from __future__ import annotations

from pathlib import Path


class InputError(Exception):
    """Input that can't be worked with: what was found, where, and what to do.

    `str()` is the one line that the terminal shows: `train.py:3:7: invalid syntax; mend the script first`.
    Line and column count from 1.
    """

    def __init__(
        self, message: str, path: str | Path = "", line: int | None = None, column: int | None = None, fix: str = ""
    ):
        super().__init__(message)
        self.message = message
        self.path = str(path)
        self.line = line
        self.column = column
        self.fix = fix

    @property
    def place(self) -> str:
        """`path:line:column`, as far as they are known."""
        return ":".join(str(part) for part in (self.path or None, self.line, self.column) if part is not None)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        text = f"{text}; {self.fix}" if self.fix else text
        return " ".join(text.split())
