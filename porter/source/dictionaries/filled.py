"""Dictionaries of keywords that a script fills step by step: `kwargs["x"] = ...`, some of it under an `if`.

What is surely there when a call gets `**kwargs` is as good as written at the call; what is set by condition is read
from the dictionary when the script runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from ..held_values import changed_later
from ..module import Module
from ..scopes import Binding, inside
from ..values import DECIDED, Unknown, evaluate
from .items import dict_items

READS = ("get", "keys", "values", "items", "copy")
KEPT = "dictionaries of which a release takes a part"  # of `Module.memory`: what of which, and whether a key
DEEPEST = 8  # dictionaries in dictionaries


@dataclass(frozen=True)
class Item:
    """One key of a dictionary: its value, whether it surely has it, and the code that reads it."""

    name: str
    value: cst.BaseExpression
    certain: bool
    read: str


def built_items(module: Module, node: cst.BaseExpression, call: cst.BaseExpression) -> list[Item] | None:
    """The items that a variable's dictionary may have at `call`; None when the file does more with it than set keys."""
    if node in module.memory.get(KEPT, ()):
        taken = _kept_items(module, node)
        return list(taken.values()) if taken is not None else None
    binding, kept = _made_by(module, node)
    if not isinstance(node, cst.Name) or binding is None or binding.kind != "assign" or binding.value is None:
        return None
    name, end = node.value, module.span(call)[0]
    found = _first(module, name, binding.value)
    scope = module.scope(node)
    if found is None or scope is not module.scope(binding.node):
        return None
    blocks = [*module.ancestors(call)]
    there = {key for key, item in found.items() if item.read == f'{name}["{key}"]'}
    for use in module.references(name, scope):
        changes = list(_changes(module, use)) if module.span(use)[0] < end else []
        if None in changes:
            return None
        for key, value in (change for change in changes if change is not None):
            block = _block(module, use)
            if block is None:
                continue
            certain = block in blocks
            if value is None:  # taken out
                if not certain:
                    return None
                found.pop(key, None)
                there.discard(key)
                continue
            there |= {key} if certain else set()
            read = f'{name}["{key}"]' if key in there else f'{name}.get("{key}")'
            found[key] = Item(key, value, certain, read)
    return [item for item in found.values() if kept is None or kept(item.name)]


def _made_by(module: Module, node: cst.BaseExpression) -> tuple[Binding | None, Callable[[str], bool] | None]:
    """The binding of a dictionary's name; of one that is bound again to what a release takes of it, the first, and
    which keys those are."""
    single = module.single_binding(node)
    meaning = module.meaning(node) if single is None and isinstance(node, cst.Name) else None
    if meaning is None or len(meaning[1]) != 2:
        return single, None
    first, again = meaning[1]
    made = module.memory.get(KEPT, {}).get(again.value)
    if made is None or again.kind != "assign" or module.code(made[0]) != module.code(node):
        return single, None
    return first, made[1]


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


def chosen_items(module: Module, node: cst.BaseExpression) -> list[Item] | None:
    """The items of `**({"token": token} if token else {})`, whose dictionary has no name to be read from, and of
    `**MODELS[args.model]["settings"]`."""
    if isinstance(node, cst.Subscript):
        return _menu_items(module, node)
    if not isinstance(node, cst.IfExp):
        return None
    one, other = dict_items(module, node.body), dict_items(module, node.orelse)
    if one is None or other is None:
        return None
    test = module.code(node.test)
    opposite = f"not {test}" if isinstance(node.test, cst.Name | cst.Attribute) else f"not ({test})"
    found = {key: Item(key, value, False, f"({module.code(value)} if {test} else None)") for key, value in one}
    for key, value in other:
        if key in found:
            read = found[key].read.removesuffix("None)") + f"{module.code(value)})"
        else:
            read = f"({module.code(value)} if {opposite} else None)"
        found[key] = Item(key, value, False, read)
    for key, value in one:
        given = module.code(value)
        if test == f"{given} is not None" and key not in dict(other):
            found[key] = Item(key, value, False, given)
    return list(found.values())


