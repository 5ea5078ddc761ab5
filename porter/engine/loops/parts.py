"""The parts of a training loop by hand: its DataLoader, optimizer and schedule, and why one isn't found in the file.

The optimizer may be given groups of parameters, of which one doesn't decay:

no_decay = ["bias", "LayerNorm.weight"]
groups = [
    {"params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)], "weight_decay": 0.01},
    {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ...source.module import Module
from ...source.read_value import read_value
from ...source.scopes import Binding, walk
from ..script.fill_from_tables import bindings_of
from ..script.flow import origins
from ..script.sites import Site
from ..script.training import Training
from .models_trained import model_of
from .row_order import has_own_order
from .run_again import run_again
from .statements.advice import SAMPLER, STEP_BEHIND
from .statements.facts import Loop
from .statements.not_standard import NotStandard
from .statements.own_parameters import part_trained, whose
from .training_loops import training_loops

ONCE = "Make it in one place, and what differs in variables."
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


def part(porting: Training, role: str, name: str) -> Site | None:
    """The call that made a part of the loop: the one of its role assigned to `name`.

    Else the only one of its role, where `name` is bound to nothing else than what `prepare` gives back.
    """
    sites = [site for site in porting.sites if site.role == role]
    named = [site for site in sites if site.variable == name]
    if len(named) == 1:
        return named[0]
    loop = porting.loop.statement if porting.loop is not None else None
    return sites[0] if len(sites) == 1 and not named and not _is_others(porting, name, loop) else None


def _named_part(porting: Training, role: str, name: str) -> Site | None:
    """The call of a role that is assigned to `name`."""
    return next((site for site in porting.sites if site.role == role and site.variable == name), None)


def _is_others(porting: Training, name: str, loop: cst.CSTNode | None) -> bool:
    """Whether a name of the loop is bound to what something else than accelerate's or DeepSpeed's set-up gives."""
    loops = [loop] if loop is not None else training_loops(porting.module)
    for node in (each for statement in loops for each in walk(statement)):
        if isinstance(node, cst.Name | cst.Attribute) and porting.module.code(node) == name:
            for binding in bindings_of(porting.module, node):
                called = porting.module.code(binding.value.func) if isinstance(binding.value, cst.Call) else ""
                if binding.kind == "parameter" or (called and not called.endswith(("prepare", ".initialize"))):
                    return True
            return False
    return False


def loader_name(porting: Training, loop: Loop) -> str:
    """The name of the DataLoader behind the loop's iterable: `active_dataloader` may be it or a part of it."""
    node = loop.loader
    name = node.value if isinstance(node, cst.Name) else ""
    if any(site.role == "loader" and site.variable == name for site in porting.sites):
        return name
    for binding in bindings_of(porting.module, node):
        if isinstance(binding.value, cst.Name):
            return binding.value.value
    return name


def loop_parts(porting: Training) -> tuple[Site, Site, Site | None]:
    """The loop's loader, optimizer and schedule."""
    loop = porting.loop
    assert loop is not None
    loader, optimizer = part(porting, "loader", loader_name(porting, loop)), part(porting, "optimizer", loop.optimizer)
    assert loader is not None and optimizer is not None
    return loader, optimizer, part(porting, "schedule", loop.scheduler) if loop.scheduler else None


def missing_parts(porting: Training, loop: Loop) -> Iterator[NotStandard]:
    """What the tables don't know of the loop's optimizer, schedule and DataLoader, or that they aren't of this file."""
    if loop.optimizer and _named_part(porting, "schedule", loop.optimizer) is not None:
        reason = f"`{loop.optimizer}`, a schedule, steps before the optimizer, by which the first rate is left out"
        yield NotStandard(loop.statement, reason, STEP_BEHIND)
        return
    if loop.optimizer:
        yield from _wrong_optimizer(porting, loop)
    if loop.scheduler and (again := _made_again(porting, "schedule", loop.scheduler)):
        yield again
    elif loop.scheduler and part(porting, "schedule", loop.scheduler) is None:
        node, made = _where_made(porting, loop, loop.scheduler)
        reason = f"`{loop.scheduler}` isn't made by a schedule that is read{made}"
        fix = "Make it in this file with transformers.get_scheduler, or torch.optim.lr_scheduler.LambdaLR and its like."
        yield NotStandard(node, reason, fix)
    elif loop.scheduler and (other := _other_optimizer(porting, loop)):
        yield NotStandard(other, f"`{loop.scheduler}` is the schedule of another optimizer than `{loop.optimizer}`")
    if loop.loader is None:
        return
    name = loader_name(porting, loop)
    loader = part(porting, "loader", name)
    if again := _made_again(porting, "loader", name):
        yield again
    elif loader is not None and has_own_order(porting.module, loader):
        sampler = loader.argument("sampler")
        reason = "its sampler gives the rows in an order of its own, or one that isn't known here"
        yield NotStandard(sampler.node if sampler and sampler.node else loader.node, reason, SAMPLER)
    elif loader is None:
        node, made = _where_made(porting, loop, name) if name else (loop.loader, "")
        reason = f"its batches don't come from a DataLoader of this file{made}"
        yield NotStandard(node, reason, "Make the DataLoader in this file.")


