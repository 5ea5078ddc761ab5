"""What is left of an import: whether uses come behind it, whether they need torch, and what is left of its line."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from ...source.calls import function_around
from ...source.module import Module
from ...text.edit import Edit
from ...text.edits import Spans, whole_lines
from ..packs.facts import is_like
from ..script.dead_blocks import is_dead
from ..script.sites import absent_packages, facts_of
from .names.gone_names import is_not_there, is_probe

RULE = "TP001"


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


def aliases_of(statement: cst.CSTNode) -> Sequence[cst.ImportAlias]:
    """The aliases of an import, or of the one that stands first in a line; none of another statement."""
    node = first_of(statement)
    if isinstance(node, cst.Import | cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
        return node.names
    return ()


def root_of(node: cst.CSTNode, alias: cst.ImportAlias) -> str:
    """The package that an alias of an import is from; "" for what is imported from beside the script."""
    if isinstance(node, cst.ImportFrom):
        if node.relative or node.module is None:
            return ""
        inner: cst.BaseExpression = node.module
    else:
        inner = alias.name
    while isinstance(inner, cst.Attribute):
        inner = inner.value
    return inner.value if isinstance(inner, cst.Name) else ""


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


def shared_edits(
    module: Module, line: cst.SimpleStatementLine, edits: Sequence[Edit], written: str, still_used: dict[str, int]
) -> list[Edit]:
    """`import torch; torch.manual_seed(1)`: of a line of several statements the imports go that nothing uses any more;
    a GPU library that is still used is noted with the line of its use.
    """
    if is_dead(module, line):
        return []
    spans = Spans((edit.start, edit.end) for edit in edits)
    emptied = [(edit.start, edit.end) for edit in edits if not edit.new.strip()]
    kept: list[tuple[int, int]] = []  # the statements that stay
    lost: list[tuple[int, int]] = []  # the imports that go
    made: list[Edit] = []
    for small in line.body:
        start, end = module.span(small)
        gone = [alias for alias in aliases_of(small) if _goes(module, small, alias, spans, written, still_used)]
        stays = [alias for alias in aliases_of(small) if alias not in gone]
        if gone and not stays:
            lost.append((start, end))
            continue
        if not any(begin <= start and end <= stop for begin, stop in emptied):
            kept.append((start, end))
        if gone:
            names = ", ".join(re.sub(r"\s*,\s*$", "", module.code(alias)) for alias in stays)
            plain = isinstance(small, cst.Import)
            made.append(
                _edit(
                    module,
                    start,
                    end,
                    f"import {names}" if plain else f"from {module_of(module, small, stays[0])} import {names}",
                )
            )
    for start, end in lost:
        before, after = [stop for _, stop in kept if stop < start], [begin for begin, _ in kept if begin > start]
        if before:
            made.append(_edit(module, max(before), end, ""))
        elif after:
            made.append(_edit(module, start, min(after), ""))
        else:
            parent = module.parents[line]
            block = isinstance(parent, cst.IndentedBlock) and len(parent.body) == 1
            whole = module.span(line) if block else whole_lines(module.text, *module.span(line))
            made.append(_edit(module, *whole, "pass" if block else ""))
    return list(dict.fromkeys(made))


def _edit(module: Module, start: int, end: int, new: str) -> Edit:
    return Edit(start, end, new, RULE, "nothing uses it any more", *module.line_column(start))


def _goes(
    module: Module, small: cst.CSTNode, alias: cst.ImportAlias, spans: Spans, written: str, still_used: dict[str, int]
) -> bool:
    """Whether nothing uses an alias of an import any more, or it may fail where the port runs."""
    name, scope = alias_name(alias), module.scope(small)
    uses = module.references(name, scope)
    left = [use for use in uses if module.span(use)[0] not in spans]
    library = needed_by(module, small, alias, left) or root_of(small, alias)
    if left and library in absent_packages(module):
        still_used.setdefault(library, module.location(left[0])[0])
    if left or re.search(rf"(?<![\w.]){re.escape(name)}\b(?!=[^=])", written) is not None:
        return False
    source = next((bound.qualified for bound in scope.bindings.get(name, ()) if bound.node is small), "")
    return bool(uses) or (is_not_there(module, library, source) and not is_probe(module, small))
