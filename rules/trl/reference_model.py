"""The reference model of a preference trainer, or a teacher: where it is loaded, and what its keywords say."""

from __future__ import annotations

import re
from copy import copy

import libcst as cst

from porter.packs.api import Argument, Phase, Site, step
from porter.packs.script import binding_origins, makes_pair
from porter.packs.training import Training, bindings_of, fill_site, follow, makers, plain_versions, short_name, table_of

PART_OF = "trl"

COPIES = ("trl.create_reference_model", "copy.deepcopy")
NAMES = r"name|path|_id$"  # in an expression that is a teacher's name rather than the teacher


@step(Phase.READ, of="trainer", reads=("model", "script values"), fills=("references",))
def read_reference(porting: Training) -> None:
    """Find the `from_pretrained` calls of `ref_model=` or `teacher_model=`; one that isn't made so here is named."""
    site, versions = porting.trainer, plain_versions(porting)
    assert site is not None
    argument = site.argument("ref_model", "teacher_model")
    if argument is None or argument.value.is_literal(None) or argument.node is None:
        return
    direct = follow(porting, argument, "model")
    made = {found.node: found for found in porting.sites if found.role == "model"}
    found = [direct] if direct is not None else []
    known = direct is not None or argument.value.known or _is_known(porting, argument.node)
    bindings = bindings_of(porting.module, argument.node)
    for binding in bindings:
        origins = list(binding_origins(porting.module, binding))
        loaded = [made[value] for value in origins if isinstance(value, cst.Call) and value in made]
        found += [each for each in loaded if each not in found]
        known = bool(loaded) or argument.value.known or any(_is_known(porting, value) for value in origins)
        if not known:
            break
    known = known or (argument.name == "teacher_model" and re.search(NAMES, argument.text) is not None)
    porting.references = tuple(each for each in found if each is not porting.model)
    for reference in porting.references:
        _check_alone(porting, argument, reference)
    for reference in porting.references:
        own = copy(porting)  # whose Recipe is that of another model
        fill_site(own, reference, table_of(porting, reference), versions)
        porting.fields = own.fields
    if not known:
        message = f"{argument.name}={argument.text}: it isn't made by a from_pretrained call in this file."
        without = ", or leave it out" if argument.name == "ref_model" else ""
        fix = f"Make {argument.text} with rt.load_model and the mesh{without}."
        if made_by := [name for name in makers(porting, argument) if name.startswith("PeftModel")]:
            message = (
                f"{argument.name}={argument.text}: it comes from {' or '.join(made_by)}, not from_pretrained alone."
            )
            fix = "Merge its adapter, save the whole model, and load that with rt.load_model."
        porting.find(site.rule, "error", message, fix, argument.line, argument.column)


def _check_alone(porting: Training, argument: Argument, reference: Site) -> None:
    """An error where a call gives the model with its tokenizer: how it holds the weights is read of the trained model
    alone."""
    if makes_pair(porting.module, reference.node):
        message = f"{argument.name}={argument.text}: {short_name(reference)} loads it, which is read of the trained"
        message += " model alone."
        fix = "Load it by AutoModelForCausalLM.from_pretrained, with the type and the quantization_config that it has."
        porting.find(reference.rule, "error", message, fix, reference.line, reference.column)


def _is_known(porting: Training, value: cst.CSTNode | None) -> bool:
    """Whether a value is None or a copy of a model, which needs no loading."""
    if isinstance(value, cst.IfExp):
        return _is_known(porting, value.body) and _is_known(porting, value.orelse)
    if isinstance(value, cst.Name):
        return value.value == "None"
    return isinstance(value, cst.Call) and porting.module.qualified(value.func) in COPIES
