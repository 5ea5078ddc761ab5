"""Compares a GPU run's log with a TPU run's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import InputError
from ..validate.comparing.verdict import Check
from .drift import check_losses
from .envelope import MOST_STEPS, Envelope, measure, scales, within
from .exact import check_epochs, check_rates, check_settings, check_tokens
from .logs.log import Log
from .logs.read import read_like, read_logs
from .verdict import Comparison, Rates
from .windows import Window, aligned

FINITE = "losses are finite"
SECOND = "the GPU's log and {} more of the same recipe"
TOO_WIDE = (
    f"--source trains {MOST_STEPS} steps at most, and fewer than two of these logs' windows end within them: measure "
    "one with --second"
)
AGAIN = (
    "has the losses of the GPU's log to the last bit, so nothing can be measured on it: it is the same log, or another "
    "seed changes nothing in this recipe (no dropout, no adapters that start elsewhere)"
)
FLOAT32 = "measure with --source, or name a GPU run of the script in the other precision (bf16=False)"
TOO_FEW = "the runs of --source have losses in too few of the compared steps: measure one with --second"

# Logs of the recipe on a stand-in, for so many steps.
StandIn = Callable[[int], Sequence[Log]]


def compare(gpu: Path, tpu: Path, *, second: Sequence[Path] = (), stand_in: StandIn | None = None) -> Comparison:
    """What the two logs show. InputError for logs that can't be read, or have no step in common.

    `second`: logs of further runs of the GPU's script, from which the envelope is measured; without any `stand_in`
    is asked for runs of the recipe, if the losses have to be judged by one.
    """
    ours, theirs = read_logs(gpu, tpu)
    windows = aligned(ours, theirs)
    if not windows:
        raise InputError(
            f"no steps in common: the GPU's log has {_span(ours)}, the TPU's {_span(theirs)}", tpu,
            fix="name two logs of the same part of a run",
        )  # fmt: skip
    checks = [
        check_settings(ours, theirs),
        check_rates(ours, theirs),
        check_epochs(ours, theirs),
        check_tokens(ours, theirs),
    ]
    checks += _finite(ours, theirs)
    envelope, notes, unmeasured = _envelope(ours, windows, second, stand_in)
    checks += check_losses(windows, envelope)
    untold = [f"{log.path}: {line}" for log in (ours, theirs) for line in log.untold]
    untold += [f"{check.name}: {check.detail}" for check in checks if check.status == "skipped"]
    untold += _beyond(ours, theirs, windows, envelope)
    notes += [f"{log.path}: {note}" for log in (ours, theirs) for note in log.notes]
    return Comparison(
        str(gpu), str(tpu), (ours.kind, theirs.kind), tuple(checks), windows, envelope, tuple(notes), tuple(untold),
        (_rates(ours), _rates(theirs)), unmeasured,
    )  # fmt: skip


def _rates(log: Log) -> Rates:
    return tuple((step, value.number) for step, value in log.at("learning_rate").items())


def _envelope(
    gpu: Log, windows: tuple[Window, ...], second: Sequence[Path], stand_in: StandIn | None
) -> tuple[Envelope | None, list[str], str]:
    """The envelope, notes on its runs, and why there is none though runs were named."""
    if second:
        further = [read_like(path, gpu) for path in second]
        scale = scales([window.gpu for window in windows], len(windows))
        found = measure(SECOND.format(len(further)), [gpu, *further], windows, scale)
        if found is None:
            raise InputError("covers too little of the compared steps", second[0], fix="name a whole second GPU run")
        if found.measured_scatter == 0 and not any(found.measured_drift):
            raise InputError(AGAIN, second[0], fix=FLOAT32)
        return found, [f"{log.path}: {line}" for log in further for line in (*log.notes, *log.untold)], ""
    if stand_in is None:
        return None, [], ""
    if len(within(windows, MOST_STEPS)) < 2:
        return None, [], TOO_WIDE
    logs = stand_in(windows[-1].step)
    found = measure(f"{len(logs)} runs of the recipe on a stand-in", logs, windows, None, reach=MOST_STEPS)
    return found, [note for log in logs[:1] for note in log.notes], TOO_FEW if found is None else ""


def _finite(gpu: Log, tpu: Log) -> list[Check]:
    """A loss that isn't finite in one log alone."""
    both = [(name, log.not_finite) for name, log in (("GPU", gpu), ("TPU", tpu)) if log.not_finite]
    if len(both) != 1:
        return []
    name, steps = both[0]
    cause = "the run diverged, or its precision ran out; what stands behind it can't be compared"
    return [Check(FINITE, "differs", f"the {name}'s loss isn't finite at step {steps[0]}", step=steps[0], cause=cause)]


def _beyond(gpu: Log, tpu: Log, windows: Sequence[Window], envelope: Envelope | None) -> list[str]:
    found = []
    last = windows[-1].step
    for name, log in (("GPU", gpu), ("TPU", tpu)):
        if log.last > last:
            found.append(f"steps {last + 1}-{log.last}: only the {name}'s log has them")
    if envelope is not None and envelope.blocks[-1].last + 1 < len(windows):
        found.append(
            f"drift behind step {windows[envelope.blocks[-1].last].step}: the envelope was measured up to there"
        )
    return found


def _span(log: Log) -> str:
    return f"steps {log.lines[0].start + 1}-{log.last}"
