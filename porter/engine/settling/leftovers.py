"""Statements that made something for the GPU side alone: gone when the last use went with a replaced site.

`accelerator = Accelerator()` after every `accelerator.is_main_process` became JAX's, `BitsAndBytesConfig(...)` after
the model is loaded by Tunix, and the dictionary that was spread into that call, with what is put into it later:

    kwargs = {"device_map": "auto", "quantization_config": config}
    if args.flash:
        kwargs["attn_implementation"] = "flash_attention_2"

Something the source itself never used stays: it is the user's.
"""

from __future__ import annotations

import libcst as cst

from ...source.indexes import text_index
from ...source.scopes import Binding, Scope, walk
from ...text.edits import Spans
from ..script.porting import Porting
from ..script.sites import facts_of
from ..steps.step import Phase, step
from .unused import for_a_person

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
        if len(bindings) != 1 or name in written or (value := _alone(bindings[0])) is None:
            continue
        start, stop = porting.module.span(value)
        if any(begin <= start and stop <= end for begin, end in spans if (begin, end) != (start, stop)):
            continue
        uses = porting.module.references(name, scope)
        items = _items(porting, value)
        put_in = {} if items is None else {use: held for use in uses if (held := _put_in(porting, use)) is not None}
        others = [use for use in uses if use not in put_in]
        if not others or not all(porting.module.span(use)[0] in replaced for use in others):
            continue
        if items is not None and any(for_a_person(porting, use) for use in others):
            continue
        parts = [value] if items is None else [*items, *put_in.values()]
        if any(_is_of_the_gpu(porting, part) for part in parts):
            for part in (value, *put_in.values()):
                _remove(porting, part, name)
            return True
    return False


def _remove(porting: Porting, value: cst.BaseExpression, name: str) -> None:
    inner = porting.module.span(value)
    if not porting.covered(inner[0]) or any(edit.start >= inner[0] and edit.end <= inner[1] for edit in porting.edits):
        porting.edits = [edit for edit in porting.edits if not (inner[0] <= edit.start and edit.end <= inner[1])]
        porting.remove_statement(value, RULE, f"nothing uses {name} any more")


def _alone(binding: Binding) -> cst.BaseExpression | None:
    """The value of `name = value`."""
    node = binding.node
    alone = isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name)
    return binding.value if binding.kind == "assign" and alone else None


def _items(porting: Porting, value: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """What a dictionary holds that is written out, if making it does no more than answer; None for anything else."""
    if isinstance(value, cst.Dict):
        parts = [part.value for part in value.elements]
        keys = [part.key for part in value.elements if isinstance(part, cst.DictElement)]
    elif isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "dict":
        if any(part.keyword is None for part in value.args) or porting.module.scope(value).lookup("dict") is not None:
            return None
        parts, keys = [part.value for part in value.args], []
    else:
        return None
    return parts if all(_only_answers(porting, part) for part in (*parts, *keys)) else None


def _put_in(porting: Porting, use: cst.CSTNode) -> cst.BaseExpression | None:
    """The value of `name["key"] = value` that is no more than an answer, by the name in it."""
    item = porting.module.parents.get(use)
    target = porting.module.parents.get(item) if isinstance(item, cst.Subscript) and item.value is use else None
    node = porting.module.parents.get(target) if isinstance(target, cst.AssignTarget) else None
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(item, cst.Subscript):
        return None
    return node.value if text_index(item) is not None and _only_answers(porting, node.value) else None


def _only_answers(porting: Porting, value: cst.BaseExpression) -> bool:
    """Whether an expression calls nothing but what makes something of a GPU library."""
    for part in walk(value):
        if isinstance(part, cst.Call) and not _names_gpu_library(porting, part):
            return False
        if isinstance(part, cst.Await | cst.Yield | cst.NamedExpr):
            return False
    return True


def _is_of_the_gpu(porting: Porting, value: cst.BaseExpression) -> bool:
    """Whether a value does no more than make or name something of a GPU library."""
    if isinstance(value, cst.Name):
        found = porting.module.scope(value).lookup(value.value)
        held = [_alone(each) for each in found[1]] if found is not None else []
        if held and all(each is not None and not isinstance(each, cst.Name) for each in held):
            return any(each is not None and _is_of_the_gpu(porting, each) for each in held)
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
