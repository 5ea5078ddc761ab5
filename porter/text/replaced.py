"""What a list of edits that grows replaces, and the words that they write, for the many who ask while it grows."""

from __future__ import annotations

from collections.abc import Sequence

from .edit import Edit


class Replaced:
    """Offsets of a text, and words, by a list of edits that most often has only grown since it was last asked."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.edits: list[Edit] = []  # those that are marked
        self.marks = bytearray(length)  # 1 where one of them replaces what stands there
        self.read: list[Edit] = []  # those of whose code words and names are known
        self.words: frozenset[str] = frozenset()
        self.names: frozenset[str] = frozenset()

    def holds(self, edits: Sequence[Edit], offset: int) -> bool:
        """Whether one of the edits replaces what stands at an offset."""
        if self.edits != edits:  # lists of the same objects are compared by these
            self._mark(edits)
        return offset < self.length and self.marks[offset] == 1

    def written(self, edits: Sequence[Edit]) -> frozenset[str]:
        """The words of the code that the edits write, without its strings and comments."""
        self._read(edits)
        return self.words

    def reads(self, edits: Sequence[Edit]) -> frozenset[str]:
        """The names that the code of the edits reads, with the attributes behind them."""
        self._read(edits)
        return self.names

    def _read(self, edits: Sequence[Edit]) -> None:
        if self.read == edits:
            return
        known = len(self.read)
        if self.read != edits[:known]:
            known, self.words, self.names = 0, frozenset(), frozenset()
        words = {word for edit in edits[known:] for word in edit.words}
        names = {name for edit in edits[known:] for name in edit.names}
        self.words = self.words if words <= self.words else self.words | words
        self.names = self.names if names <= self.names else self.names | names
        self.read = list(edits)

    def _mark(self, edits: Sequence[Edit]) -> None:
        known = len(self.edits)
        if self.edits != edits[:known]:
            known, self.marks = 0, bytearray(self.length)
        for edit in edits[known:]:
            self.marks[edit.start : edit.end] = b"\1" * (edit.end - edit.start)
        self.edits = list(edits)
