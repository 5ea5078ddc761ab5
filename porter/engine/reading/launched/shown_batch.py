"""The batch that a notebook's outputs show, and the GPUs that its machine had, beside those of one process.

Where several GPUs are in sight and no launcher starts a process for each, a Trainer feeds one process the rows of all:
Kaggle's two T4 double a batch of which the script says nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....source.machine.gpu_of_run import kaggle_gpus
from ....source.project.printed import numbers_by
from ...script.fill_from_tables import argument_at
from ...script.sites import facts_of
from ...script.training import Training

GROUPED = ("data.group_by_length", "data.sampling")
PLACES = ("batch.per_device", "batch.accumulation")
# What hides GPUs, parts the model between them, or starts a process for each.
UNDONE = re.compile(
    r"HIP_VISIBLE_DEVICES|[\"']?device_map[\"']?\s*[=:]\s*[\"'](?:auto|balanced|sequential)"
    r"|notebook_launcher|\._n_gpu\b"
)

HIDES = "CUDA_VISIBLE_DEVICES"  # in a cell of another language, too


@dataclass(frozen=True)
class ShownBatch:
    """`processes`: as many as make the shown batch of the script's; 0 where none do, or what is shown may be another
    script's. `said` and `advice` tell it, `sure` whether nothing is left to look at."""

    processes: int
    said: str
    advice: str
    sure: bool = False


def shown_batch(porting: Training) -> ShownBatch | None:
    """What is shown of the batch of a trainer whose launch nothing says; None for nothing."""
    module = porting.module
    if module.notebook is None or porting.loop is not None or porting.mates:
        return None
    shown = numbers_by(module.notebook.raw, facts_of(module).printed_batch)
    per_device, accumulation = (_number(porting, place) for place in PLACES)
    gpus = max(shown.get("gpus", (0,)))
    undone = UNDONE.search(module.text) is not None or HIDES in module.notebook.raw
    gpus = gpus or (0 if undone else kaggle_gpus(module))
    rows = shown.get("rows", frozenset())
    if len(rows) == 1 and per_device and accumulation:
        (step,), own = rows, per_device * accumulation
        several, rest = divmod(step, own)
        same = {per_device} == shown.get("per_device") or gpus == several
        other = shown.get("accumulation", {accumulation}) != {accumulation} or not same
        if several == 1 and not rest:
            return ShownBatch(1, f"The notebook's outputs show {step} rows a step, as one process has.", "", sure=True)
        if not rest and not other:
            message = (
                f"No launch config, but the notebook's outputs show {step} rows a step, {several} times the {own} of "
                f"one process: the GPU run fed {several} GPUs, and the port takes as many processes."
            )
            if _is_grouped(porting):
                message += " If one process fed them all, it grouped rows by length over all; the port groups each's."
            return ShownBatch(several, message, "Give --processes 1 for the batch that the script says.")
        message = (
            f"The notebook's outputs show {step} rows a step, where the script says {own}: the port takes what the "
            "script says, of one process."
        )
        return ShownBatch(0, message, "Look which of both the run had, and give --processes N if it had more.")
    if gpus > 1 and not rows and not undone:
        message = (
            f"The notebook's machine had {gpus} GPUs, and nothing hides one or parts the model: a Trainer feeds all of "
            f"them, {gpus} times the rows a step. The port takes one process."
        )
        return ShownBatch(0, message, f"Give --processes {gpus} if the GPU run fed all, --processes 1 if not.")
    return None


def _is_grouped(porting: Training) -> bool:
    """Whether rows are ordered by length, in groups as large as one process's step."""
    found = [argument_at(porting, porting.config, place) for place in GROUPED] if porting.config is not None else []
    off = (None, False, "random", "sequential")
    return any(argument is not None and not argument.value.is_literal(*off) for argument in found)


def _number(porting: Training, place: str) -> int | None:
    """A number of the script's: in the Recipe, or what an object is made with that the port keeps."""
    found = porting.known(place)
    if isinstance(found, int):
        return found
    argument = argument_at(porting, porting.config, place) if porting.config is not None else None
    if argument is None or not argument.value.known:
        return None
    literal = argument.value.literal
    return literal if isinstance(literal, int) else None
