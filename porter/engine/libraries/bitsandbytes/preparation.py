"""What k-bit preparation asks for where the script runs, at the place where the port trains."""

from __future__ import annotations

from ....recipe import Value
from ....text.expressions import names_in
from ...script.fill_from_tables import short_name
from ...script.porting import Porting

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
    if all((one and one[0]) is (other and other[0]) for one, other in found):
        return True
    message = f"use_gradient_checkpointing={argument.text} is decided in another function than the one that trains: the"
    message += " port doesn't turn it on for that. It costs memory, and changes no value."
    remat = f"{porting.names.model} = {porting.rt('remat')}({porting.names.model})"
    fix = f"Write `{remat}` behind the adapters if it holds."
    porting.find(site.rule, "warning", message, fix, argument.line, argument.column)
    reason = "it can't be read where the port trains; rt.remat(model) does it, behind the adapters"
    porting.change_fate(f"{short_name(site)}.{argument.name}", fate="manual", target="", reason=reason)
    return False
