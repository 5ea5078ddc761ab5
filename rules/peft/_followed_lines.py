"""The lines of a function that chooses names of modules, followed: assignments, conditions, loops, texts and sets.

Only what is known to be without another effect is followed, and nothing of the user's is called; any other line raises
`Unclear`. What only the run knows is `Asked`, and the same whenever its code is.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from porter.packs.script import Module, Unknown, evaluate, only_logs

# Which modules are instances of a class; bitsandbytes never holds the head.
CLASSES = {
    "torch.nn.Module": frozenset({"linear", "head", "embedding", "other"}),
    "torch.nn.Linear": frozenset({"linear", "head"}),
    "torch.nn.Embedding": frozenset({"embedding"}),
    "bitsandbytes.nn.Linear4bit": frozenset({"linear"}),
    "bitsandbytes.nn.Linear8bitLt": frozenset({"linear"}),
    "torch.nn.Conv1d": frozenset[str](),
    "torch.nn.Conv2d": frozenset[str](),
    "transformers.pytorch_utils.Conv1D": frozenset[str](),
}
# Where following ends: expressions of one way, parts of a value.
MOST_STEPS, MOST_PARTS = 20_000, 1_000
WHOLE = re.compile(r"(?:self\.)?\w+")  # the code of a model, no part of it
LOGS = frozenset("print info debug warning log".split())
MAKERS: dict[str, Callable[..., Any]] = {
    "set": set, "frozenset": frozenset, "list": list, "tuple": tuple, "sorted": sorted, "len": len
}  # fmt: skip
OF_TEXT = frozenset(
    "split rsplit startswith endswith strip lower upper replace join partition rpartition removeprefix "
    "removesuffix".split()
)
OF_COLLECTION = frozenset("add append discard remove update extend union difference intersection copy sort".split())
COMPARED: dict[type[cst.BaseCompOp], Callable[[Any, Any], Any]] = {
    cst.In: lambda one, many: one in many,
    cst.NotIn: lambda one, many: one not in many,
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
}
COMBINED: dict[type[cst.CSTNode], Callable[[Any, Any], Any]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.BitOr: operator.or_,
    cst.BitAnd: operator.and_,
    cst.AddAssign: operator.add,
    cst.SubtractAssign: operator.sub,
    cst.BitOrAssign: operator.or_,
}


class Unclear(Exception):
    """A line that does more than to choose names."""


class Returns(Exception):
    """`return value`."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


class Ends(Exception):
    """`raise ...`: the run comes no further."""


class Continues(Exception):
    """`continue`."""


class Breaks(Exception):
    """`break`."""


@dataclass(frozen=True)
class Part:
    """A module of the model; `kind`: what it is an instance of."""

    name: str
    kind: str


@dataclass(frozen=True)
class Asked:
    """What only the run knows, the same whenever its code is asked."""

    code: str


@dataclass(frozen=True)
class Kind:
    """A class of modules."""

    instances: frozenset[str]


def known_value(module: Module, node: cst.BaseExpression) -> Any:
    """What the script says that an expression is, to be changed here; `Unknown` is raised where only the run knows."""
    held = evaluate(module, node)
    return held.copy() if isinstance(held, list | set) else held


def asked_of(module: Module, node: cst.BaseExpression) -> Any:
    """The same, `Asked` where only the run knows."""
    try:
        return known_value(module, node)
    except Unknown:
        return Asked(module.code(node))


