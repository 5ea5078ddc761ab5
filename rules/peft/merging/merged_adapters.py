"""A saved adapter that is merged into the model before its training, as a DPO run has it on top of SFT's adapter.

base = AutoModelForCausalLM.from_pretrained(MODEL)
model = PeftModel.from_pretrained(base, "out/sft").merge_and_unload()
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import libcst as cst

from porter.packs.api import Field, Phase, Porting, Site, step
from porter.packs.script import (
    Module,
    calls_of,
    function_around,
    may_have_left,
    named_arguments,
    origins,
    put_in_again,
    small_statement,
    without_placement,
)
from porter.packs.training import Training, facts_of, is_merged_into
from porter.packs.writing import mark_at

PART_OF = "TP204"

MERGE = "merge_and_unload"
# Keywords of PeftModel.from_pretrained that rt.merge_adapter has, and those that change nothing of what is merged.
KEPT = ("subfolder", "revision")
IDLE = frozenset(
    "is_trainable adapter_name device_map torch_device dtype torch_dtype autocast_adapter_dtype low_cpu_mem_usage "
    "ephemeral_gpu_offload offload_folder offload_dir token use_auth_token cache_dir".split()
)

CHECKS = ("safe_merge", "progressbar")  # of merge_and_unload: they change nothing of what is merged
FREES = re.compile(r"\brequires_grad_\((?:requires_grad=)?(?:True)?\)|\brequires_grad\s*=\s*True\b")
BRANCHES = (cst.If, cst.IfExp, cst.For, cst.While, cst.ExceptHandler)


@step(Phase.FIND, fills=("merged adapters",))
def note_merged(porting: Training) -> None:
    """Note in the module which calls give the model on with an adapter merged in, so that it is followed through them.

    What is merged behind a trainer of its function is the trained model's, or one to try it out.
    """
    module = porting.module
    trainers = [site for site in porting.sites if site.role == "trainer"]
    found: dict[cst.CSTNode, cst.BaseExpression] = {}
    for call in module.calls if trainers else ():
        if module.qualified(call.func) not in facts_of(module).loads_adapters or (given := given_adapter(call)) is None:
            continue
        if any(is_behind(module, call, site) for site in trainers):
            continue
        merges = merges_of(module, call)
        found.update({merge: merge.func.value for merge in merges if isinstance(merge.func, cst.Attribute)})
        if merges:
            found[call] = given["model"]
    module.memory["merged"] = found
    module.memory.pop("makers", None)


def is_behind(module: Module, call: cst.Call, trainer: Site) -> bool:
    """Whether a call stands behind a trainer of its function, or behind one that this gets from another."""
    start, function = module.span(call)[0], function_around(module, call)
    around = function_around(module, trainer.node)
    if around is function:
        return trainer.statement_end <= start
    places = calls_of(module, around) if around is not None else []
    return any(function_around(module, place) is function and module.span(place)[1] <= start for place in places)


@step(Phase.WRITE, of="trainer", reads=("names",))
def write_merged(porting: Porting) -> None:
    """`PeftModel.from_pretrained(base, "sft")` → `rt.merge_adapter(base, "sft", mesh)`; what it gives is merged."""
    module = porting.module
    loads = {site.node for site in (porting.model, *porting.references) if site is not None} | set(porting.loads)
    merged: Mapping[cst.CSTNode, cst.BaseExpression] = module.memory.get("merged", {})
    for call, base in merged.items():
        if call in put_in_again(module):
            continue
        if not isinstance(call, cst.Call) or module.qualified(call.func) not in facts_of(module).loads_adapters:
            continue
        if not any(node in loads for node in origins(module, base)):
            continue
        _write(porting, call, base)
        for merge in merges_of(module, call):
            _unwrap(porting, merge)


@step(Phase.NAME, of="trainer")
def name_frozen(porting: Porting) -> None:
    """An error where a merged model is trained as it is: PEFT has frozen its weights, and merging doesn't free them.

    With gradient checkpointing the GPU run goes to its end all the same, without it it ends at its first step.
    """
    trainer = porting.trainer
    if trainer is None or not is_merged_into(porting) or FREES.search(porting.module.text):
        return
    given = trainer.argument("peft_config")
    asked = given is not None and not given.value.is_literal(None)
    if asked or porting.inject is not None or porting.lora is not None or porting.of_role("inject"):
        return
    message = (
        "PEFT has frozen every weight of a model that comes from PeftModel.from_pretrained, merged or not, and this "
        "training gets no new adapters: the GPU run trains nothing, or ends at its first step; the port trains all."
    )
    fix = "model.requires_grad_(True) behind merge_and_unload() trains all weights there, too; or give a peft_config."
    porting.find(PART_OF, "error", message, fix, trainer.line, trainer.column)


def _write(porting: Porting, call: cst.Call, base: cst.BaseExpression) -> None:
    module, given = porting.module, given_adapter(call)
    assert given is not None
    line, column = module.location(call)
    further = [f", {name}={module.code(given[name])}" for name in KEPT if name in given]
    folder = module.code(given["model_id"])
    (start, end), (first, last) = module.span(call), module.span(base)
    reason = "the adapter is merged into the weights before they are trained"
    porting.edit(start, first, f"{porting.rt('merge_adapter')}(", PART_OF, reason)
    porting.edit(
        last,
        end,
        f", {mark_at(porting, line, column)}{folder}, {porting.names.mesh}{''.join(further)})",
        PART_OF,
        reason,
    )
    porting.fate(Field("PeftModel.model_id", folder, "exact", "rt.merge_adapter", reason, PART_OF, line, column))
    quantized = [porting.value("model.quantization"), *(v.get("model.quantization") for v in porting.loads.values())]
    if any(value is not None and not value.is_literal(None) for value in quantized):
        message = f"{folder}: this adapter can't be merged into a quantised model."
        porting.find(PART_OF, "error", message, "Load the model in full precision.", line, column)


def _unwrap(porting: Porting, merge: cst.Call) -> None:
    """`sft.merge_and_unload()` is `sft`, which is merged already; `model = model.merge_and_unload()` goes."""
    module = porting.module
    assert isinstance(merge.func, cst.Attribute)
    held, statement = merge.func.value, small_statement(module, merge)[0]
    same = isinstance(statement, cst.Assign) and len(statement.targets) == 1 and statement.value is merge
    if same and isinstance(statement, cst.Assign) and statement.targets[0].target.deep_equals(held):
        porting.remove_statement(merge, PART_OF, "it is merged already")
        return
    porting.edit(module.span(held)[1], module.span(merge)[1], "", PART_OF, "it is merged already")


def given_adapter(call: cst.Call) -> dict[str, cst.BaseExpression] | None:
    """The arguments of PeftModel.from_pretrained by name; None where one of them decides what is merged."""
    found = named_arguments(call, ("model", "model_id"))
    if not found.keys() <= {"model", "model_id", *KEPT, *IDLE}:
        return None
    is_first = bool(call.args) and found.get("model") is call.args[0].value
    trained = isinstance(asked := found.get("is_trainable"), cst.Name) and asked.value == "True"
    return found if is_first and "model_id" in found and not trained else None


def merges_of(module: Module, call: cst.Call) -> list[cst.Call]:
    """The `.merge_and_unload()` of what a call gives: on the spot, or on the variable that it is assigned to, wherever
    the call runs."""
    around = merge_of(module, call)
    if around is not None:
        return [around]
    statement = small_statement(module, call)[0]
    if not isinstance(statement, cst.Assign) or without_placement(statement.value) is not call:
        return []
    target = statement.targets[0].target
    found = module.meaning(target)
    if len(statement.targets) != 1 or found is None:
        return []
    end, scope = module.span(statement)[1], module.scope(call)
    uses = [use for use in module.references(module.code(target), found[0]) if module.span(use)[0] >= end]
    merges = [merge for use in uses if module.scope(use) is scope and (merge := merge_of(module, use)) is not None]
    holders = {*module.ancestors(statement)}
    merges = [merge for merge in merges[:1] if holders.issuperset(_branches(module, merge))]
    return [merge for merge in merges if not may_have_left(module, end, merge)]


def _branches(module: Module, node: cst.CSTNode) -> list[cst.CSTNode]:
    return [holder for holder in module.ancestors(node) if isinstance(holder, BRANCHES)]


def merge_of(module: Module, node: cst.CSTNode) -> cst.Call | None:
    """The call in `node.merge_and_unload()`."""
    attribute = module.parents[node]
    call = module.parents.get(attribute)
    is_merge = isinstance(attribute, cst.Attribute) and attribute.attr.value == MERGE and attribute.value is node
    if not is_merge or not isinstance(call, cst.Call) or call.func is not attribute:
        return None
    return call if all(a.keyword is not None and a.keyword.value in CHECKS for a in call.args) else None
