"""Statements that made something for the GPU side alone: gone when the last use went with a replaced site.

`accelerator = Accelerator()` after every `accelerator.is_main_process` became JAX's, `BitsAndBytesConfig(...)` after
the model is loaded by Tunix. Something the source itself never used stays: it is the user's.
"""

from __future__ import annotations

import libcst as cst

from ...source.scopes import Binding, Scope
from ...text.edits import Spans
from ..script.porting import Porting
from ..script.sites import facts_of
from ..steps.step import Phase, step

RULE = "TP001"


@step(Phase.SETTLE, reads=("conditions", "classes"), fills=("leftovers",))
def drop_leftovers(porting: Porting) -> None:
    """Take out assignments of GPU-side values that only replaced code used; repeated until nothing more falls."""
    while any(_drop(porting, scope) for scope in porting.module.scopes.values()):
        pass


def _drop(porting: Porting, scope: Scope) -> bool:
    spans = [(edit.start, edit.end) for edit in porting.edits]
    replaced = Spans(spans)
    written = {part for name in porting.written_names() for part in name.split(".")}
    for name, bindings in scope.bindings.items():
        if len(bindings) != 1 or not _is_of_the_gpu(porting, bindings[0]):
            continue
        value = bindings[0].value
        assert value is not None
        start, stop = porting.module.span(value)
        if any(begin <= start and stop <= end for begin, end in spans if (begin, end) != (start, stop)):
            continue
        uses = [porting.module.span(use)[0] for use in porting.module.references(name, scope)]
        if uses and all(use in replaced for use in uses) and name not in written:
            inner = porting.module.span(value)
            porting.edits = [edit for edit in porting.edits if not (inner[0] <= edit.start and edit.end <= inner[1])]
            porting.remove_statement(value, RULE, f"nothing uses {name} any more")
            return True
    return False


def _is_of_the_gpu(porting: Porting, binding: Binding) -> bool:
    """Whether an assignment does no more than make or name something of a GPU library."""
    node = binding.node
    alone = isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name)
    if binding.kind != "assign" or not alone or binding.value is None:
        return False
    value = binding.value
    if isinstance(value, cst.IfExp):
        parts = (value.body, value.orelse)
        return _names_gpu_library(porting, value.test) or all(_names_gpu_library(porting, part) for part in parts)
    return _names_gpu_library(porting, value)


def _names_gpu_library(porting: Porting, value: cst.BaseExpression) -> bool:
    facts = facts_of(porting.module)
    libraries = {*facts.gpu_side}
    if isinstance(value, cst.Call):
        if isinstance(value.func, cst.Name) and value.func.value == "getattr" and value.args:
            return _names_gpu_library(porting, value.args[0].value)
        name = porting.module.qualified(value.func) or ""
        makes = name.rsplit(".", 1)[-1][:1].isupper()
        return name in facts.gpu_made or (makes and name.split(".", 1)[0] in libraries)
    name = porting.module.qualified(value) or ""
    described = {rule.library for pack in porting.packs for rule in pack.tables}
    return name.split(".", 1)[0] in libraries | described  # `T = trl.SFTTrainer`
