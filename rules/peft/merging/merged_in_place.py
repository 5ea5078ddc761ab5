"""What is saved by another name behind `merge_and_unload()`, which merges in place.

    merged = model.merge_and_unload()
    base.save_pretrained("out")       the model that get_peft_model was given: it is merged, and saved whole
    model.save_pretrained("out")      the PeftModel: its adapters are gone, and PEFT saves an adapter without weights

In the port the model keeps its adapters, and `rt.merge_and_unload` gives what is merged.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Use, function_around, role_uses, shortened
from porter.packs.training import is_behind

from .._kinds_of_models import kinds_of

PART_OF = "TP216"
MERGES = ("@model.merge_and_unload()", "@trainer.model.merge_and_unload()")
SAVES = ("@model.save_pretrained()", "@model.push_to_hub()")
OF_TRAINER = ("@trainer.save_model()", "@trainer.push_to_hub()", "@trainer.model.save_pretrained()")
REASON = "PEFT merges in place: this is the merged model"


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def save_merged_in_place(porting: Porting) -> None:
    """The base is saved by the name of what is merged; of a PeftModel it is said what the GPU run saves."""
    merges = [use for use in role_uses(porting) if use.match in MERGES and is_behind(porting, use.outer)]
    for use in role_uses(porting) if merges else ():
        if use.match not in (*SAVES, *OF_TRAINER) or porting.covered(porting.module.span(use.name)[0]):
            continue
        before = [merge for merge in merges if _is_before(porting, merge, use)]
        kinds = kinds_of(porting, use.name) if use.match in SAVES else {"adapted"}
        if not before or "merged" in kinds:
            continue
        if kinds == {"other"} and _is_certain(porting, before[-1], use):
            name = _name_of_merged(porting, before[-1])
            porting.edit(*porting.module.span(use.name), name, PART_OF, REASON)
        else:
            _say(porting, use, kinds, certain=_is_certain(porting, before[-1], use))


def _is_before(porting: Porting, merge: Use, use: Use) -> bool:
    module = porting.module
    same = function_around(module, merge.outer) is function_around(module, use.outer)
    return same and module.span(merge.outer)[1] <= module.span(use.outer)[0]


def _is_certain(porting: Porting, merge: Use, use: Use) -> bool:
    """Whether the merge has run wherever the script comes to the use."""
    module = porting.module
    return module.parents[module.statement(merge.outer)] in [*module.ancestors(use.outer)]


def _name_of_merged(porting: Porting, merge: Use) -> str:
    """The variable that is given what is merged; a new one where the script has none."""
    module, asked = porting.module, ("merged in place", merge.outer)
    line = module.parents[merge.outer]
    target = line.targets[0].target if isinstance(line, cst.Assign) and len(line.targets) == 1 else None
    if isinstance(target, cst.Name):
        return target.value
    if asked not in porting.answers:
        porting.answers[asked] = porting.fresh("merged")
        start = module.span(merge.outer)[0]
        porting.edit(start, start, f"{porting.answers[asked]} = ", PART_OF, REASON)
    found: str = porting.answers[asked]
    return found


def _say(porting: Porting, use: Use, kinds: set[str], *, certain: bool) -> None:
    module = porting.module
    code, place = shortened(module.code(use.outer)), module.location(use.outer)
    if kinds == {"adapted"}:
        may = "has merged" if certain else "may have merged"
        message = f"{code}: merge_and_unload {may} this model in place above, and then the GPU run saves an adapter "
        message += "without weights; the port saves what was trained."
        fix = "Save what merge_and_unload gives for the whole model."
        porting.find(PART_OF, "warning", message, fix, *place)
        return
    message = f"{code}: whether merge_and_unload has merged this model in place isn't known at port time."
    porting.find(PART_OF, "error", message, "Save what merge_and_unload gives, or the adapter, in each case.", *place)
