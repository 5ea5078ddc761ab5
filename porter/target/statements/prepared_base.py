"""What k-bit preparation asks for where the script runs, at the place where the port trains."""

from __future__ import annotations

import libcst as cst

from ...engine.script.fill_from_tables import short_name
from ...engine.script.porting import Porting
from ...engine.script.sites import Site
from ...recipe import Value
from ...source.calls import function_around
from ...text.expressions import names_in

PREPARED = "memory.kbit_gradient_checkpointing"


def is_read_here(porting: Porting, value: Value) -> bool:
    """Whether the condition `use_gradient_checkpointing=` means the same where the trainer is made; else a warning."""
    held = [(site, each) for site in porting.of_role("prepare") for each in site.arguments if each.value is value]
    trainer = porting.trainer
    if not held or trainer is None:
        return True
    site, argument = held[0]
    names = sorted(names_in(value.code))
    found = [(trainer.scope.lookup(name), site.scope.lookup(name)) for name in names]
    alike = [name for name, (one, other) in zip(names, found, strict=True) if (one and one[0]) is (other and other[0])]
    if set(names) - {*alike, *_of_one_class(porting, trainer, site)} == set():
        return True
    message = f"use_gradient_checkpointing={argument.text} is decided in another function than the one that trains: the"
    message += " port doesn't turn it on for that. It costs memory, and changes no value."
    remat = f"{porting.names.model} = {porting.rt('remat')}({porting.names.model})"
    fix = f"Write `{remat}` behind the adapters if it holds."
    porting.find(site.rule, "warning", message, fix, argument.line, argument.column)
    reason = "it can't be read where the port trains; rt.remat(model) does it, behind the adapters"
    porting.change_fate(f"{short_name(site)}.{argument.name}", fate="manual", target="", reason=reason)
    return False


def _of_one_class(porting: Porting, one: Site, other: Site) -> set[str]:
    """`self`, where both places are in methods of one class: what it holds is the same object's."""
    methods = [function_around(porting.module, site.node) for site in (one, other)]
    around = [[*porting.module.ancestors(each)][:2] if each is not None else [] for each in methods]
    classes = [block[1] for block in around if len(block) == 2 and isinstance(block[1], cst.ClassDef)]
    return {"self"} if len(classes) == 2 and classes[0] is classes[1] else set()
