"""Distillation: what stands where the GKDTrainer stood.

The batches may sample from the student, so they come after the adapters: mesh, models, LoRA, batches, optimizer,
trainer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..engine.receipts.marking import mark_of
from ..engine.script.fill_from_tables import plain_version, short_name
from ..engine.script.porting import Porting
from ..runtime.facts.field_tables import version_key
from ..text.layout import Arg, Call, render
from .statements.checkpoint_sampling import checkpoint_fills
from .statements.common_statements import (
    Writing,
    assign,
    batch_lines,
    joined,
    lora_lines,
    optimizer_lines,
    resume_lines,
    run_arguments,
    seed_arguments,
    trained_model,
)
from .statements.model_statements import load_by_name, model_lines, other_load_call
from .statements.remarks import marked, placed
from .statements.training_config import training_config, with_hooks

EXACT_FROM = (1, 7)  # the first release of TRL whose loss is today's
HALVES_FIXED = (0, 16)  # the first whose beta means what it does today

# Recipe place → keyword of the batches, and its default there.
DATA: dict[str, tuple[str, Any]] = {
    "data.chat_template_path": ("chat_template_path", None),
    "data.eos_token": ("eos_token", None),
    "batch.drop_last": ("drop_last", False),
    "data.sampling": ("sampling", "random"),
}


def trainer_block(porting: Porting, writing: Writing) -> str:
    """The statements that replace `trainer = GKDTrainer(...)`, the first without its indentation."""
    site = porting.trainer
    assert site is not None
    indent = site.indent
    _check(porting)
    for reference in porting.references:
        if not site.start <= reference.start < site.end:
            before = len(reference.variable) + 3 if reference.variable else 0
            code = render(other_load_call(porting, reference), reference.indent, porting.module.indent, before)
            porting.replace(reference, code, "the teacher's weights in Tunix's model")
    models = model_lines(porting, writing, indent)
    teacher, lines = _teacher(porting, indent)
    data = [models, lines, lora_lines(porting, writing, indent), _data_lines(porting, writing, indent, teacher)]
    training = [optimizer_lines(porting, indent), _trainer_lines(porting, indent, teacher)]
    return joined([data, training], indent)


def _teacher(porting: Porting, indent: str) -> tuple[str, list[str]]:
    """The teacher's name in the port, and the statement that loads it where no other does."""
    site = porting.trainer
    assert site is not None
    argument = site.argument("teacher_model")
    if argument is None:
        return "None", []
    inside = next((each for each in porting.references if site.start <= each.start < site.end), None)
    if inside is None and argument.reference and (porting.references or not argument.value.known):
        if porting.references or not _is_name(argument.text):
            return argument.text, []
    name = porting.fresh("teacher", "teacher_model")
    call = other_load_call(porting, inside) if inside is not None else load_by_name(porting, argument.text)
    return name, [assign(name, call, indent)]


def teacher_of(porting: Porting, teacher: str) -> Arg:
    """The teacher as an argument."""
    site = porting.trainer
    assert site is not None
    return marked(Arg(teacher, "teacher_model"), mark_of(porting, [site.argument("teacher_model")]))


def _is_name(text: str) -> bool:
    return re.search(r"name|path|_id$", text) is not None


def _data_lines(porting: Porting, writing: Writing, indent: str, teacher: str) -> list[str]:
    models = [Arg(porting.names.model, "model"), teacher_of(porting, teacher)]

    def settings() -> list[Arg]:
        length = placed(porting, "data.max_length", "max_length")
        found = [*_sampling(porting, models), *run_arguments(porting, writing), length, *_given(porting)]
        together = porting.value("batch.average_tokens_across_devices")
        if writing.processes > 1 and together is not None and not together.is_literal(True):
            found.append(Arg(porting.text("batch.average_tokens_across_devices"), "average_tokens_across_devices"))
        return [*found, *seed_arguments(porting)]

    return batch_lines(
        porting,
        writing,
        indent,
        "GKDBatches",
        porting.names.tokenizer,
        settings,
        lambda: models,
        defaults=_left_out(porting),
    )


