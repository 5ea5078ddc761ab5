"""Where the script uses the trainer and the model after it made them, and what it does with them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from ...source.calls import function_around, runs_before
from ...source.module import Module
from ...source.scopes import Scope
from .callback_methods import is_get, models_of_callbacks
from .flow import PLACEMENT, Variable
from .sites import Site
from .trainers import is_another, is_given_another, reached
from .training import Training, in_reach
from .where_values_go import Place, followed, held_by, holders, unwraps

ASKERS = ("hasattr", "getattr", "setattr")


@dataclass(frozen=True)
class Use:
    """One use of a variable with a role: `chain` is the attributes behind it, `kind` call, assign, read or bare.

    `name` is a name, `self.x`, a callback's `kwargs["model"]`, or the call of a function of the file that gives the
    value back.
    """

    role: str
    name: Variable
    outer: cst.CSTNode
    chain: str
    kind: str
    asker: str = ""  # of a bare one: `hasattr`, `getattr` or `setattr`, where it is their first argument

    @cached_property
    def match(self) -> str:
        end = {"call": "()", "assign": "=", "read": ""}.get(self.kind, "")
        return f"@{self.role}.{self.chain}{end}" if self.chain else f"@{self.role}"


def uses(porting: Training, role: str, variable: str, scope: Scope) -> tuple[Use, ...]:
    """Every loading use of a variable, with the attributes behind it."""
    module, asked = porting.module, ("uses", role, variable, id(scope))  # the file keeps its scopes
    if asked not in module.memory:
        module.memory[asked] = tuple(_use(porting, role, name) for name in module.references(variable, scope))
    found: tuple[Use, ...] = module.memory[asked]
    return found


def _use(porting: Training, role: str, name: Variable) -> Use:
    asked = ("use", role, name)
    if asked not in porting.module.memory:
        porting.module.memory[asked] = _find_use(porting, role, name)
    found: Use = porting.module.memory[asked]
    return found


def _find_use(porting: Training, role: str, name: Variable) -> Use:
    node: cst.CSTNode = name
    chain: list[str] = []
    while isinstance(parent := porting.module.parents[node], cst.Attribute) and parent.value is node:
        chain.append(parent.attr.value)
        node = _unwrapped(porting.module, parent) if role == "trainer" and chain == ["model"] else parent
    kind = "read"
    if isinstance(parent, cst.Call) and parent.func is node:
        node, kind = parent, "call"
    elif isinstance(parent, cst.AssignTarget | cst.AugAssign | cst.AnnAssign) and parent.children[0] is node:
        kind = "assign"
    if not chain:
        kind = "bare"
    return Use(role, name, node, ".".join(chain), kind, _asker(porting, name) if kind == "bare" else "")


def _asker(porting: Training, name: Variable) -> str:
    argument = porting.module.parents[name]
    call = porting.module.parents[argument]
    func = call.func if isinstance(call, cst.Call) and call.args and call.args[0] is argument else None
    return func.value if isinstance(func, cst.Name) and func.value in ASKERS else ""


def role_uses(porting: Training, *roles: str) -> tuple[Use, ...]:
    """Every use of the trainer, the model or both, wherever the file hands them, in source order for each."""
    module, made = porting.module, made_by(porting, *roles)
    sites = tuple((role, site.node, site.variable) for role, site in made)
    merged = len(module.memory.get("merged", ()))
    foreign = porting.foreign_model if not roles or "model" in roles else None
    asked = ("role uses", roles, sites, len(porting.mates), foreign, merged)
    if asked not in module.memory:
        found: list[Use] = []
        for role, site in made:
            found += _uses_of_trainer(porting, site) if role == "trainer" else _uses_of_model(porting, site)
        if not roles or "model" in roles:
            others = [*_models_of_trainer(porting), *_trained(porting), *_models_of_callbacks(porting)]
            found += [_use(porting, "model", other) for other in others]
        module.memory[asked] = tuple(found)
    uses_of_roles: tuple[Use, ...] = module.memory[asked]
    return uses_of_roles


def _uses_of_trainer(porting: Training, site: Site) -> list[Use]:
    rivals = [mate.trainer for mate in porting.mates if mate.trainer is not None]
    nodes = reached(porting.module, site, rivals, _nodes_of(porting, site))
    return [_use(porting, "trainer", node) for node in nodes]


def _uses_of_model(porting: Training, site: Site) -> tuple[Use, ...]:
    """The same for all trainers of the file that train it."""
    module = porting.module
    made = [each.node if each is not None else None for each in (site, porting.model, porting.inject)]
    asked = ("model's uses", site.variable, *made)
    if asked not in module.memory:
        nodes = [node for node in _nodes_of(porting, site) if not is_another(porting, node)]
        nodes = [node for node in nodes if not is_given_another(porting, node)]
        module.memory[asked] = tuple(
            _use(porting, "model", node) for node in nodes if not _is_before(porting, site, node)
        )
    found: tuple[Use, ...] = module.memory[asked]
    return found


def _nodes_of(porting: Training, site: Site) -> list[Variable]:
    places, calls = holders(porting.module, site)
    names = [name for place in places for name in porting.module.references(place.variable, place.scope)]
    return [node for node in dict.fromkeys([*names, *calls]) if not _is_merging(porting, node)]


def _models_of_callbacks(porting: Training) -> list[Variable]:
    """The same for all trainers of the file."""
    module = porting.module
    if "models of callbacks" not in module.memory:
        module.memory["models of callbacks"] = models_of_callbacks(porting)
    found: list[Variable] = module.memory["models of callbacks"]
    return found


def _is_merging(porting: Training, use: cst.CSTNode) -> bool:
    """Whether a use only has a saved adapter merged into the model."""
    merged: Mapping[cst.CSTNode, object] = porting.module.memory.get("merged", {})
    return bool(merged) and porting.module.parents.get(porting.module.parents[use]) in merged


def _is_before(porting: Training, site: Site, use: cst.CSTNode) -> bool:
    """Whether a variable is read before it holds the model: `model = "org/name"`, `load_tokenizer(model)`; also by a
    function that is called before alone."""
    module = porting.module
    around = function_around(module, use)
    if around is function_around(module, site.node):
        return module.span(use)[0] < site.start and not module.loops(use) & module.loops(site.node)
    return around is not None and function_around(module, site.node) is None and runs_before(module, around, site.start)


def _models_of_trainer(porting: Training) -> list[cst.Name | cst.Attribute]:
    """The uses of names that are given the trainer's model, `model = trainer.model`, and of what these are given to."""
    module, site = porting.module, porting.trainer
    assert site is not None
    starts: list[Place | cst.Call] = []
    for place in holders(module, site)[0]:
        for name in module.references(place.variable, place.scope):
            read = module.parents[name]
            if isinstance(read, cst.Attribute) and read.attr.value == "model":
                starts += held_by(module, _unwrapped(module, placed(module, read)))
    names = [name for held in followed(module, starts, placed=True)[0] for name in _references(module, held)]
    return [name for name in names if not is_another(porting, name) and not is_given_another(porting, name)]