def _menu_items(module: Module, node: cst.Subscript) -> list[Item] | None:
    """The items of a dictionary in a dictionary of the file: certain where all that it may be have them alike."""
    menus = _choices(module, node)
    found = [items for menu in menus or () if (items := dict_items(module, menu)) is not None]
    if not found or len(found) != len(menus or ()):
        return None
    by_key: dict[str, list[cst.BaseExpression]] = {}
    for items in found:
        for key, value in items:
            by_key.setdefault(key, []).append(value)
    code, made = module.code(node), []
    for key, values in by_key.items():
        everywhere = len(values) == len(found)
        alike = everywhere and all(value.deep_equals(values[0]) for value in values)
        made.append(Item(key, values[0], alike, f'{code}["{key}"]' if everywhere else f'{code}.get("{key}")'))
    return made


def _choices(module: Module, node: cst.BaseExpression, depth: int = 0) -> list[cst.BaseExpression] | None:
    """What an expression may be of the dictionaries that the file writes out: all items where only the run knows the
    key."""
    if depth > DEEPEST:
        return None
    if isinstance(node, cst.Name):
        binding = module.single_binding(node)
        if binding is None or binding.kind != "assign" or binding.value is None or changed_later(module, node):
            return None
        return _choices(module, binding.value, depth + 1)
    if not isinstance(node, cst.Subscript):
        return [node] if isinstance(node, cst.Dict) else None
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return None
    try:
        key = evaluate(module, node.slice[0].slice.value)
    except Unknown:
        key = None
    found: list[cst.BaseExpression] = []
    for menu in _choices(module, node.value, depth + 1) or ():
        items = dict_items(module, menu)
        if items is None or (key is not None and key not in dict(items)):
            return None
        for item in dict(items).values() if key is None else [dict(items)[key]]:
            inner = [item] if not isinstance(item, cst.Name | cst.Subscript) else _choices(module, item, depth + 1)
            if inner is None:
                return None
            found += inner
    return found or None


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


def _changes(module: Module, use: cst.Name | cst.Attribute) -> Iterator[tuple[str, cst.BaseExpression | None] | None]:
    """The keys that a use of the dictionary sets, or takes out (without a value); None for what can't be told."""
    parent = module.parents[use]
    if isinstance(parent, cst.Arg) and (parent.star or _only_looks(module, module.parents[parent])):
        return
    if isinstance(parent, cst.Subscript) and parent.value is use:
        target = module.parents[parent]
        if isinstance(target, cst.AugAssign | cst.Del):
            yield None
        elif isinstance(target, cst.AssignTarget):
            assign = module.parents[target]
            key = _key(module, parent)
            known = isinstance(assign, cst.Assign) and len(assign.targets) == 1 and key is not None
            yield (key, assign.value) if known and isinstance(assign, cst.Assign) and key is not None else None
        return
    if isinstance(parent, cst.Attribute) and parent.value is use:
        call = module.parents[parent]
        if parent.attr.value == "update" and isinstance(call, cst.Call):
            yield from _updated(module, call)
        elif parent.attr.value == "pop" and isinstance(call, cst.Call) and call.args:
            try:
                key = evaluate(module, call.args[0].value)
            except Unknown:
                key = None
            yield (key, None) if isinstance(key, str) else None
        elif parent.attr.value not in READS:
            yield None
        return
    if not isinstance(parent, cst.ComparisonTarget | cst.FormattedStringExpression):
        yield None


def _updated(module: Module, call: cst.Call) -> Iterator[tuple[str, cst.BaseExpression] | None]:
    for argument in call.args:
        if argument.keyword is not None:
            yield argument.keyword.value, argument.value
        else:
            items = dict_items(module, argument.value)
            yield from items if items is not None else (None,)


def _key(module: Module, subscript: cst.Subscript) -> str | None:
    index = subscript.slice[0].slice
    try:
        key = evaluate(module, index.value) if isinstance(index, cst.Index) else None
    except Unknown:
        return None
    return key if isinstance(key, str) else None


def _only_looks(module: Module, call: cst.CSTNode) -> bool:
    return isinstance(call, cst.Call) and module.code(call.func) in ("print", "len", "sorted", "list")
