"""What a name, an attribute or an item may hold of the dictionaries that a file writes out, and where it is used: over
functions, their parameters and loops."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ..calls import argument_of, calls_of, returned
from ..held_values import held_by_class
from ..indexes import index_of
from ..merged import Merged
from ..module import Module
from ..scopes import Binding
from ..values import Unknown, evaluate
from .items import copied_by, is_dict_call
from .loaded import composed, loaded

DEEPEST = 20  # names, calls and dictionaries that lead to one another
MOST_STEPS = 2_000


class Places:
    """Places as they are at `call`."""

    def __init__(self, module: Module, call: cst.Call) -> None:
        self.module, self.call = module, call
        self.entered: dict[cst.FunctionDef, cst.Call] = {}  # functions of the file, by the call that leads to them
        self.steps = 0

    def unknown(self) -> None:
        """Note that there is something which can't be told."""

    def rest(self, function: cst.FunctionDef, call: cst.Call, depth: int) -> None:
        """Note what a call gives `**kwargs` of a function."""

    def held(self, node: cst.BaseExpression, depth: int) -> list[cst.BaseExpression]:
        """What a name, an attribute of `self` or of a class, or an item is given where it is bound."""
        if isinstance(node, cst.Subscript):
            return self.items(node.value, index_of(node), depth)
        meaning = self.module.meaning(node)
        if (members := members_of(self.module, node)) and isinstance(node, cst.Attribute):
            return [value for binding in members for value in self.bound(binding, node.attr, depth)]
        if meaning is None:
            if not isinstance(node, cst.Attribute):
                self.unknown()
                return []
            value = held_by_class(self.module, node)
            return (
                [value] if value is not None else self.items(node.value, cst.SimpleString(repr(node.attr.value)), depth)
            )
        return [value for binding in self.governing(node)[0] for value in self.bound(binding, node, depth)]

    def governing(self, node: cst.BaseExpression) -> tuple[list[Binding], int, int | None]:
        """The bindings of a name that may hold where it stands, and the places from and up to which its uses count."""
        module, meaning = self.module, self.module.meaning(node)
        scope, bindings = meaning if meaning is not None else (None, [])
        end = module.span(node)[0] if scope is not None and module.scope(node) is scope else None
        held = [each for each in bindings if end is None or _place(module, each) <= end] or bindings
        sure = [number for number, each in enumerate(held) if not each.conditional and _makes(each)]
        if end is None or not sure:
            return held, 0, end
        return held[sure[-1] :], module.span(held[sure[-1]].node)[0], end

    def bound(self, binding: Binding, node: cst.BaseExpression, depth: int) -> Iterator[cst.BaseExpression]:
        if binding.kind == "assign" and binding.value is not None:
            yield binding.value
        elif binding.kind == "parameter" and isinstance(binding.node, cst.Param):
            yield from self.parameter(binding.node, depth)
        elif isinstance(binding.node, cst.For | cst.CompFor) and isinstance(node, cst.Name):
            target, over = binding.node.target, binding.node.iter
            of_items = isinstance(over, cst.Call) and isinstance(over.func, cst.Attribute) and not over.args
            if isinstance(target, cst.Name) and target.value == node.value:
                yield from self.items(over, None, depth)
            elif of_items and isinstance(over, cst.Call) and isinstance(over.func, cst.Attribute):
                yield from self.items(over.func.value, None, depth)
            else:
                self.unknown()
        elif not isinstance(binding.node, cst.AugAssign):
            self.unknown()

    def parameter(self, param: cst.Param, depth: int) -> Iterator[cst.BaseExpression]:
        """What the call that leads here, or each call of the function, gives a parameter."""
        function = next((each for each in self.module.ancestors(param) if isinstance(each, cst.FunctionDef)), None)
        calls = calls_of(self.module, function) if function is not None else []
        if function is not None and (settings := composed(self.module, function)) is not None:
            self.unknown()  # the command line may change them
            yield settings
            return
        if function is None or not calls:
            self.unknown()
            return
        for call in [self.entered[function]] if function in self.entered else calls:
            if param is function.params.star_kwarg:
                self.rest(function, call, depth)
            elif (value := argument_of(self.module, call, param.name.value)) is not None:
                yield value
            else:
                self.unknown()

    def items(self, node: cst.BaseExpression, key: cst.BaseExpression | None, depth: int) -> list[cst.BaseExpression]:
        """What a dictionary or a list holds at `key`; all of it where only the run knows that."""
        self.steps += 1
        if depth > DEEPEST or self.steps > MOST_STEPS:
            self.unknown()
            return []
        found = [*self._items(node, key, depth + 1)]
        if not found:
            self.unknown()
        return found

    def _items(
        self, node: cst.BaseExpression, key: cst.BaseExpression | None, depth: int
    ) -> Iterator[cst.BaseExpression]:
        if isinstance(node, cst.Dict):
            for element in node.elements:
                if isinstance(element, cst.StarredDictElement):
                    yield from self.items(element.value, key, depth)
                elif isinstance(element, cst.DictElement) and self.is_one(element.key, key):
                    yield element.value
        elif isinstance(node, cst.List | cst.Tuple):
            place = self.known(key)
            values = [element.value for element in node.elements]
            yield from values[place : place + 1 or None] if isinstance(place, int) else values
        elif isinstance(node, cst.IfExp | cst.BooleanOperation | cst.BinaryOperation):
            both = (node.body, node.orelse) if isinstance(node, cst.IfExp) else (node.left, node.right)
            for each in both:
                yield from self.items(each, key, depth)
        elif isinstance(node, cst.Call):
            yield from self._items_of_call(node, key, depth)
        elif isinstance(node, cst.Name | cst.Attribute | cst.Subscript):
            for value in self.held(node, depth):
                yield from self.items(value, key, depth)
            for use in self.uses(node):
                item = self.module.parents[use]
                target = self.module.parents[item]
                assign = self.module.parents[target] if isinstance(target, cst.AssignTarget) else None
                if (
                    isinstance(item, cst.Subscript)
                    and isinstance(assign, cst.Assign)
                    and self.is_one(index_of(item), key)
                ):
                    yield assign.value

    def _items_of_call(
        self, call: cst.Call, key: cst.BaseExpression | None, depth: int
    ) -> Iterator[cst.BaseExpression]:
        if is_dict_call(call):
            for argument in call.args:
                name = argument.keyword.value if argument.keyword is not None else ""
                if not name:
                    yield from self.items(argument.value, key, depth)
                elif self.known(key) in (None, name):
                    yield argument.value
        elif (function := self.function(call)) is not None:
            self.entered.setdefault(function, call)
            for value in returned(self.module, function):
                yield from self.items(value, key, depth)
        elif (copied := copied_by(self.module, call)) is not None:
            yield from self.items(copied, key, depth)
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "get" and call.args:
            for value in self.items(call.func.value, call.args[0].value, depth):
                yield from self.items(value, key, depth)
        elif (held := loaded(self.module, call)) is not None:
            self.unknown()
            yield from self.items(held, key, depth)

    def function(self, call: cst.Call) -> cst.FunctionDef | None:
        """The function of the project that a call means."""
        members = members_of(self.module, call.func)
        found = members[0].node if len(members) == 1 else self.module.callees.get(call)
        return found if isinstance(found, cst.FunctionDef) else None

    def known(self, node: cst.BaseExpression | None) -> object:
        try:
            return evaluate(self.module, node) if node is not None else None
        except Unknown:
            return None

    def is_one(self, node: cst.BaseExpression | None, key: cst.BaseExpression | None) -> bool:
        """Whether two keys may be the same."""
        one, other = self.known(node), self.known(key)
        return one is None or other is None or one == other

    def uses(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The uses of what a place holds, before the call where they stand in its scope."""
        module = self.module
        if isinstance(node, cst.Subscript):
            for use in self.uses(node.value):
                item = module.parents[use]
                if (
                    isinstance(item, cst.Subscript)
                    and item.value is use
                    and self.is_one(index_of(item), index_of(node))
                ):
                    yield item
            return
        meaning = module.meaning(node)
        if meaning is None:
            return
        name = node.value if isinstance(node, cst.Name) else module.code(node)
        _, start, end = self.governing(node)
        for use in module.references(name, meaning[0]):
            if start <= module.span(use)[0] and (end is None or module.span(use)[0] < end):
                yield use


def _place(module: Module, binding: Binding) -> int:
    """From where on a name is bound."""
    start, end = module.span(binding.node)
    return end if isinstance(binding.node, cst.Assign | cst.AnnAssign | cst.AugAssign) else start


def _makes(binding: Binding) -> bool:
    return not isinstance(binding.node, cst.AugAssign)


def members_of(module: Module, node: cst.BaseExpression) -> list[Binding]:
    """What binds `conf.SETTINGS`, where `conf` is another file of the project's."""
    return module.member(node) if isinstance(module, Merged) and node in module.parents else []
