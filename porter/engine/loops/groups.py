"""Groups of parameters that a loop's optimizer is given, of which one doesn't decay.

no_decay = ["bias", "LayerNorm.weight"]
groups = [
    {"params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)], "weight_decay": 0.01},
    {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from ...source.module import Module
from ...source.read_value import read_value
from ...source.scopes import Binding
from ..script.fill_from_tables import bindings_of
from ..script.sites import Site
from ..script.training import Training

# `n, p in model.named_parameters() if not any(nd in n for nd in no_decay)`, also with requires_grad
BY_NAME = re.compile(
    r"\[?(?P<p>\w+) for \(?(?P<n>\w+), (?P=p)\)? in [\w.]+\.named_parameters\(\)"
    r"(?P<tests>(?: (?:if|and) (?:(?:not )?any\((?P<d>\w+) in (?P=n) for (?P=d) in [^()]+\)"
    r"|(?P=p)\.requires_grad))+)\]?"
)
NAMED = re.compile(r"(?P<not>not )?any\((?P<d>\w+) in \w+ for (?P=d) in (?P<texts>[^()]+)\)")


@dataclass(frozen=True)
class Groups:
    """Two groups that together are all that the model trains: `without`, by whose texts in their names weights have no
    decay, and the `decay` of the others, None where it is the optimizer's own. `held` is the list's statement."""

    without: cst.BaseExpression
    decay: cst.BaseExpression | None
    held: Binding | None


def read_groups(module: Module, params: cst.BaseExpression | None) -> Groups | None:
    """The groups of `params`, written at the call or held by a name; None where they are other ones."""
    bindings = bindings_of(module, params) if isinstance(params, cst.Name) else []
    held = bindings[0] if len(bindings) == 1 and bindings[0].kind == "assign" else None
    node = held.value if held is not None else params
    if not isinstance(node, cst.List) or len(node.elements) != 2:
        return None
    decays, without, decay = None, None, None
    for element in node.elements:
        keys = _keys(module, element.value)
        if keys is None or not {"params"} <= set(keys) <= {"params", "weight_decay"}:
            return None
        named = _named(module, keys["params"])
        if named is None:
            return None
        texts, left_out = named
        own = keys.get("weight_decay")
        if left_out:  # those that decay
            decays, decay = texts, own
        elif own is None or not read_value(module, own).is_literal(0, 0.0):
            return None
        else:
            without = texts
    if decays is None or without is None or module.code(decays) != module.code(without):
        return None
    return Groups(without, decay, held)


def fill_groups(porting: Training, optimizer: Site) -> None:
    """Which weights don't decay, and by how much the others do, where the optimizer gets groups."""
    params = optimizer.argument("params")
    groups = read_groups(porting.module, params.node) if params is not None else None
    if groups is None:
        return
    values = {"optimizer.no_decay": read_value(porting.module, groups.without, optimizer.rule)}
    if groups.decay is not None:
        values["optimizer.weight_decay"] = read_value(porting.module, groups.decay, optimizer.rule)
    porting.fill(values)


def _keys(module: Module, node: cst.BaseExpression) -> dict[str, cst.BaseExpression] | None:
    """The entries of a dict by their texts."""
    if not isinstance(node, cst.Dict):
        return None
    found: dict[str, cst.BaseExpression] = {}
    for element in node.elements:
        if not isinstance(element, cst.DictElement) or not isinstance(element.key, cst.SimpleString):
            return None
        found[str(element.key.evaluated_value)] = element.value
    return found


def _named(module: Module, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool] | None:
    """The texts by which a group is chosen, and whether it has the weights without any of them."""
    comprehension = BY_NAME.fullmatch(" ".join(module.code(node).split()).replace("[ ", "[").replace(" ]", "]"))
    asked = NAMED.findall(comprehension["tests"]) if comprehension is not None else []
    if len(asked) != 1 or not isinstance(node, cst.ListComp | cst.GeneratorExp):
        return None
    texts = next(
        (each.for_in.iter for test in node.for_in.ifs for each in _generators(test.test)),
        None,
    )
    return (texts, bool(asked[0][0])) if texts is not None else None


def _generators(node: cst.BaseExpression) -> list[cst.GeneratorExp]:
    """The generators in a condition."""
    if isinstance(node, cst.GeneratorExp):
        return [node]
    if isinstance(node, cst.BooleanOperation):
        return [*_generators(node.left), *_generators(node.right)]
    if isinstance(node, cst.UnaryOperation):
        return _generators(node.expression)
    if isinstance(node, cst.Call):
        return [found for argument in node.args for found in _generators(argument.value)]
    return []
