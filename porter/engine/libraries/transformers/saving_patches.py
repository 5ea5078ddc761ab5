"""How scripts on transformers' Trainer save around it: a patched state_dict, a function that gathers the weights.

`model.state_dict = (lambda self, ...: get_peft_model_state_dict(...)).__get__(model, type(model))`, of the alpaca-lora
line, makes the Trainer save the adapter alone, as the port does in any case: it goes.
`safe_save_model_for_hf_trainer(trainer, output_dir)`, of the Stanford Alpaca line, gathers the weights and calls
`trainer._save`: its body becomes `rt.save_model`. `model.save_pretrained(folder, state_dict=weights)`: what gathered
the weights goes.
"""

from __future__ import annotations

import libcst as cst

from ....text.edits import within
from ...script.porting import Porting
from ...script.uses_of_training import Use, role_uses
from ...steps.step import Phase, step

RULE = "TP310"
REASON = "the port saves the adapter alone in any case"


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def drop_saving_patches(porting: Porting) -> None:
    """Take out assignments to the model's state_dict, and a name that only held the original."""
    found = [use for use in role_uses(porting, "model") if use.chain == "state_dict"]
    patches = [use for use in found if use.kind == "assign" and _calls(porting, use, "get_peft_model_state_dict")]
    for use in patches:
        porting.remove_statement(use.outer, RULE, REASON)
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
        porting.remove_statement(use.outer, RULE, REASON)


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def replace_saving_functions(porting: Porting) -> None:
    """A function of the file that gets the trainer to gather its weights and `_save` them saves Tunix's model."""
    module = porting.module
    for use in role_uses(porting, "trainer"):
        function = next((node for node in module.ancestors(use.name) if isinstance(node, cst.FunctionDef)), None)
        if use.match != "@trainer._save()" or function is None:
            continue
        if not isinstance(use.outer, cst.Call) or not isinstance(use.name, cst.Name):
            continue
        parameters = {parameter.name.value for parameter in (*function.params.params, *function.params.kwonly_params)}
        folder = next((arg.value for arg in use.outer.args if arg.keyword is None), None)
        if not isinstance(folder, cst.Name) or not isinstance(function.body, cst.IndentedBlock):
            continue
        if not {use.name.value, folder.value} <= parameters:
            continue
        body = list(function.body.body)
        if function.get_docstring() is not None:
            body = body[1:]
        start, end = module.span(body[0])[0], module.span(body[-1])[1]
        saved = f"{porting.rt('save_model')}({use.name.value}.model, {folder.value})"
        porting.edit(start, end, saved, RULE, "the weights as transformers writes them, gathered from the mesh")


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
        porting.remove_statement(binding.node, RULE, "the trained weights are read from the mesh")
