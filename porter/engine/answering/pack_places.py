"""Where a pack's Python rules stand in the script beside its calls: classes, functions, and code of a pattern.

A class is one that extends a class of a library, a function one that a library's name decorates. Their sites have no
more of the script than that: a class's arguments are the keywords behind its bases, a function's those of its
decorator, a pattern's what stands for its holes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from ...source.module import Module
from ...source.read_value import read_value
from ..packs.patterns import Pattern, holes
from ..packs.python_rule import SiteRule
from ..script.porting import Porting
from ..script.sites import Argument, Site, indentation, read_site
from ..steps.step import Phase, step
from .member_uses import member_rules
from .python_rules import answer_site, in_turn, is_claimed, positional


@dataclass(frozen=True)
class Definition(Site):
    """A class or a function of the file. `by` is the base class or the decorator that a rule answers."""

    by: cst.BaseExpression | None = None


@step(Phase.ANSWER, fills=("claimed names",))
def apply_places(porting: Porting) -> None:
    """Let the packs' rules answer the file's classes, functions and patterns, as far as nothing replaced them."""
    first = member_rules(porting)
    for rule in [rule for rule in {rule.id: rule for rule in first.values()}.values() if isinstance(rule, SiteRule)]:
        for match, site in [*definitions(porting.module, rule), *patterned(porting.module, rule)]:
            for turn in in_turn(porting, rule, match) if first.get(match) is rule else ():
                gone = porting.covered(site.start) or not isinstance(turn, SiteRule)
                if is_claimed(porting, turn, site.node) or gone:
                    break
                assert isinstance(turn, SiteRule)
                if answer_site(porting, turn, replace(site, rule=turn.id)):
                    break


def definitions(module: Module, rule: SiteRule) -> Iterator[tuple[str, Site]]:
    """The classes and functions of the file that a rule names, in source order, each with the match."""
    if not rule.classes and not rule.functions:
        return
    for node in sorted(module.scopes, key=lambda node: module.span(node)[0] if node is not module.tree else -1):
        if isinstance(node, cst.ClassDef):
            for base in node.bases:
                if (name := module.qualified(base.value)) in rule.classes:
                    given = [argument for argument in node.keywords if argument.keyword is not None]
                    yield f"class {name}", _definition(module, node, rule.id, str(name), base.value, given)
        elif isinstance(node, cst.FunctionDef):
            for decorator in node.decorators:
                by = decorator.decorator
                name = module.qualified(by.func if isinstance(by, cst.Call) else by)
                if name in rule.functions:
                    yield f"def {name}", _definition(module, node, rule.id, str(name), by, [], positional(rule, name))


def _definition(
    module: Module,
    node: cst.ClassDef | cst.FunctionDef,
    rule: str,
    name: str,
    by: cst.BaseExpression,
    given: list[cst.Arg],
    names: tuple[str, ...] = (),
) -> Definition:
    called = read_site(module, by, "", rule, name, names) if isinstance(by, cst.Call) else None
    arguments = called.arguments if called is not None else tuple(_argument(module, a, rule) for a in given)
    start, end = module.span(node)
    if node.decorators:
        start = module.span(node.decorators[0])[0]
    line, column = module.location(node)
    role = "class" if isinstance(node, cst.ClassDef) else "function"
    place = (start, end, start, end, indentation(module.text, start), line, column, "line")
    scope = module.scope(node)
    return Definition(role, rule, name, arguments, *place, node.name.value, True, "", scope, node, by=by)  # type: ignore[arg-type]


def _argument(module: Module, argument: cst.Arg, rule: str) -> Argument:
    assert argument.keyword is not None
    line, column = module.location(argument.value)
    value = read_value(module, argument.value, rule)
    return Argument(argument.keyword.value, value, line, column, node=argument.value)


def patterned(module: Module, rule: SiteRule) -> Iterator[tuple[str, Site]]:
    """The expressions that are a pattern of a rule, the outermost first; what stands in a hole is an argument."""
    for pattern in rule.patterns:
        kind = type(pattern.tree)
        found = [node for node in module.parents if type(node) is kind]
        for node in sorted(found, key=lambda node: (module.span(node)[0], -module.span(node)[1])):
            if (captured := pattern.captures(module, node)) is not None:
                assert isinstance(node, cst.BaseExpression)
                yield f"`{pattern.text}`", _patterned(module, node, rule.id, pattern, captured)


def _patterned(
    module: Module, node: cst.BaseExpression, rule: str, pattern: Pattern, captured: dict[str, cst.BaseExpression]
) -> Site:
    arguments = []
    for name, value in holes(pattern, captured):
        line, column = module.location(value)
        arguments.append(Argument(name, read_value(module, value, rule), line, column, node=value))
    site = read_site(module, node, "pattern", rule, pattern.text, ())
    return replace(site, arguments=tuple(arguments))
