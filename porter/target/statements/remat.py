"""`model = rt.remat(model)`: gradient checkpointing, whoever of the source asks for it."""

from __future__ import annotations

from ...engine.packs.said_by_packs import title_of
from ...engine.receipts.marking import mark, unread
from ...engine.script.fill_from_tables import table_of
from ...engine.script.porting import Porting
from ...text.expressions import atom
from .prepared_base import PREPARED, is_read_here
from .remarks import remarked_line

OF_LIBRARY = "library_gradient_checkpointing"  # asked of what loads the model, or puts its adapters in
# What recomputes activations, by its place in the Recipe's section `memory`, and who asks for it.
MEMORY = {
    "gradient_checkpointing": "gradient_checkpointing=True",
    "fsdp_activation_checkpointing": "FSDP's activation_checkpointing",
    "kbit_gradient_checkpointing": "PEFT's k-bit preparation",
    OF_LIBRARY: "the model's library",
}


def memory_line(porting: Porting, indent: str) -> list[str]:
    """`model = rt.remat(model)`, after LoRA is in; behind a condition where all that ask for it are decided when the
    script runs."""
    wanted = {name: value for name in MEMORY if (value := porting.value(f"memory.{name}")) is not None}
    asked = [name for name, value in wanted.items() if value.is_literal(True)]
    conditions = {f"memory.{name}": value for name, value in wanted.items() if not value.known}
    model = porting.names.model
    line = f"{model} = {porting.rt('remat')}({model})"
    if asked:
        given = any(porting.given(f"memory.{place}") for place in asked)
        default = MEMORY[asked[0]] if asked == ["kbit_gradient_checkpointing"] else "TRL"
        default = _library(porting) if OF_LIBRARY in asked else default
        asks = _library(porting) if asked[0] == OF_LIBRARY else MEMORY[asked[0]]
        unread(porting, f"{asks} turns gradient checkpointing on", *conditions)
        comment = "gradient checkpointing, a decoder layer at a time"
        note = f"# {comment}{'' if given else f' (on by default in {default})'}"
        return remarked_line(porting, line, indent, *(f"memory.{place}" for place in asked), note=note)
    told = {place: value for place, value in conditions.items() if place != PREPARED or is_read_here(porting, value)}
    if told:
        codes = list(dict.fromkeys(value.code for value in told.values()))
        condition = codes[0] if len(codes) == 1 else " or ".join(map(atom, codes))
        return [f"{mark(porting, *told)}if {condition}:", f"{porting.module.indent}{line}"]
    return []


def _library(porting: Porting) -> str:
    """How the library is called whose load, or whose adapters, bring gradient checkpointing along."""
    tables = [table_of(porting, site) for site in (porting.model, porting.inject) if site is not None]
    asking = (rule for rule in tables if any(row.place == f"memory.{OF_LIBRARY}" for row in rule.table.own.values()))
    return next((title_of(porting.packs, rule.library) for rule in asking), MEMORY[OF_LIBRARY])
