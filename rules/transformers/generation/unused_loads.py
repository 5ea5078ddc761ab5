"""A quantised model that is loaded in front of the training and that nothing uses: it goes.

ref_model = AutoModelForCausalLM.from_pretrained(MODEL, quantization_config=config)
trainer = DPOTrainer(model, ref_model=None, ...)
del trainer, model, ref_model

Of Unsloth's pair, of which the tokenizer alone is used (`EOS_TOKEN = tokenizer.eos_token`), the port loads that.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, assigned_name, reaching, shortened, tokenizer_load
from porter.packs.training import is_behind, tables_by_class

from ._reload_arguments import QUANTISES, WHOLE
from ._reloaded_by_unsloth import LOADS, path_of_unsloth

PART_OF = "TP314"

REASON = "nothing uses this model"
# What is the same of a tokenizer that Unsloth has given a padding token and a side.
SAME = frozenset({"eos_token", "eos_token_id", "bos_token", "bos_token_id", "apply_chat_template"})


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def drop_unused_loads(porting: Porting) -> None:
    """Takes out loads that bitsandbytes quantises whose model is given to nothing but `del`."""
    module = porting.module
    for call in module.calls:
        if module.qualified(call.func) in LOADS:
            _keep_tokenizer(porting, call)
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


def _keep_tokenizer(porting: Porting, call: cst.Call) -> None:
    """`_, tokenizer = FastLanguageModel.from_pretrained(name)` → `tokenizer = AutoTokenizer.from_pretrained(name)`."""
    module, model, path, line = porting.module, porting.model, path_of_unsloth(call), porting.module.parents[call]
    trained = call in porting.loads or (model is not None and model.node is call) or is_behind(porting, call)
    if trained or path is None or porting.covered(module.span(call)[0]):
        return
    target = line.targets[0].target if isinstance(line, cst.Assign) and len(line.targets) == 1 else None
    pair = [each.value for each in target.elements] if isinstance(target, cst.Tuple) else []
    if len(pair) != 2 or any(argument.star for argument in call.args):
        return
    unread, kept = (_reads(module, name, call) if isinstance(name, cst.Name) else [] for name in pair)
    if unread or not kept or not all(_is_same(module, use) for use in kept):
        return
    new = f"{module.code(pair[1])} = {tokenizer_load(porting, module.code(path))}"
    porting.edit(*module.span(line), new, PART_OF, REASON)
    message = f"{module.code(pair[0])} of {shortened(module.code(call.func))}(...): {REASON}; "
    porting.find(PART_OF, "info", f"{message}the port loads the tokenizer alone.", "", *module.location(call))


def _reads(module: Module, name: cst.Name, call: cst.Call) -> list[cst.Name | cst.Attribute]:
    """Where a name may be read that a call's value has been given to."""
    found = module.scope(call).lookup(name.value)
    uses = module.references(name.value, found[0]) if found is not None else []
    return [use for use in uses if any(binding.value is call for binding in reaching(module, use))]


def _is_same(module: Module, use: cst.CSTNode) -> bool:
    parent = module.parents[use]
    return isinstance(parent, cst.Attribute) and parent.value is use and parent.attr.value in SAME


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
