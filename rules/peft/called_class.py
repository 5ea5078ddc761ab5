"""A class method that is called on the trained model: `model.from_pretrained(base, "out")` of a PeftModel.

It loads an adapter into another base, whatever the object is; the port calls it on PEFT's class.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import role_uses

from ._kinds_of_models import kinds_of

PART_OF = "TP204"
CLASS = "PeftModel"
REASON = "it is a method of the class: the adapter's base is the model that it is given"


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def name_the_class(porting: Porting) -> None:
    """`tuned.from_pretrained(base, "out")` → `PeftModel.from_pretrained(base, "out")`."""
    module = porting.module
    for use in role_uses(porting, "model"):
        if use.match != "@model.from_pretrained()" or kinds_of(porting, use.name) != {"adapted"}:
            continue
        start, end = module.span(use.name)
        found = module.scope(use.name).lookup(CLASS)
        bound = found[1] if found is not None else ()
        anothers = any(binding.kind != "import" or not binding.qualified.startswith("peft.") for binding in bound)
        if isinstance(use.name, cst.Call) or anothers or porting.covered(start):
            continue
        porting.edit(start, end, CLASS, PART_OF, REASON)
        porting.imports.add(f"from peft import {CLASS}")
