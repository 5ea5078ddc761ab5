"""Code patterns: an expression as a script may write it, with `{name}` for the parts that differ.

    sum({p}.numel() for {p} in {model}.parameters())

A `{name}` stands for any expression, the same one wherever it is repeated; `...` behind a call's arguments for any
further ones. Other names are a library's by their import (`torch.cuda.synchronize`, however it is imported) or
Python's own. Blanks, line breaks and comments say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from ...source.module import Module

HOLE = re.compile(r"\{([A-Za-z_]\w*)\}")
MARK = "__any_"
LAYOUT = ("lpar", "rpar", "leading_lines", "header", "footer", "comma", "equal", "semicolon")
Captures = dict[str, cst.BaseExpression]


@dataclass(frozen=True)
class Pattern:
    """One pattern: its text, and its tree, in which holes are names with a mark."""

    text: str
    tree: cst.BaseExpression

    def captures(self, module: Module, node: cst.CSTNode) -> Captures | None:
        """What stands for each hole where `node` is such an expression; None where it is another."""
        found: Captures = {}
        return found if _equal(module, self.tree, node, found) else None


def parse_pattern(text: object) -> Pattern:
    """ValueError for what is no expression of Python, or nothing but a hole."""
    if not isinstance(text, str):
        raise ValueError("it is no text")
    code = HOLE.sub(lambda hole: f"{MARK}{hole[1]}", text.strip())
    try:
        tree = cst.parse_expression(code)
    except (cst.ParserSyntaxError, RecursionError):
        raise ValueError("it is no expression") from None
    if _hole(tree) or isinstance(tree, cst.Name | cst.BaseNumber | cst.BaseString):
        raise ValueError("it would match everywhere")
    return Pattern(text, tree)


def _hole(node: object) -> str:
    name = node.value if isinstance(node, cst.Name) else ""
    return name.removeprefix(MARK) if name.startswith(MARK) else ""


def _equal(module: Module, pattern: object, node: object, found: Captures) -> bool:
    if name := _hole(pattern):
        if not isinstance(node, cst.BaseExpression):
            return False
        return found.setdefault(name, node).deep_equals(node) or module.code(found[name]) == module.code(node)
    if isinstance(pattern, cst.Name | cst.Attribute) and (chain := _chain(pattern)):
        return isinstance(node, cst.BaseExpression) and _is_named(module, chain, node)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, cst.CSTNode):
        assert isinstance(node, cst.CSTNode)
        names = [field.name for field in fields(pattern) if not _is_layout(field.name)]
        return all(_equal(module, getattr(pattern, name), getattr(node, name), found) for name in names)
    if isinstance(pattern, list | tuple):
        assert isinstance(node, list | tuple)
        if pattern and _is_rest(pattern[-1]):
            pattern, node = pattern[:-1], node[: len(pattern) - 1]
        pairs = zip(pattern, node, strict=False)
        return len(pattern) == len(node) and all(_equal(module, one, other, found) for one, other in pairs)
    return pattern == node


def _is_rest(node: object) -> bool:
    """`...` as a call's last argument."""
    return isinstance(node, cst.Arg) and node.keyword is None and isinstance(node.value, cst.Ellipsis)


def _is_layout(name: str) -> bool:
    return name in LAYOUT or name.startswith("whitespace")


def _chain(node: cst.BaseExpression) -> str:
    """`torch.cuda.synchronize`; nothing for one with a hole in it."""
    if isinstance(node, cst.Attribute):
        head = _chain(node.value)
        return f"{head}.{node.attr.value}" if head else ""
    return node.value if isinstance(node, cst.Name) and not _hole(node) else ""


def _is_named(module: Module, chain: str, node: cst.BaseExpression) -> bool:
    """Whether a name or attribute of the script is the library's, or Python's, of that name."""
    if node not in module.parents:
        return False
    if isinstance(module.parents[node], cst.Attribute | cst.Arg) and not _is_read(module, node):
        return isinstance(node, cst.Name) and node.value == chain  # a method's name, a keyword's
    known = module.qualified(node)
    if known is not None:
        return known == chain
    return isinstance(node, cst.Name) and node.value == chain and module.scope(node).lookup(chain) is None


def _is_read(module: Module, node: cst.BaseExpression) -> bool:
    """Whether a name is read: not the attribute behind a dot, nor the keyword of an argument."""
    parent = module.parents[node]
    if isinstance(parent, cst.Attribute):
        return parent.value is node
    return not (isinstance(parent, cst.Arg) and parent.keyword is node)


def holes(pattern: Pattern, captured: Mapping[str, cst.BaseExpression]) -> list[tuple[str, cst.BaseExpression]]:
    """The holes in the order in which the pattern names them, each with what stands for it."""
    return [(name, captured[name]) for name in dict.fromkeys(HOLE.findall(pattern.text)) if name in captured]
