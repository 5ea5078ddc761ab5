"""What something is indexed by: `frame["text"]`, `row[0]`."""

from __future__ import annotations

import libcst as cst


def index_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    """What a node is indexed by; None for a slice, for several, and where it is no item of anything."""
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    return index.value if isinstance(index, cst.Index) else None


def text_index(node: cst.CSTNode) -> str | None:
    """The text that a node is indexed by, as it stands there: `text` of `frame["text"]`."""
    index = index_of(node)
    text = index.evaluated_value if isinstance(index, cst.SimpleString) else None
    return text if isinstance(text, str) else None
