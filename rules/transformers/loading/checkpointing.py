"""Gradient checkpointing that the script asks of the model itself rather than of its Trainer."""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Origin, Phase, Value, step
from porter.packs.script import role_uses
from porter.packs.training import Training, about, table_of

PART_OF = "transformers"
ANYWAY = "model.gradient_checkpointing_enable() turns it on, whatever this holds"
PLACE = "memory.gradient_checkpointing"


@step(
    Phase.READ,
    of="trainer",
    reads=("model", "inject", "branch_injects", "foreign_model", "arguments", "arguments_object", "values"),
    fills=("memory.gradient_checkpointing",),
)
def scan_checkpointing(porting: Training) -> None:
    """`model.gradient_checkpointing_enable()` asks for what `gradient_checkpointing=True` asks for."""
    for use in role_uses(porting, "model"):
        if use.match != "@model.gradient_checkpointing_enable()":
            continue
        line, column = porting.module.location(use.outer)
        origin = Origin(porting.module.path, line, column, "TP310")
        around = (node for node in porting.module.ancestors(use.outer) if isinstance(node, cst.If | cst.FunctionDef))
        condition = next(around, None)
        main = isinstance(condition, cst.If) and "__name__" in porting.module.code(condition.test)
        asked = _argument_read(porting, condition.test) if isinstance(condition, cst.If) else None
        if asked is not None and asked is porting.value(PLACE):
            continue  # it repeats what the Trainer is told
        if asked is not None and asked.known:
            if asked.literal and not _is_asked(porting):
                _turn_on(porting, origin)
        elif _is_asked(porting):
            continue
        elif not isinstance(condition, cst.If) or main:
            _turn_on(porting, origin)
        elif isinstance(condition.test, cst.Name | cst.Attribute) and not porting.arguments_object:
            code = porting.module.code(condition.test)
            porting.fill({PLACE: Value("expression", code, origin, code)})


def _turn_on(porting: Training, origin: Origin) -> None:
    """The model's own call asks for it: a keyword of the Trainer's arguments that does, too, says no more."""
    porting.fill({PLACE: Value("literal", "True", origin)})
    for row in porting.fields:
        if row.source.endswith(".gradient_checkpointing") and row.value == "True":
            about(porting, row, [PLACE])
        elif row.source.endswith(".gradient_checkpointing"):
            porting.change_fate(row.source, fate="dropped", target="", reason=ANYWAY)


def _is_asked(porting: Training) -> bool:
    """Whether the Trainer is told the same by its arguments."""
    value = porting.value(PLACE)
    return value is not None and value.kind == "literal" and value.is_literal(True)


def _argument_read(porting: Training, test: cst.BaseExpression) -> Value | None:
    """What `args.x` of the trainer's config object holds."""
    site = porting.arguments
    if site is None or site.variable is None or not isinstance(test, cst.Attribute):
        return None
    row = table_of(porting, site).table.row(test.attr.value)
    mine = porting.module.code(test.value) == site.variable
    return porting.value(row.place) if mine and row is not None and row.place else None