def _left_out(porting: Porting) -> Mapping[str, tuple[str, Any]]:
    """What the batches take when it is left out; without sampling, what only samples."""
    together = {"batch.average_tokens_across_devices": ("average_tokens_across_devices", True)}
    never = {"distillation.lmbda": ("lmbda", 0), "distillation.seq_kd": ("seq_kd", False)}
    return {**DATA, **together, **never}


def _sampling(porting: Porting, models: list[Arg]) -> list[Arg]:
    """Who samples how much, and how; nothing where all is trained on the dataset."""
    asked = {name: porting.value(f"distillation.{name}") for name in ("lmbda", "seq_kd")}  # the second since TRL 0.12
    never = {name: value is None or (value.known and value.literal in (0, False)) for name, value in asked.items()}
    if all(never.values()):
        return []
    found = [] if never["lmbda"] else [models[0]]
    found += [] if never["seq_kd"] else [models[1]]
    places = {
        "distillation.lmbda": ("lmbda", never["lmbda"]),
        "distillation.seq_kd": ("seq_kd", never["seq_kd"]),
        "rollout.temperature": ("temperature", False),
        "rollout.max_completion_length": ("max_new_tokens", False),
    }
    written = {place: name for place, (name, left_out) in places.items() if not left_out}
    found += [placed(porting, place, name) for place, name in written.items()]
    fills = checkpoint_fills(porting, told=("top_k",))
    return [*found, fills] if fills else found


def _given(porting: Porting) -> list[Arg]:
    found = []
    for place, (keyword, default) in DATA.items():
        value = porting.value(place)
        if value is not None and not value.is_literal(default):
            found.append(placed(porting, place, keyword))
    return found


def _trainer_lines(porting: Porting, indent: str, teacher: str) -> list[str]:
    names = porting.names
    arguments = [
        trained_model(porting),
        Arg(names.optimizer),
        Arg(training_config(porting)),
        teacher_of(porting, teacher),
    ]
    arguments.append(placed(porting, "loss.beta", "beta"))
    skip = (
        f"{names.batches}.skip({names.trainer}.train_steps)  # what a resumed run has trained on is not sampled again"
    )
    skipped = [skip] if porting.resumes else []
    call = Call(porting.rt("DistillationTrainer"), arguments)
    return [*resume_lines(porting), assign(names.trainer, call, indent), *skipped, *with_hooks(porting, indent)]


def _check(porting: Porting) -> None:
    """Findings for a missing teacher, for shares that are none, and for releases that trained otherwise."""
    site = porting.trainer
    assert site is not None

    def find(severity: Any, message: str, fix: str, place: str = "") -> None:
        value = porting.value(place) if place else None
        origin = value.origin if value is not None and value.origin is not None and value.origin.line else None
        line, column = (origin.line, origin.column) if origin else (site.line, site.column)
        porting.find(site.rule, severity, message, fix, line, column)

    teacher = site.argument("teacher_model")
    if teacher is None or teacher.value.is_literal(None):
        find("error", f"{short_name(site)}: there is no teacher_model.", "Give the teacher, or its name.")
    for place, name in (("distillation.lmbda", "lmbda"), ("loss.beta", "beta")):
        share = porting.known(place)
        if isinstance(share, int | float) and not 0 <= share <= 1:
            find("error", f"{name}={share}: TRL takes a share from 0 to 1.", "", place)
    release = plain_version(porting.versions.get("trl", ""))
    if release and version_key(release) < EXACT_FROM:
        parts = "averaged each micro-batch on its own and left answer tokens out where prompts differ in length"
        if version_key(release) < HALVES_FIXED:
            parts += ", and mixed the two models with their shares exchanged"
        message = f"GKDTrainer of TRL {release} {parts}; the port trains as TRL 1.7 and later do."
        find("warning", message, "Compare losses with a run of TRL 1.7 or later.")
