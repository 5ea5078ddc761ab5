"""How scripts on transformers' Trainer save around it: a patched state_dict, a function that gathers the weights.

`model.state_dict = (lambda self, ...: get_peft_model_state_dict(...)).__get__(model, type(model))`, of the alpaca-lora
line, makes the Trainer save the adapter alone, as the port does in any case: it goes.
`model.save_pretrained(folder, state_dict=weights)`: what gathered
the weights goes.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Use, role_uses, within

PART_OF = "TP310"
REASON = "the port saves the adapter alone in any case"


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def drop_saving_patches(porting: Porting) -> None:
    """Take out assignments to the model's state_dict, and a name that only held the original."""
    found = [use for use in role_uses(porting, "model") if use.chain == "state_dict"]
    patches = [use for use in found if use.kind == "assign" and _calls(porting, use, "get_peft_model_state_dict")]
    for use in patches:
        porting.remove_statement(use.outer, PART_OF, REASON)
    for use in found if patches else ():
        _drop_original(porting, use)


def _calls(porting: Porting, use: Use, function: str) -> bool:
    return function in porting.module.code(porting.module.statement(use.outer))


def _drop_original(porting: Porting, use: Use) -> None:
    """`old_state_dict = model.state_dict`, when only the patch called it."""
    module = porting.module
    parent = module.parents[use.outer]
    if use.kind != "read" or not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return
    target = parent.targets[0].target
    if not isinstance(target, cst.Name):
        return
    places = [module.span(name)[0] for name in module.loads(target.value)]
    if all(any(edit.start <= place < edit.end for edit in porting.edits) for place in places):
        porting.remove_statement(use.outer, PART_OF, REASON)


@step(Phase.ANSWER, fills=("claimed names", "gathered weights"))
def drop_gathered_weights(porting: Porting) -> None:
    """Take out `weights = gather(model)` where a save that reads the mesh itself was all that used them."""
    module = porting.module
    for call in module.calls:
        for argument in call.args:
            named = argument.keyword is not None and argument.keyword.value == "state_dict"
            if named and isinstance(argument.value, cst.Name) and porting.covered(module.span(argument.value)[0]):
                _drop_bindings(porting, argument.value)


def _drop_bindings(porting: Porting, name: cst.Name) -> None:
    module = porting.module
    found = module.meaning(name)
    bindings = [binding for binding in found[1] if isinstance(binding.node, cst.Assign)] if found is not None else []
    if found is None or len(bindings) != len(found[1]):
        return
    own = [module.span(binding.node) for binding in bindings]
    for use in module.references(name.value, found[0]):
        start = module.span(use)[0]
        if not porting.covered(start) and not within(start, own):
            return
    for binding in bindings:
        porting.remove_statement(binding.node, PART_OF, "the trained weights are read from the mesh")
