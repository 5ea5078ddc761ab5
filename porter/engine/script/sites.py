"""Sites: the calls of a source that matter to the recipe, as text and offsets (no syntax trees).

A site is what a table or rule matched: where it stands, what it is assigned to, and its arguments with
`**kwargs` that the file itself builds already spread out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import libcst as cst

from ...recipe import Origin, Value
from ...source.conditions import chosen_on_gpu
from ...source.dictionaries.filled import Item, built_items, made_of
from ...source.dictionaries.items import dict_items
from ...source.dictionaries.menus import chosen_items
from ...source.dictionaries.possible import possible_keys
from ...source.dictionaries.returned import ReturnedItem, returned_items
from ...source.module import Module
from ...source.read_value import BARE, read_value
from ...source.remarks import UNSAID, Remark, remarks_in
from ...source.scopes import Scope
from ...text.edits import line_start
from ...text.expressions import enclosed
from ..packs.facts import FACTS, NONE, Facts

SHARED = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
Place = Literal["line", "suite", "crowded"]
OBJECTS = ("arguments", "lora")  # the roles of calls whose objects the port may keep, and read when it runs


@dataclass(frozen=True)
class Argument:
    """One argument of a call: its keyword (`""` while positional), its value, its place and what is said of it.

    `reference` is the variable that it is, a name or `self.x`; `certain` whether the call surely has it; `beside` what
    a file of the project's settings says that it is.
    """

    name: str
    value: Value
    line: int
    column: int
    remark: Remark = UNSAID
    reference: str | None = None
    node: cst.BaseExpression | None = None
    certain: bool = True
    beside: cst.BaseExpression | None = None

    @property
    def text(self) -> str:
        """Its code, in parentheses where its further lines need those that the call has."""
        return enclosed(self.value.text or self.value.code)


@dataclass(frozen=True)
class Site:
    """A matched call.

    `start:end` is the call, `statement_start:statement_end` its statement without indentation and line end. `place`
    says what shares the line with that statement: nothing (`line`), the header that it is the body of (`suite`,
    `if x: trainer.train()`), or other code (`crowded`, where nothing may be replaced but the call itself).
    `variable` is the name (or `self.name`) it is assigned to when the statement is exactly `name = call`, bound in
    scope `home` (of `self.name` the class); `alone` when the statement is exactly the call. `unknown_keywords` is the
    text of a `**` argument that can't be read.
    """

    role: str
    rule: str
    qualified: str
    arguments: tuple[Argument, ...]
    start: int
    end: int
    statement_start: int
    statement_end: int
    indent: str
    line: int
    column: int
    place: Place
    variable: str | None
    alone: bool
    unknown_keywords: str
    scope: Scope
    node: cst.Call | cst.For | cst.BaseExpression | cst.BaseCompoundStatement
    is_bound: bool = True

    @property
    def home(self) -> Scope:
        """The scope in which `variable` is bound."""
        if self.variable is None:
            return self.scope
        if "." in self.variable:
            name, scope = self.variable.split(".", 1)[0], self.scope
            method = scope.lookup(name)
            assert method is not None and method[0].parent is not None
            return method[0].parent
        found = self.scope.lookup(self.variable)
        return found[0] if found is not None else self.scope

    def argument(self, *names: str) -> Argument | None:
        """The argument with one of `names`, or None."""
        for argument in self.arguments:
            if argument.name in names:
                return argument
        return None


def read_site(
    module: Module, call: cst.BaseExpression, role: str, rule: str, qualified: str, positional: tuple[str, ...]
) -> Site:
    """The Site of a call; positional arguments get their names from `positional`. Another expression has none."""
    start, end = module.span(call)
    small, place = small_statement(module, call)
    first, last = module.span(small if small is not None else call)
    if small is not None and place == "line":
        first = module.span(module.parents[small])[0]  # with the magic that runs it
    line, column = module.location(call)
    unknown: list[str] = []
    given = _arguments(module, call, role, rule, unknown) if isinstance(call, cst.Call) else iter(())
    arguments = tuple(_named(given, positional))
    return Site(
        role=role,
        rule=rule,
        qualified=qualified,
        arguments=arguments,
        start=start,
        end=end,
        statement_start=first,
        statement_end=last,
        indent=indentation(module.text, first),
        line=line,
        column=column,
        place=place,
        variable=_assigned_to(module, call, role, qualified),
        alone=isinstance(module.parents[call], cst.Expr) and place != "crowded",
        unknown_keywords=", ".join(unknown),
        scope=module.scope(call),
        node=call,
    )


def facts_of(module: Module) -> Facts:
    """What the packs say of their libraries' names."""
    found: Facts = module.memory.get(FACTS, NONE)
    return found


def absent_packages(module: Module) -> frozenset[str]:
    """The packages of the GPU side: an import of theirs that nothing uses any more would only ask for an install."""
    facts = facts_of(module)
    return frozenset((*facts.gpu_side, *facts.absent, *facts.needs_gpu))


