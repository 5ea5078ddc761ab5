"""Rows that processes work on once JAX has started: `dataset.map(..., num_proc=8)` below the model.

What it does: warns where the port holds the mesh by then: its model is loaded above, or its mesh stands below the
imports. The port's own batches are made in one process, whatever `dataset_num_proc` says.
Why: datasets forks the process, and JAX runs threads: the fork gets their locks without them, so that it may never
return. JAX warns of it when it happens.
Example: `rows = rows.map(clean, num_proc=8)` behind `AutoModelForCausalLM.from_pretrained(...)`
Use instead: the line above the one that loads the model, or no `num_proc`: the rows are the same
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, is_dead
from porter.packs.writing import holds_devices

ID = "TP545"
FIX = "Move it above the mesh, or take num_proc out: the rows are the same."
METHODS = frozenset({"map", "filter", "save_to_disk", "to_json", "to_csv", "to_parquet", "push_to_hub"})


@step(Phase.NAME)
def name_forked_workers(porting: Porting) -> None:
    module = porting.module
    if "num_proc" not in module.text or porting.trainer is None:
        return
    forks = [call for call in module.calls if _forks(module, call) and porting.keeps(call)]
    behind = [call for call in forks if holds_devices(porting, call)]
    if behind:
        lines = sorted({module.location(call)[0] for call in behind})
        also = f", as do lines {', '.join(map(str, lines[1:]))}" if len(lines) > 1 else ""
        message = f"num_proc forks the process where JAX runs threads already{also}: a fork may never return."
        porting.find(ID, "warning", message, FIX, *module.location(behind[0]))


def _forks(module: Module, call: cst.Call) -> bool:
    """Whether a dataset's method is given more than one process, or a number that the run decides."""
    given = next((a.value for a in call.args if a.keyword is not None and a.keyword.value == "num_proc"), None)
    if given is None or module.code(given) in ("None", "0", "1") or is_dead(module, call):
        return False
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in METHODS