@dataclass
class Way:
    """One way through a function: `answers` to what is asked of the run, of which `asked` were not told before."""

    module: Module
    parts: list[Part]
    answers: dict[str, bool]
    names: dict[str, Any]
    asked: list[str] = field(default_factory=list)
    steps: int = 0

    def follow(self, line: cst.CSTNode) -> None:
        match line:
            case (
                cst.SimpleStatementLine(body=body) | cst.IndentedBlock(body=body) | cst.SimpleStatementSuite(body=body)
            ):
                for each in body:
                    self.follow(each)
            case cst.If():
                if self.is_true(self.value(line.test)):
                    self.follow(line.body)
                elif line.orelse is not None:
                    self.follow(line.orelse)
            case cst.Else():
                self.follow(line.body)
            case cst.For(asynchronous=None, orelse=None):
                self._loop(line)
            case cst.Return(value=value):
                raise Returns(self.value(value) if value is not None else None)
            case cst.Raise():
                raise Ends
            case cst.Continue():
                raise Continues
            case cst.Break():
                raise Breaks
            case cst.Assign(targets=targets, value=value):
                held = self.value(value)
                for one in targets:
                    self._bind(one.target, held)
            case cst.AnnAssign(value=value) if value is not None:
                self._bind(line.target, self.value(value))
            case cst.AugAssign(target=cst.Name(value=name)) if type(line.operator) in COMBINED:
                self.names[name] = self._sized(COMBINED[type(line.operator)](self.names[name], self.value(line.value)))
            case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()) | cst.Pass() | cst.Import():
                pass
            case cst.ImportFrom() | cst.Assert():
                pass
            case cst.Expr(value=value):
                self.value(value)
            case _:
                raise Unclear

    def _loop(self, line: cst.For) -> None:
        items = self._items(line.iter)
        for item in items:
            self._bind(line.target, item)
            try:
                self.follow(line.body)
            except Continues:
                pass
            except Breaks:
                return
            if isinstance(line.iter, cst.Name) and self._items(line.iter) != items:
                raise Unclear  # what is gone through changes meanwhile

    def _items(self, node: cst.BaseExpression) -> list[Any]:
        held = self.value(node)
        if not isinstance(held, set | frozenset | list | tuple):
            raise Unclear
        return [*held]

    def _bind(self, target: cst.BaseExpression, held: Any) -> None:
        if isinstance(target, cst.Name):
            self.names[target.value] = held
        elif isinstance(target, cst.Tuple) and isinstance(held, list | tuple) and len(held) == len(target.elements):
            for element, each in zip(target.elements, held, strict=True):
                self._bind(element.value, each)
        else:
            raise Unclear

    def is_true(self, held: object) -> bool:
        if isinstance(held, Asked):
            if held.code not in self.answers:
                self.answers[held.code] = True
                self.asked.append(held.code)
            return self.answers[held.code]
        if isinstance(held, Part | Kind):
            raise Unclear
        return bool(held)

    def value(self, node: cst.BaseExpression) -> Any:
        self.steps += 1
        return self._sized(self._value(node))

    def _sized(self, held: Any) -> Any:
        parts = held.code if isinstance(held, Asked) else held
        if self.steps > MOST_STEPS or (isinstance(parts, str | list | tuple | set) and len(parts) > MOST_PARTS):
            raise Unclear
        return held

    def _value(self, node: cst.BaseExpression) -> Any:
        match node:
            case cst.Name(value=name) if name in self.names:
                return self.names[name]
            case cst.Name() | cst.Attribute():
                return self._named(node)
            case cst.SimpleString() | cst.ConcatenatedString() | cst.Integer() | cst.Dict():
                return self._known(node)
            case cst.UnaryOperation(operator=cst.Not()):
                return not self.is_true(self.value(node.expression))
            case cst.UnaryOperation():
                return self._known(node)
            case cst.List() | cst.Tuple() | cst.Set():
                held = [self.value(each.value) for each in node.elements if isinstance(each, cst.Element)]
                if len(held) != len(node.elements) or any(isinstance(each, list | tuple | set) for each in held):
                    raise Unclear
                return held if isinstance(node, cst.List) else set(held) if isinstance(node, cst.Set) else tuple(held)
            case cst.IfExp():
                return self.value(node.body if self.is_true(self.value(node.test)) else node.orelse)
            case cst.BooleanOperation():
                left = self.value(node.left)
                return left if self.is_true(left) is isinstance(node.operator, cst.Or) else self.value(node.right)
            case cst.BinaryOperation() if type(node.operator) in COMBINED:
                return self._settled(COMBINED[type(node.operator)], node.left, node.right)
            case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=how, comparator=other)]):
                left, right = self.value(node.left), self.value(other)
                if isinstance(left, Asked) or isinstance(right, Asked):
                    if not _is_plain(left) or not _is_plain(right):
                        raise Unclear
                    return Asked(f"{left!r} {type(how).__name__} {right!r}")
                return COMPARED[type(how)](left, right)
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
                return self._settled(operator.getitem, node.value, index)
            case cst.ListComp() | cst.SetComp() | cst.GeneratorExp():
                before = dict(self.names)
                found = [*self._chosen(node.elt, node.for_in)]
                self.names = before
                return set(found) if isinstance(node, cst.SetComp) else found
            case cst.Call():
                return self._called(node)
        raise Unclear

    def _settled(self, made: Callable[[Any, Any], Any], left: cst.BaseExpression, right: cst.BaseExpression) -> Any:
        held = self.value(left), self.value(right)
        if any(isinstance(each, Asked | Part | Kind) for each in held):
            raise Unclear
        return made(*held)

    def _known(self, node: cst.BaseExpression) -> Any:
        try:
            return known_value(self.module, node)
        except Unknown:
            raise Unclear from None

    def _named(self, node: cst.Name | cst.Attribute) -> Any:
        """A class, what the script says of a name elsewhere, or what only the run knows."""
        qualified = self.module.qualified(node) or ""
        if qualified.replace(".modules.linear", "") in CLASSES:
            return Kind(CLASSES[qualified.replace(".modules.linear", "")])
        if qualified.partition(".")[0] in ("torch", "bitsandbytes", "transformers"):
            raise Unclear
        head = node
        while isinstance(head, cst.Attribute):
            head = head.value  # type: ignore[assignment]
        if isinstance(head, cst.Name) and head.value in self.names and not isinstance(self.names[head.value], Asked):
            raise Unclear  # `module.weight`
        return asked_of(self.module, node)

    def _chosen(self, element: cst.BaseExpression, clause: cst.CompFor) -> Iterator[Any]:
        for item in self._items(clause.iter):
            self._bind(clause.target, item)
            if all(self.is_true(self.value(each.test)) for each in clause.ifs):
                if clause.inner_for_in is not None:
                    yield from self._chosen(element, clause.inner_for_in)
                else:
                    yield self.value(element)

    def _called(self, node: cst.Call) -> Any:
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else self.module.code(node.func)
        if name in LOGS or only_logs(self.module, node):
            return None
        if isinstance(node.func, cst.Attribute) and name == "named_modules" and not node.args:
            held = self.value(node.func.value)
            if not isinstance(held, Asked) or not _is_whole(node.func.value) or not WHOLE.fullmatch(held.code):
                raise Unclear
            return [(part.name, part) for part in self.parts]
        if any(argument.star or argument.keyword is not None for argument in node.args):
            raise Unclear
        given = [self.value(argument.value) for argument in node.args]
        if name == "isinstance" and len(given) == 2:
            kinds = [*given[1]] if isinstance(given[1], tuple) else [given[1]]
            if not isinstance(given[0], Part) or not all(isinstance(kind, Kind) for kind in kinds):
                raise Unclear
            return any(given[0].kind in kind.instances for kind in kinds)
        if any(isinstance(each, Asked | Part | Kind) for each in given):
            raise Unclear
        if isinstance(node.func, cst.Name):
            if name in ("any", "all"):
                return (any if name == "any" else all)(self.is_true(each) for each in given[0])
            return MAKERS[name](*given)
        if not isinstance(node.func, cst.Attribute):
            raise Unclear
        held = self.value(node.func.value)
        if name in ("add", "append") and not all(isinstance(each, str) for each in given):
            raise Unclear
        if name in OF_TEXT if isinstance(held, str) else isinstance(held, set | list) and name in OF_COLLECTION:
            return getattr(held, name)(*given)
        raise Unclear


def _is_plain(held: object) -> bool:
    """Whether something has a text that says all of it: a text, a number, several of them."""
    if isinstance(held, list | tuple):
        return all(isinstance(each, str | int | None) for each in held)
    return isinstance(held, Asked | str | int | None)


def _is_whole(node: cst.BaseExpression) -> bool:
    """`model`, or `self.model`: no part of it."""
    if isinstance(node, cst.Attribute):
        return isinstance(node.value, cst.Name) and node.value.value == "self"
    return isinstance(node, cst.Name)