def is_of_gpu_library(module: Module, name: cst.BaseExpression) -> bool:
    """Whether a name is that of something of a package that only a GPU machine has: `F.cross_entropy`."""
    qualified = module.qualified(name)
    return qualified is not None and qualified.partition(".")[0] in facts_of(module).gpu_side


def _assigned_to(module: Module, call: cst.BaseExpression, role: str, qualified: str) -> str | None:
    if qualified in facts_of(module).loads_pair:
        names = pair_names(module, call)
        return names[0] if names is not None else None
    return assigned_name(module, call) or (_unpacked_name(module, call) if role in ("model", "inject") else None)


def pair_names(module: Module, call: cst.CSTNode) -> tuple[str, str] | None:
    """`model` and `tokenizer` of the statement `model, tokenizer = call`; None when it is another."""
    parent = module.parents[call]
    if small_statement(module, call)[1] == "crowded" or not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return None
    target = parent.targets[0].target
    if not isinstance(target, cst.Tuple | cst.List) or len(target.elements) != 2:
        return None
    model, tokenizer = (_variable(module, element.value) for element in target.elements)
    return (model, tokenizer) if model and tokenizer else None


def assigned_name(module: Module, value: cst.CSTNode) -> str | None:
    """`name` when the statement of `value` is exactly `name = value` (annotated or not); `self.name` too."""
    parent = module.parents[value]
    if small_statement(module, value)[1] == "crowded":
        return None
    target: cst.BaseExpression | None = None
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        target = parent.targets[0].target
    elif isinstance(parent, cst.AnnAssign):
        target = parent.target
    return _variable(module, target)


def _variable(module: Module, target: cst.BaseExpression | None) -> str | None:
    if isinstance(target, cst.Name):
        return target.value
    return module.code(target) if target is not None and module.meaning(target) is not None else None


def _unpacked_name(module: Module, value: cst.CSTNode) -> str | None:
    """`model` for the first call of `model, tokenizer = from_pretrained(...), from_pretrained(...)`."""
    element = module.parents[value]
    values = module.parents[element] if isinstance(element, cst.Element) else None
    statement = module.parents[values] if isinstance(values, cst.Tuple | cst.List) else None
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1 or statement.value is not values:
        return None
    assert isinstance(values, cst.Tuple | cst.List) and isinstance(element, cst.Element)
    target = statement.targets[0].target
    if not isinstance(target, cst.Tuple | cst.List) or len(target.elements) != len(values.elements):
        return None
    return _variable(module, target.elements[list(values.elements).index(element)].value)


def indentation(text: str, offset: int) -> str:
    """The spaces and tabs with which the line of `offset` begins; a form feed is no indentation."""
    begin = line_start(text, offset)
    space = re.match(r"\s*", text[begin:offset])
    return space[0].replace("\f", "") if space else ""


def _is_timed(module: Module, line: cst.CSTNode) -> bool:
    """Whether a notebook's line is a magic and the statement that it runs: `%time trainer.train()`."""
    start = module.span(line)[0]
    return module.has_magics and module.text[start : start + 1] == "%" and module.parsed[start : start + 5] == "None;"


def small_statement(module: Module, node: cst.CSTNode) -> tuple[cst.BaseSmallStatement | None, Place]:
    """The statement that holds `node`, and what shares its line; None where it stands in a compound one's header."""
    for ancestor in chain([node], module.ancestors(node)):
        if isinstance(ancestor, cst.BaseSmallStatement):
            holder = module.parents[ancestor]
            alone = isinstance(holder, SHARED) and (len(holder.body) == 1 or _is_timed(module, holder))
            if not alone:
                return ancestor, "crowded"
            return ancestor, "line" if isinstance(holder, cst.SimpleStatementLine) else "suite"
        if isinstance(ancestor, cst.BaseCompoundStatement):
            break
    return None, "crowded"


def _arguments(module: Module, call: cst.Call, role: str, rule: str, unknown: list[str]) -> Iterator[Argument]:
    remarks = remarks_in(call)
    for argument in call.args:
        if argument.star == "**":
            items = dict_items(module, argument.value)
            if items is None and (built := built_items(module, argument.value, call)) is not None:
                yield from (_held(module, _built(module, item, rule), argument.value) for item in built)
                continue
            if items is None and (chosen := chosen_items(module, argument.value)) is not None:
                given = (_built(module, item, rule) for item in chosen)
                yield from (item for item in given if not item.value.is_literal(None))
                continue
            if items is None:
                returned = returned_items(module, argument.value)
                if returned is None:
                    keys = possible_keys(module, argument.value, call) if role in OBJECTS else None
                    if keys is None or not keys.complete:
                        unknown.append(module.code(argument))
                    for name, value in keys.found.items() if keys is not None else ():
                        yield _possible(module, name, value, argument.value, rule)
                    continue
                for item in returned:
                    if isinstance(argument.value, cst.Call):
                        yield _argument(module, item.key, item.value, rule)
                    else:
                        yield _returned_argument(module, item, argument.value, rule)
                continue
            inside = remarks_in(argument.value) if isinstance(argument.value, cst.Dict | cst.Call) else {}
            for name, value in items:
                found = replace(_argument(module, name, value, rule), remark=inside.get(value, UNSAID))
                yield _held(module, found, argument.value)
        elif argument.star == "*":
            unknown.append(module.code(argument))
        else:
            name = argument.keyword.value if argument.keyword is not None else ""
            yield replace(_argument(module, name, argument.value, rule), remark=remarks[argument.value])


