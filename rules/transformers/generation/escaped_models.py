"""The trained model in a list, a dict or a choice, `for m in (base, model):`, from which it isn't followed.

What takes it out there has Tunix's model in its hands. Where a method of transformers' models is called on something
that the file doesn't say more of, that is named: the port would end there.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, Use, argument_with, is_tokenizer, origins, parameter_of, role_uses, shortened

PART_OF = "TP311"
METHODS = frozenset(
    """
    generate save_pretrained push_to_hub merge_and_unload state_dict parameters named_parameters disable_adapter
    """.split()
)
SAID = "calls of what may be the trained model"  # of the module's memory


@step(Phase.NAME, of="trainer", reads=("checkpoints", "checkpoint paths"))
def name_escaped(porting: Porting) -> None:
    """An error for each such call, once for all trainers of the file."""
    module = porting.module
    holders = [holder for use in role_uses(porting) if (holder := _holder(module, use)) is not None]
    if not holders:
        return
    said: set[cst.Call] = module.memory.setdefault(SAID, set())
    known = {use.name for use in role_uses(porting)}
    for call in _unknown_calls(porting):
        assert isinstance(call.func, cst.Attribute)
        if call in said or call.func.value in known:
            continue
        said.add(call)
        held, method = shortened(module.code(holders[0])), call.func.attr.value
        message = f"{shortened(module.code(call))}: this may be the model that was trained, which {held} holds, and "
        message += f"Tunix's has no {method}."
        fix = "Do it where the model has its own name."
        if method == "generate":
            fix = f"rt.generate({module.code(call.func.value)}, ...) takes Tunix's models and torch's."
        porting.find(PART_OF, "error", message, fix, *module.location(call))


def _holder(module: Module, use: Use) -> cst.CSTNode | None:
    """What the model is a part of, where it isn't followed on."""
    node: cst.CSTNode = use.name if use.role == "model" and use.kind == "bare" else use.outer
    if use.match not in ("@model", "@trainer.model") or use.asker:
        return None
    around = module.parents[node]
    if isinstance(around, cst.NamedExpr) and around.value is node:
        return around
    if isinstance(around, cst.IfExp) and around.test is not node:
        return around
    if isinstance(around, cst.BooleanOperation):
        return around if isinstance(module.parents[around], cst.Assign | cst.Arg | cst.Return) else None
    if not isinstance(around, cst.Element | cst.DictElement):
        return None
    holder, argument = module.parents[around], argument_with(module, around)
    if isinstance(argument, cst.Arg):  # what isn't of this file is named where it is called
        call = module.parents[argument]
        return holder if isinstance(call, cst.Call) and parameter_of(module, argument, call) is not None else None
    place = module.parents[holder]
    if isinstance(place, cst.Del | cst.Return | cst.ComparisonTarget):
        return None
    if isinstance(holder, cst.Tuple) and isinstance(place, cst.Assign) and len(place.targets) == 1:
        return None if isinstance(place.targets[0].target, cst.Tuple) else holder
    return holder


def _unknown_calls(porting: Porting) -> Iterator[cst.Call]:
    """Calls of a model's methods on what no other line of the file makes: an entry, a variable of a loop."""
    module = porting.module
    for call in module.calls:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in METHODS:
            continue
        if porting.covered(module.span(func.value)[0]) or porting.covered(module.span(func.attr)[0]):
            continue
        made = [*origins(module, func.value)][-1:]
        if any(isinstance(node, cst.Call) for node in made) or is_tokenizer(module, func.value):
            continue
        if module.qualified(func.value) is None:
            yield call
