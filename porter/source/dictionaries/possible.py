"""The keywords that a call may get from a dictionary, however that is put together: over functions and their
parameters, `cfg["training"]`, loops, objects of the file (`asdict(Settings())`).

More than are surely there, and none where nothing is known: they date a script, and its release has to take them. What
a call certainly gets is told by the other modules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import libcst as cst

from ..calls import class_of, parameter_of, returned
from ..indexes import index_of
from ..module import Module
from ..project.around import with_what_it_imports
from ..scopes import is_main_guard
from ..values import Unknown, evaluate
from .items import copied_by, is_dict_call, zipped
from .loaded import loaded
from .places import DEEPEST, MOST_STEPS, Places

READS = ("keys", "values", "items", "copy", "get")
OF_OBJECTS = ("dataclasses.asdict", "vars")
BY_CONDITION = (cst.If, cst.IfExp, cst.Try, cst.For, cst.While, cst.CompFor, cst.BooleanOperation)
# What they are made of has its keys.
OF_DICTIONARIES = (
    "ChainMap",
    "MappingProxyType",
    "to_container",
    "to_object",
    "merge",
    "create",
    "DictConfig",
    "EasyDict",
)
BLOCKS = (cst.BaseSuite, cst.Module)
EMPTY = ("None", "True", "False")


@dataclass
class Keys:
    """Keys with the code that gives each its value; `complete` where there can be no others."""

    found: dict[str, cst.BaseExpression] = field(default_factory=dict)
    complete: bool = True


def possible_keys(module: Module, node: cst.BaseExpression, call: cst.Call) -> Keys:
    """The keys that a `**` argument of `call` may have, also by what the script imports of its project."""
    keys = _read(module, node, call)
    if keys.complete or (whole := with_what_it_imports(module)) is module:
        return keys
    keys = _read(whole, node, call)
    beside = {key for key, value in keys.found.items() if value not in module.parents and depends(whole, value)}
    return Keys({key: value for key, value in keys.found.items() if key not in beside}, keys.complete)


def depends(module: Module, value: cst.CSTNode) -> bool:
    """Whether a value is only given by condition, in a loop, or where something fails."""
    around = module.ancestors(value) if value in module.parents else iter(())
    inner = takewhile(lambda each: not isinstance(each, cst.FunctionDef), around)
    conditions = (each for each in inner if isinstance(each, BY_CONDITION))
    return any(not isinstance(each, cst.If) or not is_main_guard(each) for each in conditions)


def _read(module: Module, node: cst.BaseExpression, call: cst.Call) -> Keys:
    reader = _Reader(module, call)
    reader.read(node, 0)
    return Keys({key: value for key, value in reader.keys.found.items() if key.isidentifier()}, reader.keys.complete)


class _Reader(Places):
    def __init__(self, module: Module, call: cst.Call) -> None:
        super().__init__(module, call)
        self.keys = Keys()
        self.asked: set[cst.CSTNode] = set()  # what is being read, which leads to itself in a circle

    def unknown(self) -> None:
        self.keys.complete = False

    def add(self, key: str, value: cst.BaseExpression) -> None:
        self.keys.found[key] = value

    def read(self, node: cst.BaseExpression, depth: int) -> None:
        """Note the keys that `node`, a dictionary, may have."""
        if node in self.asked:
            return
        self.steps += 1
        if depth > DEEPEST or self.steps > MOST_STEPS:
            self.unknown()
            return
        self.asked.add(node)
        self._read(node, depth + 1)
        self.asked.discard(node)

    def _read(self, node: cst.BaseExpression, depth: int) -> None:
        match node:
            case cst.Dict():
                self.elements(node.elements, depth)
            case cst.Name() if node.value in EMPTY:
                pass
            case cst.IfExp():
                self.read(node.body, depth)
                self.read(node.orelse, depth)
            case cst.BinaryOperation(operator=cst.BitOr()) | cst.BooleanOperation():
                self.read(node.left, depth)
                self.read(node.right, depth)
            case cst.DictComp():
                self.comprehension(node, depth)
            case cst.Call():
                self.called(node, depth)
            case cst.Name() | cst.Attribute() | cst.Subscript():
                self.place(node, depth)
            case _:
                self.unknown()

    def elements(self, elements: Sequence[cst.BaseDictElement], depth: int) -> None:
        for element in elements:
            if isinstance(element, cst.DictElement):
                self.keyed(element.key, element.value)
            else:
                self.read(element.value, depth)

    def keyed(self, key: cst.BaseExpression, value: cst.BaseExpression, use: cst.CSTNode | None = None) -> None:
        """Note an item; `use` is where a dictionary gets it, which some of a loop's keys may not come to."""
        if use is not None and self.known(key) is None and self.is_filtered(use, key):
            self.unknown()
            return
        names = [*self.texts(key)]
        for name in names:
            self.add(name, value)
        if not names:
            self.unknown()

    def texts(self, node: cst.BaseExpression) -> Iterator[str]:
        """The texts that a key may be: one that is known, or each that a loop goes through."""
        try:
            known = evaluate(self.module, node)
            yield from [known] if isinstance(known, str) else []
            return
        except Unknown:
            pass
        meaning = self.module.meaning(node) if isinstance(node, cst.Name) else None
        for binding in meaning[1] if meaning is not None else ():
            loop = binding.node
            if not isinstance(loop, cst.For):
                continue
            first = loop.target.elements[0].value if isinstance(loop.target, cst.Tuple) else loop.target
            over = loop.iter
            if isinstance(over, cst.Call) and isinstance(over.func, cst.Attribute) and over.func.attr.value in READS:
                over = over.func.value
            if not isinstance(first, cst.Name) or not isinstance(node, cst.Name) or first.value != node.value:
                continue
            try:
                known = evaluate(self.module, over)
            except Unknown:
                inner = _Reader(self.module, self.call)
                inner.read(over, DEEPEST // 2)
                known = [*inner.keys.found]
            yield from (
                (each for each in known if isinstance(each, str)) if isinstance(known, dict | list | tuple) else ()
            )

    def comprehension(self, node: cst.DictComp, depth: int) -> None:
        """`{k: v for k, v in kwargs.items() if v is not None}`: some of what it goes through, unless by name."""
        loop, over = node.for_in, node.for_in.iter
        names = (
            [self.module.code(each.value) for each in loop.target.elements]
            if isinstance(loop.target, cst.Tuple)
            else []
        )
        called = over.func if isinstance(over, cst.Call) and not over.args else None
        asked = any(names[:1] == [name.value] for test in loop.ifs for name in self.module.names_read(test))
        plain = names[:1] == [self.module.code(node.key)] and loop.inner_for_in is None and not asked
        if plain and (pair := zipped(self.module, over)) is not None:
            self.paired(pair[0], over)
        elif plain and isinstance(called, cst.Attribute) and called.attr.value == "items":
            self.read(called.value, depth)
            for key, value in [*self.keys.found.items()] if loop.ifs else ():
                if isinstance(value, cst.Name) and value.value == "None":
                    del self.keys.found[key]
        else:
            self.unknown()

    # Calls

    def called(self, call: cst.Call, depth: int) -> None:
        module = self.module
        if (copied := copied_by(module, call)) is not None:
            self.read(copied, depth)
        elif is_dict_call(call):
            self.given(call.args, depth)
        elif (function := self.function(call)) is not None:
            self.entered_by(function, call, depth)
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value in ("get", "pop") and call.args:
            for value in self.items(call.func.value, call.args[0].value, depth):
                self.read(value, depth)
            for default in call.args[1:2]:
                self.read(default.value, depth)
        elif (module.qualified(call.func) or module.code(call.func)) in OF_OBJECTS and len(call.args) == 1:
            self.fields(call.args[0].value, depth)
        elif (held := loaded(module, call)) is not None:
            self.unknown()  # the run may find another
            self.read(held, depth)
        elif (module.qualified(call.func) or "").rpartition(".")[2] in OF_DICTIONARIES and call.args:
            self.given([each for each in call.args if each.keyword is None], depth)
        else:
            self.unknown()

    def given(self, arguments: Sequence[cst.Arg], depth: int) -> None:
        """The keys of what `dict(...)` or `kwargs.update(...)` is given."""
        for argument in arguments:
            if argument.keyword is not None:
                self.add(argument.keyword.value, argument.value)
            elif isinstance(argument.value, cst.List | cst.Tuple) and not argument.star:
                for pair in argument.value.elements:
                    both = pair.value.elements if isinstance(pair.value, cst.Tuple | cst.List) else ()
                    if len(both) == 2:
                        self.keyed(both[0].value, both[1].value)
                    else:
                        self.unknown()
            elif (lists := zipped(self.module, argument.value)) is not None:
                self.paired(lists[0], argument.value)
            else:
                self.read(argument.value, depth)

    def paired(self, first: cst.BaseExpression, call: cst.BaseExpression) -> None:
        """The keys of the pairs of `zip(names, values)`, whatever the values are."""
        names = self.known(first)
        for name in names if isinstance(names, list | tuple) else ():
            self.add(str(name), call)
        if not isinstance(names, list | tuple):
            self.unknown()

    def entered_by(self, function: cst.FunctionDef, call: cst.Call, depth: int) -> None:
        """The keys of what a function of the file returns to a call."""
        values = returned(self.module, function)
        if function in self.entered or not values:
            self.unknown()
            return
        self.entered[function] = call
        for value in values:
            self.read(value, depth)
        del self.entered[function]

    def fields(self, node: cst.BaseExpression, depth: int) -> None:
        """The fields of an object: of a class of the file, or made by keywords alone (`SimpleNamespace(lr=1e-4)`)."""
        module, made = self.module, node
        binding = module.single_binding(node)
        if binding is not None and binding.kind == "assign" and binding.value is not None:
            made = binding.value
        scope = class_of(module, made, instance=True)
        if scope is None or not isinstance(scope.node, cst.ClassDef) or scope.node.bases:
            self.unknown()
        for line in scope.node.body.body if scope is not None and isinstance(scope.node, cst.ClassDef) else ():
            for part in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                if isinstance(part, cst.AnnAssign) and isinstance(part.target, cst.Name):
                    self.add(part.target.value, part.value or part.target)
        for name, bindings in scope.attributes.items() if scope is not None else ():
            self.add(name, bindings[-1].value or cst.Name(name))
        for argument in made.args if isinstance(made, cst.Call) else ():
            if argument.keyword is not None and (scope is None or argument.keyword.value in self.keys.found):
                self.add(argument.keyword.value, argument.value)

    # Names, attributes and items

    def place(self, node: cst.Name | cst.Attribute | cst.Subscript, depth: int) -> None:
        """The keys of what a place holds, and those that its uses give it or take out."""
        if isinstance(node, cst.Attribute) and node.attr.value == "__dict__":
            self.fields(node.value, depth)
            return
        for value in self.held(node, depth):
            self.read(value, depth)
        for use in self.uses(node):
            self.change(use, depth)

    def rest(self, function: cst.FunctionDef, call: cst.Call, depth: int) -> None:
        """The keywords that a call gives `**kwargs` of a function."""
        named = {each.name.value for each in (*function.params.params, *function.params.kwonly_params)}
        for argument in call.args:
            if argument.keyword is not None and argument.keyword.value not in named:
                self.add(argument.keyword.value, argument.value)
            elif argument.star == "**":
                self.read(argument.value, depth)

    def change(self, use: cst.BaseExpression, depth: int) -> None:
        """Note what a use of a dictionary gives it, or takes out."""
        module = self.module
        parent = module.parents[use]
        if isinstance(parent, cst.AugAssign) and parent.target is use:
            self.read(parent.value, depth)
        elif isinstance(parent, cst.Subscript) and parent.value is use:
            target, key = module.parents[parent], index_of(parent)
            assign = module.parents[target] if isinstance(target, cst.AssignTarget) else None
            if isinstance(assign, cst.Assign) and key is not None:
                self.keyed(key, assign.value, use)
                self.renamed(assign.value)
            elif isinstance(target, cst.Del):
                self.remove(use, key)
        elif isinstance(parent, cst.Attribute) and isinstance(call := module.parents[parent], cst.Call):
            first = call.args[0].value if call.args else None
            if parent.attr.value == "update":
                self.given(call.args, depth)
            elif parent.attr.value == "setdefault" and first is not None and len(call.args) == 2:
                if self.known(first) not in self.keys.found:
                    self.keyed(first, call.args[1].value)
            elif parent.attr.value == "pop":
                self.remove(use, first)
            elif parent.attr.value not in READS:
                self.unknown()
        elif isinstance(parent, cst.Arg) and isinstance(call := module.parents[parent], cst.Call):
            self.changed_by(call, parent, depth)

    def changed_by(self, call: cst.Call, argument: cst.Arg, depth: int) -> None:
        """Note what a function of the file does to a dictionary that it is given."""
        function, name = self.module.callees.get(call), parameter_of(self.module, argument, call)
        if function is None or argument.star or function in self.entered:
            return
        self.unknown()
        self.steps += 1
        for use in self.module.references(name, self.module.scopes[function]) if name is not None else ():
            if depth <= DEEPEST and self.steps <= MOST_STEPS:
                self.change(use, depth + 1)

    def is_filtered(self, use: cst.CSTNode, key: cst.BaseExpression) -> bool:
        """Whether a line stands under an `if` that asks for a key: `if name in accepted: settings[name] = value`."""
        name = key.value if isinstance(key, cst.Name) else ""
        tests = [each.test for each in self.module.ancestors(use) if isinstance(each, cst.If)]
        return any(read.value == name for test in tests for read in self.module.names_read(test))

    def renamed(self, value: cst.BaseExpression) -> None:
        """Forget the old key of `settings["new"] = settings.pop("old")`."""
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value == "pop":
            for argument in value.args[:1]:
                self.keys.found.pop(str(self.known(argument.value)), None)

    def remove(self, use: cst.BaseExpression, key: cst.BaseExpression | None) -> None:
        """Forget a key that is taken out, unless that hangs on something."""
        module = self.module
        block = next(each for each in module.ancestors(use) if isinstance(each, BLOCKS))
        names = [*self.texts(key)] if key is not None else []
        if self.known(key) is None and isinstance(module.parents.get(block), cst.For):  # one of those it goes through
            block = next(each for each in module.ancestors(module.parents[block]) if isinstance(each, BLOCKS))
        around = [*module.ancestors(self.call)]
        if isinstance(block, cst.Module) or isinstance(module.parents[block], cst.FunctionDef) or block in around:
            for name in names:
                self.keys.found.pop(name, None)
