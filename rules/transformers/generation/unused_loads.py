"""A quantised model that is loaded in front of the training and that nothing uses: it goes.

ref_model = AutoModelForCausalLM.from_pretrained(MODEL, quantization_config=config)
trainer = DPOTrainer(model, ref_model=None, ...)
del trainer, model, ref_model
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, assigned_name, shortened
from porter.packs.training import is_behind, tables_by_class

from ._reload_arguments import QUANTISES, WHOLE

PART_OF = "TP314"

REASON = "nothing uses this model"


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def drop_unused_loads(porting: Porting) -> None:
    """Takes out loads that bitsandbytes quantises whose model is given to nothing but `del`."""
    module = porting.module
    if not any(word in module.text for word in QUANTISES):
        return
    whole = tables_by_class(porting.packs)[WHOLE].names
    for call in module.calls:
        asks = any(argument.keyword is not None and argument.keyword.value in QUANTISES for argument in call.args)
        if not asks or module.qualified(call.func) not in whole or porting.covered(module.span(call)[0]):
            continue
        name, scope = assigned_name(module, call), module.scope(call)
        found = scope.lookup(name) if name is not None and name.isidentifier() else None
        if name is None or found is None or found[0] is not scope or len(found[1]) != 1 or is_behind(porting, call):
            continue
        deleted = [_deleted(module, use) for use in module.references(name, scope)]
        if any(place is None for place in deleted):
            continue
        porting.remove_statement(call, PART_OF, REASON)
        for place in deleted:
            if place is not None:
                _leave_out(porting, place, name)
        message = f"{name} = {shortened(module.code(call.func))}(...): {REASON}; the port doesn't load it."
        porting.find(PART_OF, "info", message, "", *module.location(call))


def _deleted(module: Module, use: cst.CSTNode) -> cst.Del | None:
    """The `del` that a name stands in."""
    parent = module.parents[use]
    if isinstance(parent, cst.Element):
        parent = module.parents[module.parents[parent]]
    return parent if isinstance(parent, cst.Del) else None


def _leave_out(porting: Porting, place: cst.Del, name: str) -> None:
    """`del trainer, name` is `del trainer`, `del name` goes."""
    module, target = porting.module, place.target
    elements = [module.code(element.value) for element in target.elements] if isinstance(target, cst.Tuple) else [name]
    kept = [element for element in elements if element != name]
    if kept:
        porting.edit(*module.span(target), ", ".join(kept), PART_OF, REASON)
    else:
        porting.remove_statement(place, PART_OF, REASON)