def _wrong_optimizer(porting: Training, loop: Loop) -> Iterator[NotStandard]:
    optimizer = part(porting, "optimizer", loop.optimizer)
    if again := _made_again(porting, "optimizer", loop.optimizer):
        yield again
        return
    if optimizer is None:
        node, made = _where_made(porting, loop, loop.optimizer)
        reason = f"`{loop.optimizer}` is not made by torch.optim.AdamW or Adam in this file{made}"
        fix = f"Make it in this file: torch.optim.AdamW({loop.model or 'model'}.parameters(), lr=...)."
        yield NotStandard(node, reason, fix)
        return
    yield from run_again(porting.module, loop.statement, optimizer.node)
    params = optimizer.argument("params")
    if params is None:
        return
    if owner := whose(params.text):
        names = {loop.model, *(site.variable or "" for site in porting.sites if site.role == "model")} - {"", None}
        if any(part_trained(params.text, str(name)) for name in names) or _is_of_another(porting, params.node, loop):
            yield NotStandard(params.node or optimizer.node, f"the optimizer gets the parameters of `{owner}` alone")
        return
    if read_groups(porting.module, params.node) is None:
        yield NotStandard(params.node or optimizer.node, "the optimizer gets groups of parameters of its own")


def _other_optimizer(porting: Training, loop: Loop) -> cst.CSTNode | None:
    """The schedule of the loop where it is made for another optimizer of the file."""
    schedule, optimizer = part(porting, "schedule", loop.scheduler), part(porting, "optimizer", loop.optimizer)
    given = schedule.argument("optimizer") if schedule is not None else None
    if schedule is None or optimizer is None or given is None or given.text == optimizer.variable:
        return None
    return schedule.node if _named_part(porting, "optimizer", given.text) is not None else None


def _is_of_another(porting: Training, params: cst.BaseExpression | None, loop: Loop) -> bool:
    """Whether parameters are those of another model of the file than the loop computes its loss with."""
    calls = [node for node in walk(params) if isinstance(node, cst.Call)] if params is not None else []
    owners = [
        each.func.value
        for each in calls
        if isinstance(each.func, cst.Attribute) and each.func.attr.value == "parameters"
    ]
    loaded = {site.node for site in porting.sites if site.role == "model"}
    made = [[*origins(porting.module, node)][-1:] for node in (*owners[:1], model_of(loop)) if node is not None]
    return len(made) == 2 and made[0] != made[1] and all(loaded & set(each) for each in made)


def _made_again(porting: Training, role: str, name: str) -> NotStandard | None:
    """What is wrong where several calls make a part by the same name, of which the run takes one."""
    sites = [site for site in porting.sites if site.role == role and site.variable == name]
    if len(sites) < 2:
        return None
    lines = ", ".join(str(porting.module.line_in_file(site.node)) for site in sites)
    reason = f"`{name}` is made in {len(sites)} places (line {lines}), and which one is trained with is not told"
    return NotStandard(sites[-1].node, reason, ONCE)


def _where_made(porting: Training, loop: Loop, name: str) -> tuple[cst.CSTNode, str]:
    """Where the loop's `name` is bound, and by which call."""
    found = next((node for node in walk(loop.statement) if isinstance(node, cst.Name | cst.Attribute)
                  and porting.module.code(node) == name), None)  # fmt: skip
    for binding in bindings_of(porting.module, found):
        if binding.kind == "parameter":
            return binding.node, ": the function that holds the loop is given it"
        if isinstance(binding.value, cst.Call):
            called = porting.module.code(binding.value.func)
            return (binding.node, "") if called.endswith("prepare") else (binding.node, f", but by `{called}(...)`")
    return loop.statement, ""
