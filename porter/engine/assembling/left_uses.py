"""What is left of an import: whether uses come behind it, and whether they need torch."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ...source.calls import function_around
from ...source.module import Module
from ..packs.facts import is_like
from ..script.sites import facts_of


def is_behind(module: Module, use: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Whether a use may come after a statement: it stands below, or in a function."""
    return module.span(use)[0] > module.span(statement)[0] or function_around(module, use) is not None


def first_of(statement: cst.CSTNode) -> cst.CSTNode:
    """What stands first in a line of statements; any other node itself."""
    return statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement


def alias_name(alias: cst.ImportAlias) -> str:
    """The name that an alias of an import binds."""
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    node: cst.BaseExpression = alias.name
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def needed_by(module: Module, imported: cst.CSTNode, alias: cst.ImportAlias, left: Sequence[cst.BaseExpression]) -> str:
    """The package without which what is left of an import can't be imported, or not be called; empty for none."""
    facts, named = facts_of(module), module_of(module, imported, alias)
    if needed := _said_of(named, facts.import_needs):
        return needed
    needed = _said_of(f"{named}.{module.code(alias.name)}", facts.call_needs)
    holders = [module.parents[use] for use in left] if needed else []
    owners = [module.parents[holder] for holder in holders if isinstance(holder, cst.Attribute)]
    return needed if any(isinstance(holder, cst.Call) for holder in (*holders, *owners)) else ""


def _said_of(name: str, said: Sequence[tuple[str, str]]) -> str:
    """What facts say of a name."""
    return next((what for fact, what in said if is_like(name, (fact,))), "")


def module_of(module: Module, imported: cst.CSTNode, alias: cst.ImportAlias) -> str:
    """The module that an alias of the statement `imported` is imported from, with the dots of a relative one."""
    if isinstance(imported, cst.ImportFrom):
        dots = "." * len(imported.relative)
        return dots + (module.code(imported.module) if imported.module is not None else "")
    return module.code(alias.name)
