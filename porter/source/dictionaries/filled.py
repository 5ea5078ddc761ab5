"""Dictionaries of keywords that a script fills step by step: `kwargs["x"] = ...`, some of it under an `if`.

What is surely there when a call gets `**kwargs` is as good as written at the call; what is set by condition is read
from the dictionary when the script runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import libcst as cst

from ..held_values import changes_item
from ..indexes import index_of
from ..module import Module
from ..scopes import Binding, inside
from ..values import DECIDED, Unknown, evaluate
from .items import copied_by, dict_items, is_dict_call, items_given, items_of

READS = ("get", "keys", "values", "items", "copy")
LOOKS = ("print", "len", "sorted", "list", "dict")  # builtins that only read what they are given
LOOPS = (cst.For, cst.While)
KEPT = "dictionaries of which a release takes a part"  # of `Module.memory`: what of which, and whether a key


@dataclass(frozen=True)
class Item:
    """One key of a dictionary: its value, whether it surely has it, and the code that reads it."""

    name: str
    value: cst.BaseExpression
    certain: bool
    read: str


@dataclass(frozen=True)
class Change:
    """A key that a dictionary is given, or that is taken out (no value); a `weak` one only where it hasn't got it."""

    name: str
    value: cst.BaseExpression | None
    weak: bool = False


def built_items(module: Module, node: cst.BaseExpression, call: cst.BaseExpression) -> list[Item] | None:
    """The items that a variable's dictionary may have at `call`; None when the file does more with it than set keys, or
    make it anew."""
    if node in module.memory.get(KEPT, ()):
        taken = _kept_items(module, node)
        return list(taken.values()) if taken is not None else None
    bindings, kept = _made_by(module, node)
    if not isinstance(node, cst.Name) or not bindings or not _is_made_here(module, node, bindings):
        return None
    name, end = node.value, module.span(call)[0]
    scope, blocks = module.scope(node), [*module.ancestors(call)]
    filled = _Filled(name)
    steps: list[tuple[int, Binding | cst.Name | cst.Attribute]] = [
        *((module.span(binding.node)[1], binding) for binding in bindings if binding.kind == "assign"),
        *((module.span(use)[0], use) for use in module.references(name, scope)),
    ]
    fresh: set[cst.CSTNode] = set()  # what stands around where it is surely made anew
    for place, each in sorted(steps, key=lambda step: step[0]):
        stands = each.node if isinstance(each, Binding) else each
        if place >= end:
            loop = next((one for one in module.ancestors(stands) if isinstance(one, LOOPS) and one in blocks), None)
            changed = loop is not None and loop not in fresh
            if changed and (isinstance(each, Binding) or [*_changes(module, each)]):
                return None  # the next time round the loop it is another
            continue
        block = _block(module, stands)
        if block is None:
            continue
        certain = block in blocks
        changes: list[Change | None] | None
        if isinstance(each, Binding):
            assert each.value is not None
            changes = _extended(module, name, each.value) if filled.found is not None else None
            if changes is None and not filled.made(_first(module, name, each.value), certain):
                return None
            if changes is None and certain:
                fresh.update(module.ancestors(stands))
        else:
            changes = [*_changes(module, each)]
        if not all(filled.change(change, certain) for change in changes or ()):
            return None
    if filled.found is None:
        return None
    return [item for item in filled.found.values() if kept is None or kept(item.name)]


class _Filled:
    """The items that a dictionary called `name` has so far; None before it is made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: dict[str, Item] | None = None
        self.there: set[str] = set()  # the keys that it surely has

    def read(self, key: str) -> str:
        return f'{self.name}["{key}"]' if key in self.there else f'{self.name}.get("{key}")'

    def made(self, items: dict[str, Item] | None, certain: bool) -> bool:
        """Note that it is made anew, or by condition; False where that can't be told."""
        if items is None:
            return False
        there = {key for key, item in items.items() if item.read == f'{self.name}["{key}"]'}
        if certain:
            self.found, self.there = dict(items), there
            return True
        before = self.found or {}
        self.there &= there
        self.found = {key: Item(key, item.value, False, self.read(key)) for key, item in ({**before, **items}).items()}
        return True

    def change(self, change: Change | None, certain: bool) -> bool:
        """Note a change; False where it can't be told."""
        if change is None or self.found is None:
            return change is not None
        key, value = change.name, change.value
        if value is None:  # taken out
            had = self.found.pop(key, None) is not None
            self.there.discard(key)
            return certain or not had
        if change.weak and key in self.found:
            known = self.found[key]
            self.there |= {key} if certain else set()
            alike = known.certain or known.value.deep_equals(value)
            self.found[key] = known if alike else replace(known, read=self.read(key))
            return True
        self.there |= {key} if certain else set()
        self.found[key] = Item(key, value, certain, self.read(key))
        return True