def placed(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """`trainer.model.to(device).eval()` around the trainer's model, which gives it back."""
    while isinstance(around := module.parents[node], cst.Attribute) and around.attr.value in PLACEMENT:
        call = module.parents[around]
        if not isinstance(call, cst.Call) or call.func is not around:
            return node
        node = call
    return node


def _references(module: Module, place: Place) -> Sequence[cst.Name | cst.Attribute]:
    return module.references(place.variable, place.scope)


def _unwrapped(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """`trainer.accelerator.unwrap_model(trainer.model)` around the trainer's model; the node itself without one."""
    argument = module.parents[node]
    call = module.parents[argument] if isinstance(argument, cst.Arg) else None
    return call if isinstance(call, cst.Call) and call.args[0] is argument and unwraps(call) else node


def _trained(porting: Training) -> list[cst.Name | cst.Attribute]:
    """What follows the trainer of the name that it was given, where that model comes from somewhere else."""
    module, site = porting.module, porting.trainer
    model = site.argument("model") if site is not None else None
    if site is None or model is None or not porting.foreign_model or not model.reference:
        return []
    scope = module.scope(site.node)
    meant = scope.lookup(model.text)
    names = module.references(model.text, meant[0] if meant is not None else scope)
    return [name for name in names if module.span(name)[0] >= site.end]


def made_by(porting: Training, *roles: str) -> list[tuple[str, Site]]:
    """The sites that make the trainer, the model or both; the model's are read behind the trainer's settings."""
    made = [("trainer", porting.trainer)] if not roles or "trainer" in roles else []
    if not roles or "model" in roles:
        made += [("model", site) for site in (porting.model, porting.inject, *porting.branch_injects)]
    return [(role, site) for role, site in made if site is not None]


def is_in_reach(porting: Training, node: cst.BaseExpression) -> bool:
    """Whether the names at the trainer can be read where `node` stands, and not only because they are global."""
    trainer = porting.trainer
    assert trainer is not None
    if isinstance(node, cst.Subscript) or is_get(node):  # what a callback is given, whatever the trainer's is called
        return False
    found = porting.module.meaning(node)
    elsewhere = found is not None and found[0] not in (trainer.home, trainer.scope)
    elsewhere = elsewhere and found is not None and not isinstance(found[0].node, cst.Module)
    return in_reach(trainer.scope, porting.module.scope(node)) and not elsewhere
