"""What an accumulated gradient is scaled by before it is clipped, where the source's release divided it otherwise."""

from __future__ import annotations

import re

from ...engine.reading.precision import launched_as
from ...engine.script.fill_from_tables import plain_version
from ...engine.script.porting import Porting
from ...recipe import Value
from ...runtime.facts.field_tables import version_key
from ...runtime.facts.releases import release
from ...text.expressions import atom, choice, quoted
from ...text.layout import Arg
from .multimodal import APART, own_mean

# transformers' first release that logs the loss as it goes into the gradient.
LOGS_SUM = (4, 48, 1)
LOGS_COUNTED_SUM = (4, 46, 2)  # the same of batches with labels, whose loss was taken for one of the whole step
PARSERS = r"\b(?:Hf|H4)ArgumentParser\b|\bTrlParser\b"
FIX = "Take optax.scale out of the optimizer to train as other releases do."


def gradient_scale(porting: Porting) -> list[Arg]:
    """`optax.scale(1 / 8)` where the release divided twice, `optax.scale(8)` where it didn't divide at all."""
    version, trl = (plain_version(porting.versions.get(name, "")) for name in ("transformers", "trl"))
    place = "batch.accumulation"
    steps = porting.value(place)
    if not version or porting.loop is not None or _deepspeed(porting) or steps is None or steps.is_literal(1, None):
        return []
    text, known = porting.text(place), release(trl or None, version, porting.counted_by)
    trainer = (porting.recipe.trainer or "").rpartition(".")[2]
    if own := porting.code.get("sums_micro_steps"):
        factor = text
        said = f"{own} divides no accumulated gradient of GRPO by gradient_accumulation_steps"
    elif known.divides_twice:
        factor = f"1 / {atom(text)}"
        said = _divides(porting, version)
    elif known.sums_gradients_of(trainer, porting.recipe.family):
        factor = text
        of = "this model" if trainer in ("SFTTrainer", "Trainer") else trainer
        said = f"transformers {version} divides no accumulated gradient of {of} by gradient_accumulation_steps"
    elif trainer in ("SFTTrainer", "Trainer") and known.sums_multimodal and (kind := own_mean(porting)):
        if kind != APART:
            code = f"{porting.rt('undivided')}({porting.names.model}, {text}, {quoted(version)})"
            _say_undivided(porting, version, "multimodal models'")
            return [Arg(f"optax.scale({_unless_deepspeed(porting, code)})")]
        factor = text
        said = f"transformers {version} divides no accumulated gradient of this model by gradient_accumulation_steps"
    elif trainer in ("SFTTrainer", "Trainer") and not porting.recipe.family and known.depends_on_family:
        code = f"{porting.rt('undivided')}({porting.names.model}, {text}, {quoted(version)})"
        code = _unless_deepspeed(porting, code)
        _say_undivided(porting, version, "Mistral's")
        return [Arg(f"optax.scale({code})", comment=f"# 1 but for Mistral, whose transformers {version} divides none")]
    else:
        return []
    site = porting.trainer
    assert site is not None
    so = "and so does" if known.divides_twice and not own else "nor does"
    code = factor if own else _unless_deepspeed(porting, factor)
    unless = ", but under DeepSpeed" if code != factor else ""
    message = f"{said}{unless}, {so} the port, before it clips: that release's training, not what was meant."
    logs_sum = LOGS_COUNTED_SUM if trainer in ("SFTTrainer", "Trainer") else LOGS_SUM
    if not own and not known.divides_twice and version_key(version) >= logs_sum:
        message += " Its log lines have the sum of a step's losses, the port's their mean."
    porting.find(site.rule, "info", message, FIX, site.line, site.column)
    return [Arg(f"optax.scale({code})", comment=f"# {said}")]


def _divides(porting: Porting, version: str) -> str:
    """How often a release divides that has accelerate divide, too: a smoothed loss, a sum of means, only there."""
    smoothing = porting.value("loss.label_smoothing")
    divides = f"transformers {version} divides an accumulated gradient by gradient_accumulation_steps"
    if smoothing is None or smoothing.is_literal(0, 0.0, None):
        return f"{divides} twice"
    if _is_field(smoothing) and not _may_be_set(porting, "label_smoothing"):
        return f"{divides} twice"
    return f"{divides} once" if smoothing.known else f"{divides} twice, that of a smoothed loss once"


def _say_undivided(porting: Porting, version: str, whose: str) -> None:
    """What the log lines have of a model that only the run knows."""
    assert porting.trainer is not None
    message = f"transformers {version} divides no accumulated gradient of {whose} by gradient_accumulation_steps, nor "
    message += "does the port, which asks the model when it runs."
    if version_key(version) >= LOGS_COUNTED_SUM:
        message += f" That release's log lines of {whose} have the sum of a step's losses, the port's their mean."
    porting.find(porting.trainer.rule, "info", message, FIX, porting.trainer.line, porting.trainer.column)


def _deepspeed(porting: Porting) -> bool:
    """Whether DeepSpeed divides gradients: launched with it, or named by the script."""
    if launched_as(porting) == "deepspeed":
        return True
    named = porting.value("mesh.zero")
    return named is not None and not _is_field(named) and not named.is_literal(None)


def _is_field(named: Value) -> bool:
    """Whether a value is whatever a kept object has."""
    return named.origin is None and not named.known


def _may_be_set(porting: Porting, field: str) -> bool:
    """Whether a parser of the command line, or the script itself, may set a field of an object that doesn't show it."""
    return re.search(rf"{PARSERS}|{field}", porting.module.text) is not None


def _unless_deepspeed(porting: Porting, factor: str) -> str:
    """`factor`, or 1 where an object that is only known when the script runs names DeepSpeed, which divides."""
    named = porting.value("mesh.zero")
    if named is None or not _is_field(named) or not _may_be_set(porting, "deepspeed"):
        return factor
    return choice(named.code, "1", factor)
