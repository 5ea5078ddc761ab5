"""Keywords that are owed no line in the port of some runs: what they ask for is decided elsewhere, or never read there.

Each holds only where no code was written for its value; a written line counts more than the reason here.
"""

from __future__ import annotations

from ..script.fill_from_tables import table_of
from ..script.porting import Porting
from ..steps.step import Phase, step
from .marking import keys_at, unread_unless

FLAGS = ("load_in_4bit", "load_in_8bit")
TYPES = ("precision.bf16", "precision.fp16")
RESUMES = "the Trainer doesn't read it: whether a run resumes is what train() is given"
ROLLS_OUT = ("grpo", "rloo")


@step(Phase.WRITE, of="trainer", reads=("written", "said"))
def say_moot(porting: Porting) -> None:
    """Why some keywords of this run have no line."""
    _say_types(porting)
    _say_flags(porting)
    unread_unless(porting, RESUMES, keys_at(porting, "run.resume"))
    trainer = porting.trainer
    if not porting.names.eval_batches:
        unread_unless(porting, "the port evaluates nothing here", keys_at(porting, "batch.eval_per_device"))
    if trainer is not None and porting.loop is None and table_of(porting, trainer).kind in ROLLS_OUT:
        reason = "TRL shuffles the prompts of these trainers by seed alone"
        unread_unless(porting, reason, keys_at(porting, "run.data_seed"))
    else:
        rows = [row for row in porting.fields if row.source.endswith(".fast_inference")]
        unread_unless(porting, "nothing is sampled in this training", [("", row.line, row.column) for row in rows])


def _say_flags(porting: Porting) -> None:
    """`load_in_4bit=` beside a `quantization_config=`, which says how weights are held."""
    for site in porting.sites:
        config = site.argument("quantization_config")
        if config is not None and not config.value.is_literal(None):
            flags = [each for name in FLAGS if (each := site.argument(name)) is not None]
            unread_unless(porting, "quantization_config says it", [("", each.line, each.column) for each in flags])


def _is_left(porting: Porting) -> bool:
    """Whether the call that loads the model is left to a person."""
    site = porting.model
    refused = {finding.line for finding in porting.findings if finding.severity == "error"}
    return site is not None and site.line in refused


def _say_types(porting: Porting) -> None:
    """Of a model that the port doesn't load, whoever loads it says the types; a finding tells a person to."""
    trainer = porting.trainer
    if trainer is None or not (porting.foreign_model or _is_left(porting)):
        return
    reason = "the model is loaded elsewhere, and its types are said there: rt.load_model(dtype=, compute_dtype=)"
    unread_unless(porting, reason, keys_at(porting, *TYPES))
    asked = [value for place in TYPES if (value := porting.value(place)) is not None and porting.given(place)]
    asked = [value for value in asked if not value.known or value.literal]
    if not asked or any(finding.severity == "error" for finding in porting.findings):
        return
    message = f"{asked[0].text or asked[0].code}: the run's mixed precision; the model is loaded elsewhere, and float32"
    message += " weights are multiplied in bfloat16 only where its rt.load_model says so."
    fix = "If its weights are float32, give that call compute_dtype=jnp.bfloat16."
    porting.find("TP302", "info", message, fix, trainer.line, trainer.column)
