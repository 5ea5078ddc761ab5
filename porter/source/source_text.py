"""One source file: its text, its syntax tree, and where every node stands.

Parsing is libcst's (Python's own `ast` rejects files that newer syntax allows). Positions are offsets in
the text, so that an edit replaces exactly its site and every other byte stays.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from ..errors import InputError
from .notebooks.notebook import Notebook
from .scopes import children


@dataclass
class SourceText:
    """A parsed source file, or the Python cells of a notebook as one.

    `parsed` is what the tree was parsed from: `text`, with stand-ins of the same length for IPython's own lines.
    `written` is the file's own text, where spaces stand in `text` for backslashes that continue nothing.
    """

    path: str
    text: str
    tree: cst.Module
    bom: bool = False
    encoding: str = "utf-8"
    parsed: str = ""
    notebook: Notebook | None = None
    written: str = ""

    @property
    def as_written(self) -> str:
        """The file's text, byte for byte."""
        return self.written or self.text

    @property
    def python(self) -> str:
        """The text as Python: IPython's own lines are stand-ins of the same length."""
        return self.parsed or self.text

    @property
    def has_magics(self) -> bool:
        """Whether some lines are IPython's own, so that Python itself can't run the file."""
        return bool(self.parsed) and self.parsed != self.text

    @cached_property
    def newline(self) -> str:
        return self.tree.default_newline

    @cached_property
    def indent(self) -> str:
        return self.tree.default_indent

    @cached_property
    def _spans(self) -> Mapping[cst.CSTNode, object]:
        """Where every node stands in the tree's own code, which is the text."""
        # Of blank lines and a form feed at the end libcst keeps some: nothing stands behind them.
        found, given = (text.replace("\f", "").rstrip() for text in (self.whole_code, self.parsed or self.whole_code))
        if found != given:
            raise InputError("can't be read exactly: libcst gives back another text", self.path, fix="please report it")
        return MetadataWrapper(self.tree, unsafe_skip_copy=True).resolve(ByteSpanPositionProvider)

    @cached_property
    def whole_code(self) -> str:
        """The tree's own code."""
        return self.tree.code

    @cached_property
    def _offsets(self) -> Sequence[int] | None:
        """Offset in `text` of every byte of the tree's own code; None when they are equal.

        They differ in text that isn't ASCII, and where libcst 1.8 drops a form feed in front of a line's code.
        """
        code, text = self.whole_code, self.parsed or self.text
        if text.isascii() and code == text:
            return None
        offsets: list[int] = []
        index = 0
        for character in code:
            while text[index] != character:
                index += 1
            offsets.extend([index] * len(character.encode("utf-8", "surrogatepass")))
            index += 1
        return [*offsets, len(text)]

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Start and end of `node` in `text`, without the blank lines and comments before it."""
        span = self._spans[node]
        start, end = span.start, span.start + span.length  # type: ignore[attr-defined]
        if self._offsets is not None:
            start, end = self._offsets[start], self._offsets[end]
        return start, end

    def code(self, node: cst.CSTNode) -> str:
        """The source text of `node`, exactly."""
        start, end = self.span(node)
        return self.text[start:end]

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(r"\r\n?|\n", self.text))]

    def location(self, node: cst.CSTNode) -> tuple[int, int]:
        """Line and column of `node`, both from 1."""
        return self.line_column(self.span(node)[0])

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset in `text`, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The offset in `text` of a line and column, both from 1."""
        return self._line_starts[min(line, len(self._line_starts)) - 1] + column - 1

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        found: dict[cst.CSTNode, cst.CSTNode] = {}
        stack: list[cst.CSTNode] = [self.tree]
        while stack:
            node = stack.pop()
            for child in children(node):
                found[child] = node
                stack.append(child)
        return found

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around `node`, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def loops(self, node: cst.CSTNode) -> frozenset[cst.CSTNode]:
        """The loops around `node`."""
        path = [node]
        while path[-1] not in self._loops and (parent := self.parents.get(path[-1])) is not None:
            path.append(parent)
        found = self._loops.get(path[-1], frozenset())
        for inner in reversed(path):
            self._loops[inner] = found
            if isinstance(inner, cst.For | cst.While):
                found |= {inner}
        return self._loops[node]

    @cached_property
    def _loops(self) -> dict[cst.CSTNode, frozenset[cst.CSTNode]]:
        return {}

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
        """The statement line (or compound statement) that holds `node`."""
        for ancestor in chain([node], self.ancestors(node)):
            if isinstance(ancestor, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                return ancestor
        raise ValueError("the node stands in no statement")