def _is_made_here(module: Module, node: cst.Name, bindings: list[Binding]) -> bool:
    """Whether a name is bound where it is used, and nothing but assignments of its own and `|=` bind it."""
    scope = module.scope(node)
    for binding in bindings:
        shared = isinstance(binding.node, cst.Assign) and len(binding.node.targets) > 1
        if binding.kind != "assign" and not isinstance(binding.node, cst.AugAssign):
            return False
        if shared or module.scope(binding.node) is not scope:
            return False
    return True


def _made_by(module: Module, node: cst.BaseExpression) -> tuple[list[Binding], Callable[[str], bool] | None]:
    """The bindings of a dictionary's name; of one that is bound again to what a release takes of it, the first, and
    which keys those are."""
    meaning = module.meaning(node) if isinstance(node, cst.Name) else None
    if meaning is None:
        return [], None
    if len(meaning[1]) == 2:
        first, again = meaning[1]
        made = module.memory.get(KEPT, {}).get(again.value)
        if made is not None and again.kind == "assign" and module.code(made[0]) == module.code(node):
            return [first], made[1]
        if made is not None:
            return [], None
    return meaning[1], None


def _extended(module: Module, name: str, value: cst.BaseExpression) -> list[Change | None] | None:
    """What a dictionary gets where its name is bound to itself and more: `kwargs | {...}`, `{**kwargs, "k": v}`,
    `dict(kwargs, k=v)`; None where it is bound to something else."""
    items: list[tuple[str, cst.BaseExpression]] | None
    if _is_name(value, name):
        return []
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.BitOr):
        before, items = _extended(module, name, value.left), dict_items(module, value.right)
        if before is None:
            return None
        return [*before, *_set(items)]
    if isinstance(value, cst.Dict) and value.elements:
        first = value.elements[0]
        if not isinstance(first, cst.StarredDictElement) or not _is_name(first.value, name):
            return None
        return _set(items_of(module, value.elements[1:]))
    if isinstance(value, cst.Call) and (copied := copied_by(module, value)) is not None:
        return _extended(module, name, copied)
    if isinstance(value, cst.Call) and is_dict_call(value) and value.args and _is_name(value.args[0].value, name):
        return _set(items_given(module, value.args[1:]))
    return None


