"""A base that the trainer's own loading function loads again behind the training, to merge a saved adapter into it.

base = load_model(args.model)      the function that loaded the trained model, which gives Tunix's in the port
merged = PeftModel.from_pretrained(base, "out/adapter").merge_and_unload()
merged.save_pretrained("out/merged")
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from porter.packs.api import Field, Phase, Porting, step
from porter.packs.script import origins, put_in_again, returned
from porter.packs.training import facts_of
from porter.packs.writing import mark_at

from .merged_adapters import KEPT, given_adapter, merges_of

PART_OF = "TP204"
REASON = "the saved adapter, in Tunix's model that the script's function loads here, too"


@step(Phase.WRITE, of="trainer", reads=("names", "merged adapters"))
def write_merged_to_save(porting: Porting) -> None:
    """`PeftModel.from_pretrained(base, "out")` → `rt.apply_adapter(base, "out", mesh)`, which is merged and saved."""
    module, loads = porting.module, {site.node for site in (porting.model,) if site is not None} | set(porting.loads)
    before: Mapping[cst.CSTNode, object] = module.memory.get("merged", {})
    named = module.calls_by_name if loads else {}
    found = [call for name in facts_of(module).loads_adapters for call in named.get(name, ()) if call not in before]
    for call in sorted(found, key=module.turn):
        base = call.args[0].value if call.args and not call.args[0].star else None
        held = _made_by(porting, base)
        if call in put_in_again(module) or loads.isdisjoint(held) or porting.covered(module.span(call)[0]):
            continue
        if any(node in module.callees for node in held):
            _write(porting, call)


def _made_by(porting: Porting, base: cst.BaseExpression | None) -> list[cst.Call]:
    """The calls that a model comes from, with those of every return of a function that gives it."""
    module = porting.module
    held = [node for node in origins(module, base) if isinstance(node, cst.Call)] if base is not None else []
    function = module.callees.get(held[-1]) if held else None
    for value in returned(module, function) if function is not None else ():
        held += [node for node in origins(module, value) if isinstance(node, cst.Call)]
    return held


def _write(porting: Porting, call: cst.Call) -> None:
    module, given, merges = porting.module, given_adapter(call), merges_of(porting.module, call)
    line, column = module.location(call)
    if given is None or len(merges) != 1:
        message = f"{' '.join(module.code(call.func).split())} gets Tunix's model here, as the trainer does."
        fix = "Load the base by itself for it, or write rt.apply_adapter(base, folder, mesh)."
        porting.find(PART_OF, "error", message, fix, line, column)
        return
    folder, base = module.code(given["model_id"]), module.code(given["model"])
    further = [f"{name}={module.code(given[name])}" for name in KEPT if name in given]
    arguments = ", ".join([base, mark_at(porting, line, column) + folder, porting.names.mesh, *further])
    porting.edit(*module.span(call), f"{porting.rt('apply_adapter')}({arguments})", PART_OF, REASON)
    merge = merges[0]
    assert isinstance(merge.func, cst.Attribute)
    (start, end), (first, last) = module.span(merge), module.span(merge.func.value)
    porting.edit(start, first, f"{porting.rt('merge_and_unload')}(", PART_OF, "merged when it is saved")
    porting.edit(last, end, ")", PART_OF, "merged when it is saved")
    porting.fate(Field("PeftModel.model_id", folder, "exact", "rt.apply_adapter", REASON, PART_OF, line, column))
