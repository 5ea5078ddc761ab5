"""One source file: its text, its syntax tree, and where every node stands.

Parsing is libcst's (Python's own `ast` rejects files that newer syntax allows). Positions are offsets in
the text, so that an edit replaces exactly its site and every other byte stays.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import libcst as cst
from libcst._nodes.internal import CodegenState

from ..errors import InputError
from .notebooks.notebook import Notebook
from .scopes import children

PARTED_COLON = re.compile(r"(?<=[^\s:])[ \t]+(?=:)")


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
    def _written(self) -> tuple[str, Mapping[cst.CSTNode, tuple[int, int]]]:
        """The tree's own code, which is the text, and where every node stands in it."""
        code, spans = code_and_spans(self.tree)
        # Of blank lines and a form feed at the end libcst keeps some: nothing stands behind them.
        kept = (PARTED_COLON.sub("", text.replace("\f", "")) for text in (code, self.parsed or code))
        found, given = (text.rstrip() for text in kept)
        if found != given:
            raise InputError("can't be read exactly: libcst gives back another text", self.path, fix="please report it")
        return code, spans

    @cached_property
    def _spans(self) -> Mapping[cst.CSTNode, tuple[int, int]]:
        return self._written[1]

    @cached_property
    def _offsets(self) -> Sequence[int] | None:
        """Offset in `text` of every character of the tree's own code; None when they are equal.

        They differ where libcst 1.8 drops a form feed in front of a line's code, or the spaces of `except Error :`.
        """
        code, text = self._written[0], self.parsed or self.text
        if code == text:
            return None
        offsets: list[int] = []
        index = 0
        for character in code:
            while text[index] != character:
                index += 1
            offsets.append(index)
            index += 1
        return [*offsets, len(text)]

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Start and end of `node` in `text`, without the blank lines and comments before it."""
        start, end = self._spans[node]
        if self._offsets is not None:
            start, end = self._offsets[start], self._offsets[end]
        return start, end

    def turn(self, node: cst.CSTNode) -> tuple[int, ...]:
        """Where a node of the top level stands in the order in which Python runs the text."""
        return self.span(node)[:1]

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

    def line_in_file(self, node: cst.CSTNode) -> int:
        """The line of `node` in its own file, from 1: what a message says."""
        return self.location(node)[0]

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


def code_and_spans(tree: cst.Module) -> tuple[str, dict[cst.CSTNode, tuple[int, int]]]:
    """A tree's own code, and start and end of every node in it, in characters, without the white space that the node
    owns.

    libcst's position providers say the same, but visit the whole tree once more to gather nothing.
    """
    state = _Writing(tree.default_indent, tree.default_newline)
    tree._codegen(state)
    return "".join(state.tokens), state.spans


class _Writing(CodegenState):
    """libcst's state of writing code, that notes where it is before and behind each node."""

    def __init__(self, indent: str, newline: str) -> None:
        super().__init__(indent, newline)
        self.position = 0
        self.starts: list[int] = []
        self.spans: dict[cst.CSTNode, tuple[int, int]] = {}

    def add_indent_tokens(self) -> None:
        super().add_indent_tokens()
        self.position += sum(map(len, self.indent_tokens))

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.position += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self.starts.append(self.position)

    def after_codegen(self, node: cst.CSTNode) -> None:
        self.spans.setdefault(node, (self.starts.pop(), self.position))

    @contextmanager
    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Iterator[None]:
        """What a node spans without the white space that it owns, where libcst tells the two apart."""
        start = self.position
        yield
        start = self.spans[start_node][0] if start_node is not None else start
        end = self.spans[end_node][1] if end_node is not None else self.position
        self.spans[node] = (start, end)