def _held(module: Module, argument: Argument, keywords: cst.BaseExpression) -> Argument:
    """What a dictionary of the script already made is read from there: `kwargs["train_dataset"]`, not loaded again."""
    if not isinstance(keywords, cst.Name) or not argument.certain or not isinstance(argument.node, cst.Call):
        return argument
    if argument.value.known:
        return argument
    read = f'{made_of(module, keywords)}["{argument.name}"]'
    return replace(argument, value=replace(argument.value, code=read, text=read))


def _built(module: Module, item: Item, rule: str) -> Argument:
    """An item of a dictionary that the script fills step by step; what is set by condition is read when it runs."""
    if not item.certain and item.read == module.code(item.value):
        given = _argument(module, item.name, item.value, rule)
        return replace(given, certain=given.value.known)
    if not item.certain:
        line, column = module.location(item.value)
        value = Value("expression", item.read, Origin(module.path, line, column, rule), item.read)
        return Argument(item.name, value, line, column, certain=False)
    return _argument(module, item.name, item.value, rule)


def _argument(module: Module, name: str, value: cst.BaseExpression, rule: str) -> Argument:
    value = chosen_on_gpu(module, value)
    line, column = module.location(value)
    reference = module.code(value) if isinstance(value, cst.Name) or module.meaning(value) is not None else None
    found = read_value(module, value, rule)
    lines = "\n" in found.text and bool(value.lpar) and not found.known and not isinstance(value, cst.Call)
    if lines and not isinstance(value, BARE):  # nowhere but in its parentheses
        found = replace(found, code=f"({found.code})", text=f"({found.text or found.code})")
    return Argument(name, found, line, column, UNSAID, reference, value)


def _returned_argument(module: Module, item: ReturnedItem, place: cst.BaseExpression, rule: str) -> Argument:
    """An argument that a function of the file put into a dict: read from the dict, unless it is certainly None."""
    line, column = module.location(place)
    origin = Origin(module.path, line, column, rule)
    if isinstance(item.value, cst.Name) and item.value.value == "None":
        return Argument(item.key, Value("literal", "None", origin, "None"), line, column)
    return Argument(item.key, Value("expression", item.code, origin, item.code), line, column)


def _possible(
    module: Module, name: str, value: cst.BaseExpression, keywords: cst.BaseExpression, rule: str
) -> Argument:
    """A keyword that a dictionary may hold, which nobody but the object that is made of it reads."""
    is_here = value in module.parents  # not in a file beside
    line, column = module.location(value if is_here else keywords)
    dictionary = (
        module.code(keywords) if isinstance(keywords, cst.Name | cst.Subscript) else f"({module.code(keywords)})"
    )
    read = f'{dictionary}["{name}"]'
    found = Value("expression", read, Origin(module.path, line, column, rule), module.code(value) if is_here else read)
    held, beside = (value, None) if is_here else (None, value)
    return Argument(name, found, line, column, node=held, certain=False, beside=beside)


def _named(arguments: Iterator[Argument], positional: tuple[str, ...]) -> Iterator[Argument]:
    for index, argument in enumerate(arguments):
        if argument.name:
            yield argument
        else:
            yield replace(argument, name=positional[index] if index < len(positional) else f"argument {index + 1}")


def shown(text: str) -> str:
    """An expression for the report: on one line; a call spread over several lines without its arguments."""
    if "\n" in text and (call := re.match(r"[\w.]+\(", text)):
        return f"{call[0]}...)"
    return " ".join(text.split())


def shortened(code: str) -> str:
    """Code for a message: on one line of at most 80 characters."""
    code = shown(code)
    return code if len(code) <= 80 else f"{code[:77]}..."


def can_not_fail(holder: cst.CSTNode, block: cst.CSTNode) -> bool:
    """Whether a block that is empty is the body of a `try`, whose handlers have nothing to catch then."""
    return isinstance(holder, cst.Try) and holder.body is block and holder.orelse is None and holder.finalbody is None


def counts_for_nothing(module: Module, loop: cst.CSTNode) -> bool:
    """Whether a loop over a `range(...)` with an empty body would set a name that nothing else reads, and no more."""
    if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Call) or not isinstance(loop.target, cst.Name):
        return False
    uses = module.references(loop.target.value, module.scope(loop))
    within = all(loop in module.ancestors(use) for use in uses)
    return module.code(loop.iter.func) == "range" and loop.orelse is None and within