def _is_name(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _set(items: list[tuple[str, cst.BaseExpression]] | None) -> list[Change | None]:
    return [Change(key, value) for key, value in items] if items is not None else [None]


def made_of(module: Module, name: cst.Name) -> str:
    """The name of the dictionary that a variable holds, or holds the part of that a release takes."""
    binding = module.single_binding(name)
    base = module.memory.get(KEPT, {}).get(binding.value) if binding is not None else None
    return base[0].value if base is not None and isinstance(base[0], cst.Name) else name.value


def _kept_items(module: Module, node: cst.BaseExpression) -> dict[str, Item] | None:
    """The items of a dictionary that a class of the script's release takes."""
    base, takes = module.memory[KEPT][node]
    if isinstance(base, cst.Name):
        items = built_items(module, base, node)
    else:
        first = _first(module, module.code(node), base)
        items = list(first.values()) if first is not None else None
    if items is None or any(takes(item.name) is None for item in items):
        return None
    return {item.name: item for item in items if takes(item.name)}


def _block(module: Module, use: cst.CSTNode) -> cst.CSTNode | None:
    """The block that a statement stands in, blocks of answered conditions left out; None where it never runs."""
    below: cst.CSTNode = use
    for item in module.ancestors(use):
        if isinstance(item, cst.If):
            answer = _answer(module, item)
            if answer is not None and below is not item.test and (below is item.body) is not answer:
                return None
        elif isinstance(item, cst.Module):
            return item
        elif isinstance(item, cst.BaseSuite):
            holder = module.parents[item]
            around = module.parents[holder] if isinstance(holder, cst.Else) else holder
            if not isinstance(around, cst.If) or _answer(module, around) is None:
                return item
        below = item
    return None


def _answer(module: Module, branch: cst.If) -> bool | None:
    """What an `if` asks, where that was answered for the script's release."""
    answered = module.memory.get(DECIDED)
    if not answered or not any(part in answered for part in inside(branch.test)):
        return None
    try:
        return bool(evaluate(module, branch.test))
    except Unknown:
        return None


def _first(module: Module, name: str, value: cst.BaseExpression) -> dict[str, Item] | None:
    """What the dictionary is made with: `{...}`, or `{...} if token else {}`."""
    if value in module.memory.get(KEPT, ()):
        return _kept_items(module, value)
    items = dict_items(module, value)
    if items is not None:
        return {key: Item(key, item, True, f'{name}["{key}"]') for key, item in items}
    if not isinstance(value, cst.IfExp):
        return None
    one, other = _first(module, name, value.body), _first(module, name, value.orelse)
    if one is None or other is None:
        return None
    found = {}
    for key, item in {**other, **one}.items():
        both = key in one and key in other
        alike = both and one[key].value.deep_equals(other[key].value) and one[key].certain and other[key].certain
        read = f'{name}["{key}"]' if both else f'{name}.get("{key}")'
        found[key] = Item(key, item.value, alike, read)
    return found


def _changes(module: Module, use: cst.Name | cst.Attribute) -> Iterator[Change | None]:
    """The keys that a use of the dictionary sets, or takes out; None for what can't be told."""
    parent = module.parents[use]
    if isinstance(parent, cst.Arg) and (parent.star or _only_looks(module, module.parents[parent])):
        return
    if isinstance(parent, cst.Subscript) and parent.value is use:
        yield from _changed_item(module, parent)
        return
    if isinstance(parent, cst.AugAssign) and parent.target is use:
        yield from _set(dict_items(module, parent.value) if isinstance(parent.operator, cst.BitOrAssign) else None)
        return
    if isinstance(parent, cst.Attribute) and parent.value is use:
        call = module.parents[parent]
        if isinstance(call, cst.Call) and call.func is parent:
            yield from _called(module, parent.attr.value, call)
        elif parent.attr.value not in READS:
            yield None
        return
    loops = isinstance(parent, cst.For | cst.CompFor) and parent.iter is use
    reads = cst.ComparisonTarget | cst.FormattedStringExpression | cst.StarredDictElement | cst.BinaryOperation
    if not isinstance(parent, reads) and not loops:
        yield None


def _changed_item(module: Module, item: cst.Subscript) -> Iterator[Change | None]:
    """What `kwargs["x"]` in its place sets or takes out; `kwargs["x"]["y"] = 1` changes what it holds."""
    target, key = module.parents[item], _key(module, item)
    assign = module.parents[target] if isinstance(target, cst.AssignTarget) else None
    if isinstance(target, cst.Del):
        yield Change(key, None) if key is not None else None
    elif isinstance(assign, cst.Assign):
        yield Change(key, assign.value) if len(assign.targets) == 1 and key is not None else None
    elif changes_item(module, item) or isinstance(target, cst.Element):
        yield None


def _called(module: Module, method: str, call: cst.Call) -> Iterator[Change | None]:
    """What a method of the dictionary sets or takes out."""
    if method == "update":
        yield from _set(items_given(module, call.args))
    elif method in ("pop", "setdefault") and call.args:
        try:
            key = evaluate(module, call.args[0].value)
        except Unknown:
            key = None
        if not isinstance(key, str) or (method == "setdefault" and len(call.args) != 2):
            yield None
        elif method == "pop":
            yield Change(key, None)
        else:
            yield Change(key, call.args[1].value, weak=True)
    elif method not in READS:
        yield None


def _key(module: Module, subscript: cst.Subscript) -> str | None:
    index = index_of(subscript)
    try:
        key = evaluate(module, index) if index is not None else None
    except Unknown:
        return None
    return key if isinstance(key, str) else None


def _only_looks(module: Module, call: cst.CSTNode) -> bool:
    name = module.code(call.func) if isinstance(call, cst.Call) else ""
    return name in LOOKS and module.scope(call).lookup(name) is None
