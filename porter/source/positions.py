"""Where every node of a syntax tree stands: offsets in the tree's own code, noted while libcst writes that code.

libcst's position providers say the same, but visit the whole tree once more to gather nothing, and the code is written
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import libcst as cst
from libcst._nodes.internal import CodegenState


def code_and_spans(tree: cst.Module) -> tuple[str, dict[cst.CSTNode, tuple[int, int]]]:
    """A tree's own code, and start and end of every node in it, in characters, without the white space that the node
    owns."""
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
