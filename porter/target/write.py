"""Writing: every site of the recipe gets what stands there afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..engine.script.fill_from_tables import table_of
from ..engine.script.porting import TRAINER, Porting
from ..engine.script.sites import facts_of
from ..engine.steps.step import Phase, step
from ..recipe import Field, Value
from ..text.edits import comments_above, line_start
from ..text.layout import render
from . import causal_lm, distillation, grpo, loop, sft
from .adapters import adapter_rules, fuses, stands_in, write_adapters
from .mesh import mesh_code, write_mesh
from .preference import KINDS, preference_block, without_dropout
from .statements.common_statements import Writing
from .statements.lora import (
    vision_note,
)
from .statements.model_statements import loading
from .statements.pairs import write_pair
from .statements.remarks import place_headings

# How a trainer trains (`kind` in its table) → the statements that stand where it stood.
BLOCKS: Mapping[str, Callable[[Porting, Writing], str]] = {
    "sft": sft.trainer_block,
    "causal-lm": causal_lm.trainer_block,
    **dict.fromkeys(KINDS, preference_block),
    "gkd": distillation.trainer_block,
    "grpo": grpo.trainer_block,
    "rloo": grpo.trainer_block,
    "loop": loop.loop_block,
}


@step(Phase.WRITE, of="trainer", reads=("dropped", "emptied", "names", "parts"), fills=("written",))
def write(porting: Porting) -> None:
    """Plan the edits of the model, the adapters, the config and the trainer."""
    trainer, family, sizes, mesh = porting.trainer, porting.family, porting.sizes, porting.mesh
    assert trainer is not None
    without_dropout(porting)
    rules = adapter_rules(porting, family, sizes)
    porting.fuses = fuses(porting, family, rules)
    code = mesh_code(porting, mesh)
    mesh_elsewhere = write_mesh(porting, code)
    _write_model(porting)
    provider, provider_elsewhere = write_adapters(porting, family, rules)
    if porting.lora_conditional:  # only what was written shows that the script puts adapters in by itself
        porting.fuses = porting.fuses or fuses(porting, family, None)
    along = _write_arguments(porting)
    processes = porting.known("mesh.processes", 1)
    writing = Writing(family, sizes, rules, code, mesh_elsewhere, provider_elsewhere, provider, int(processes))
    block = BLOCKS[table_of(porting, trainer).kind](porting, writing)
    block = _with_heading(porting, block) if along else block
    porting.replace_statement(trainer, block, "Tunix's trainer, its data and its optimizer", part=TRAINER)
    place_headings(porting)
    _batch_sum(porting, writing, mesh)
    note = vision_note(porting, family, sizes)
    if note:
        porting.change_fate("LoraConfig.target_modules", fate="changed", reason=note)


@step(Phase.WRITE, of="trainer", fills=("names",))
def choose_names(porting: Porting) -> None:
    """Names for what the port adds; the user's own names stay."""
    trainer = porting.trainer
    assert trainer is not None
    names = porting.names
    taken = porting.module.bound_names
    for attribute, choices in (("mesh", ("mesh", "tpu_mesh")), ("batches", ("batches", "train_batches"))):
        setattr(names, attribute, next((name for name in choices if name not in taken), f"{choices[0]}_"))
    names.schedule = porting.fresh("schedule", "lr_schedule")
    names.optimizer = porting.fresh("optimizer", "optax_optimizer")
    tokenizer = trainer.argument("processing_class", "tokenizer")
    if tokenizer is not None and not tokenizer.value.is_literal(None):
        names.tokenizer = tokenizer.text
    else:
        names.tokenizer = ""


def _write_model(porting: Porting) -> None:
    values = porting.recipe.values
    one = [porting.model] if porting.model is not None else []
    for site in [site for site in porting.sites if site.node in porting.loads] if porting.loads else one:
        if site.node in porting.loads:
            porting.recipe = replace(porting.recipe, values=_with_model(values, porting.loads[site.node]))
        call = loading(porting, site)
        if site.qualified in facts_of(porting.module).loads_pair:
            write_pair(porting, site, call)
            continue
        before = len(site.variable) + 3 if site.variable else 0
        code = render(call, site.indent, porting.module.indent, before)
        porting.replace(site, code, "the same weights in Tunix's model")
    porting.recipe = replace(porting.recipe, values=values)


def _with_model(values: Mapping[str, Value], of_branch: Mapping[str, Value]) -> dict[str, Value]:
    """The recipe's values with what one branch says of the model."""
    kept = {place: value for place, value in values.items() if not place.startswith("model.")}
    model = {place: value for place, value in of_branch.items() if place.startswith("model.")}
    compute = values.get("model.compute")
    if compute is not None and compute.is_literal(None):  # the family computes in its weights' type
        model["model.compute"] = compute
    return {**kept, **model}


def _write_arguments(porting: Porting) -> bool:
    """A config object that was only read is spread over the port; its statement goes. Whether its comment stays."""
    site, trainer = porting.arguments, porting.trainer
    if site is None or trainer is None or stands_in(site, trainer):
        return False
    reason = "each value stands where Tunix wants it"
    return porting.remove_statement(
        site.node, site.rule, reason, follows=trainer.statement_start if trainer.place == "line" else None
    )


def _with_heading(porting: Porting, block: str) -> str:
    """The trainer's statements with what stood above them above `trainer = ...` alone, where the comment on its
    arguments stands above the first: `# 5. Arguments`, their values, `# 6. Trainer`."""
    trainer, text = porting.trainer, porting.module.text
    assert trainer is not None
    start = line_start(text, trainer.statement_start)
    above, place = comments_above(text, start), block.rfind(f"\n{trainer.indent}{porting.names.trainer} = ")
    if place <= 0 or above == start:
        return block
    porting.edit(above, start, "", trainer.rule, "it stands above the trainer")
    lines = [line.strip() for line in text[above:start].splitlines()]
    return block[:place] + "".join(f"\n{trainer.indent}{line}".rstrip(" ") for line in ("", *lines)) + block[place:]


def _batch_sum(porting: Porting, writing: Writing, mesh: tuple[int, int] | None) -> None:
    """The effective batch as a row of the table: what one optimizer step consumed on the GPUs, and consumes here."""
    trainer = porting.trainer
    assert trainer is not None
    rows, accumulation = porting.known("batch.per_device"), porting.known("batch.accumulation")
    if not isinstance(rows, int) or not isinstance(accumulation, int):
        return
    processes = writing.processes
    total = rows * accumulation * processes
    said = f"{rows} a GPU x {accumulation} accumulated x {processes} processes = {total} rows a step"
    if mesh is None:
        target = f"{total} rows a step, split over the mesh when it runs"
        reason = "micro-batches of a multiple of the fsdp axis, filled with rows that train nothing"
    else:
        micro = -(-rows * processes // mesh[0]) * mesh[0]
        count = -(-total // micro)
        target = f"{count} micro-batches of {micro} rows on fsdp={mesh[0]}"
        filled = count * micro - total
        reason = "the same rows train" + (f"; {filled} empty rows fill the last micro-batch" if filled else "")
    place = porting.value("batch.per_device")
    line, column = trainer.line, trainer.column
    if place is not None and place.origin is not None and place.origin.line:
        line, column = place.origin.line, place.origin.column
    porting.fate(Field("effective batch", said, "exact", target, reason, trainer.rule, line, column))
