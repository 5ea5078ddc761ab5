"""prepare_model_for_kbit_training: what it asks for is read, and its call goes."""

from __future__ import annotations

from porter.packs.api import Origin, Phase, Porting, Value, step
from porter.packs.script import shown
from porter.packs.training import Training, fill_site, plain_versions, table_of
from porter.packs.writing import unread_unless

PART_OF = "TP602"
CHECKPOINTING = "memory.kbit_gradient_checkpointing"


@step(Phase.READ, of="trainer", fills=("preparation", "memory.kbit_gradient_checkpointing"))
def read_preparation(porting: Training) -> None:
    """What prepare_model_for_kbit_training asks for: checkpointing, on unless the script says no."""
    versions = plain_versions(porting)
    for site in porting.of_role("prepare"):
        fill_site(porting, site, table_of(porting, site), versions)
        if site.argument("use_gradient_checkpointing") is None:
            origin = Origin(porting.module.path, site.line, site.column, site.rule)
            porting.fill({"memory.kbit_gradient_checkpointing": Value("default", "True", origin)})


@step(
    Phase.READ,
    of="trainer",
    reads=("preparation", "model", "model.quantization"),
    settles=("memory.kbit_gradient_checkpointing",),
)
def settle_checkpointing(porting: Training) -> None:
    """PEFT turns checkpointing on for a base that is quantised alone."""
    held = porting.value("model.quantization")
    plain = porting.model is not None and (held is None or held.is_literal(None))
    if not plain or porting.value(CHECKPOINTING) is None:
        return
    porting.fill({CHECKPOINTING: Value("default", "False")})
    reason = "PEFT turns gradient checkpointing on for a quantised base alone"
    for site in porting.of_role("prepare"):
        name = f"{site.qualified.rsplit('.', 1)[-1]}.use_gradient_checkpointing"
        porting.change_fate(name, fate="dropped", target="", reason=reason)


@step(Phase.WRITE, of="trainer", reads=("written",))
def write_preparation(porting: Porting) -> None:
    """The calls of prepare_model_for_kbit_training go: their model is frozen as it is."""
    for site in porting.of_role("prepare"):
        model = site.argument("model")
        reason = "the base is frozen as it is loaded"
        unread_unless(porting, reason, [("", each.line, each.column) for each in site.arguments if each is model])
        if model is None:
            message = f"{shown(porting.module.text[site.start : site.end])}: which model it prepares is not to be seen."
            porting.find(site.rule, "error", message, "Take the call out.", site.line, site.column)
        elif site.alone or site.variable == model.text:
            porting.remove_statement(site.node, site.rule, reason)
        else:
            porting.edit(site.start, site.end, model.text, site.rule, reason)
