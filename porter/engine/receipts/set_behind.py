"""Settings that a script gives its arguments between the trainer and its first `train()`.

    trainer = Trainer(model, args=args, ...)
    args.learning_rate = 5e-5
    trainer.train()

transformers reads them when it trains; the port has read them where the trainer was made.
"""

from __future__ import annotations

import libcst as cst

from ...source.calls import function_around, parameter_of, set_by_name
from ...source.module import Module
from ...source.values import Unknown, evaluate
from ..script.fill_from_tables import config_table
from ..script.sites import Site, shortened
from ..script.training import Training
from ..script.uses_of_training import Use, role_uses, uses
from ..steps.step import Phase, step

OF_OBJECT = "__dict__"


@step(
    Phase.READ,
    of="trainer",
    reads=("config", "arguments_object", "model", "inject", "branch_injects", "foreign_model", "values"),
)
def say_set_behind(porting: Training) -> None:
    """An error at each line that changes the trainer's arguments where the port has read them already."""
    site, table = porting.trainer, config_table(porting)
    assert site is not None
    found = porting.module.scope(site.node).lookup(porting.arguments_object.partition(".")[0])
    if not porting.arguments_object or table is None or found is None:
        return
    variable, scope = porting.arguments_object, found[0]
    if porting.config is not None and porting.config.variable == variable:
        scope = porting.config.home
    trains = [use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.train()"]
    for use in uses(porting, "arguments", variable, scope):
        if not _is_between(porting.module, use.name, site, trains) or (changed := _change(porting, use)) is None:
            continue
        row = table.table.row(changed) if changed else None
        if changed and (row is None or not row.place):
            continue
        module, line = porting.module, _statement(porting.module, use.name)
        message = f"{shortened(module.code(line).strip())}: behind the trainer, whose port has read {variable} where it"
        message += " is made. On the GPU train() reads it."
        fix = "Set it above the trainer."
        porting.find(
            site.rule, "error", message, fix, *module.location(use.name), key=f"behind {module.span(use.name)}"
        )


def _is_between(module: Module, node: cst.CSTNode, site: Site, trains: list[cst.CSTNode]) -> bool:
    """Whether a line comes behind the trainer, and before all that trains: what is changed for a later training is
    another's to say, as the optimizer is kept then."""
    if function_around(module, node) is not function_around(module, site.node) or module.span(node)[0] < site.end:
        return False
    behind = [module.span(train)[0] > module.span(node)[0] for train in trains]
    return bool(behind) and all(behind)


def _change(porting: Training, use: Use) -> str | None:
    """The field that a use of the arguments sets, "" for one that isn't told; None where it changes nothing."""
    module, parent = porting.module, porting.module.parents[use.name]
    name = use.chain.partition(".")[0]
    if use.kind == "assign" and name != OF_OBJECT:
        return name if "." not in use.chain else None
    call = module.parents[parent]
    if name == OF_OBJECT:
        return "" if _is_changed(module, use.outer, use.chain.endswith(".update")) else None
    if use.kind != "bare" or not isinstance(parent, cst.Arg) or not isinstance(call, cst.Call):
        return None
    if use.asker == "setattr" and (given := set_by_name(module, call)):
        try:
            return str(evaluate(module, given[1]))
        except Unknown:
            return ""
    if module.code(call.func) == "vars":
        around = module.parents[call]
        updates = isinstance(around, cst.Attribute) and around.attr.value == "update"
        return "" if _is_changed(module, call, updates) else None
    return _changed_by(module, call, parent)


def _is_changed(module: Module, node: cst.CSTNode, updates: bool) -> bool:
    """Whether the dictionary of an object is updated, or an item of it set."""
    item = module.parents[node]
    return updates or (isinstance(item, cst.Subscript) and isinstance(module.parents[item], cst.AssignTarget))


def _changed_by(module: Module, call: cst.Call, argument: cst.Arg) -> str | None:
    """The field that a function of the file sets of the object that it is given."""
    function, name = module.callees.get(call), parameter_of(module, argument, call)
    for use in module.references(name, module.scopes[function]) if function is not None and name is not None else ():
        held = module.parents[use]
        target = module.parents[held]
        if (
            isinstance(held, cst.Attribute)
            and held.value is use
            and isinstance(target, cst.AssignTarget | cst.AugAssign)
        ):
            return held.attr.value
    return None


def _statement(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    return next((each for each in module.ancestors(node) if isinstance(each, cst.BaseSmallStatement)), node)
