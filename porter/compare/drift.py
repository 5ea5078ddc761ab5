"""The losses: the first windows, then drift and scatter, each against what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from ..validate.comparing.verdict import Check
from .envelope import Envelope, early_windows, mean, root, scales, scattered
from .windows import Window

FIRST = "loss of the first windows"
DRIFT = "drift of the loss"
SCATTER = "scatter of the loss"
OWN = 1.0  # of a log's own scatter from window to window: what no run of the same rows reaches at its start


def differences(windows: Sequence[Window]) -> list[float]:
    """TPU - GPU as shares of the GPU's loss around each window."""
    scale = scales([window.gpu for window in windows], len(windows))
    return [window.difference / size for window, size in zip(windows, scale, strict=True)]


def check_losses(windows: Sequence[Window], envelope: Envelope | None) -> list[Check]:
    """Three checks; without an envelope only what is beyond the log's own scatter can be told."""
    found = differences(windows)
    if envelope is None:
        return _by_own_scatter(windows, found)
    until = envelope.blocks[-1].last + 1
    scatter = _scatter(windows, found[:until], envelope)
    return [_first(windows, found, envelope), _drift(windows, found, envelope), scatter]


def _first(windows: Sequence[Window], found: Sequence[float], envelope: Envelope) -> Check:
    count = early_windows(envelope.blocks[-1].last + 1)
    if abs(found[0]) > envelope.first:
        detail = f"steps {windows[0].start + 1}-{windows[0].step}: {_both(windows[:1])}"
        cause = _why_first(windows[:count], found[:count])
        return Check(FIRST, "differs", detail, abs(found[0]), envelope.first, windows[0].start + 1, cause)
    size = root(found[:count])
    detail = f"steps {windows[0].start + 1}-{windows[count - 1].step}: {_both(windows[:count])}"
    if size <= envelope.early:
        return Check(FIRST, "equal", detail, size, envelope.early)
    cause = _why_first(windows[:count], found[:count])
    return Check(FIRST, "differs", detail, size, envelope.early, windows[0].start + 1, cause)


def _drift(windows: Sequence[Window], found: Sequence[float], envelope: Envelope) -> Check:
    means = [mean([found[index] for index in block.indices]) for block in envelope.blocks]
    beyond = [n for n, limit in enumerate(envelope.drift) if abs(means[n]) > limit]
    if not beyond:
        near = max(range(len(means)), key=lambda n: abs(means[n]) / (envelope.drift[n] or 1.0))
        return Check(
            DRIFT,
            "equal",
            f"at most {means[near]:+.2%} over {_steps(windows, envelope, near)}",
            abs(means[near]),
            envelope.drift[near],
        )
    first = beyond[0]
    parts = f"beyond in {len(beyond)} of {len(means)} parts of the run"
    detail = f"{means[first]:+.2%} over {_steps(windows, envelope, first)}, {parts}"
    step = windows[envelope.blocks[first].first].start + 1
    return Check(DRIFT, "differs", detail, abs(means[first]), envelope.drift[first], step, _why_drift(means, beyond))


def _scatter(windows: Sequence[Window], found: Sequence[float], envelope: Envelope) -> Check:
    size = scattered(found, envelope.blocks)
    if len(found) <= 2 * len(envelope.blocks):
        return Check(SCATTER, "skipped", "too few windows: scatter within a part of the run can't be told")
    detail = f"{size:.2%} of the loss from window to window; measured {envelope.measured_scatter:.2%}"
    if size <= envelope.scatter:
        return Check(SCATTER, "equal", detail, size, envelope.scatter)
    why = "each step's loss is of other rows or tokens: the data's order, its seed, the mask or how tokens are weighed"
    beyond = (block for block in envelope.blocks if scattered(found, [block]) > envelope.scatter)
    first = next(beyond, envelope.blocks[0])
    return Check(SCATTER, "differs", detail, size, envelope.scatter, windows[first.first].start + 1, why)


def _by_own_scatter(windows: Sequence[Window], found: Sequence[float]) -> list[Check]:
    """What no envelope is needed for: a first loss further off than the GPU's losses are from each other."""
    count = early_windows(len(windows))
    curve = [window.gpu for window in windows]
    scale = scales(curve, len(curve))
    own = root([(b - a) / size for a, b, size in zip(curve, curve[1:], scale, strict=False)]) if len(curve) > 2 else 0.0
    size = root(found[:count])
    detail = _both(windows[:count])
    if own and size > OWN * own:
        return [
            Check(
                FIRST,
                "differs",
                detail,
                size,
                OWN * own,
                windows[0].start + 1,
                _why_first(windows[:count], found[:count]),
            )
        ]
    nothing = "no envelope was measured: whether a difference is more than chance can't be told"
    return [
        Check(name, "skipped", f"{detail}; {nothing}" if name == FIRST else nothing) for name in (FIRST, DRIFT, SCATTER)
    ]


def _why_first(windows: Sequence[Window], found: Sequence[float]) -> str:
    if all(value < 0 for value in found) or all(value > 0 for value in found):
        return (
            "another objective: before the weights have moved the same base, rows and mask give the same loss; look at "
            "which tokens are trained (assistant_only_loss, completion_only_loss), the chat template and the base"
        )
    return "other rows in each step, or another weighing of their tokens: the losses differ both ways from the start"


def _why_drift(means: Sequence[float], beyond: Sequence[int]) -> str:
    signs = {means[n] > 0 for n in beyond}
    if len(signs) > 1:
        return "the losses part both ways: another order of rows, or a training that is unstable"
    if beyond[-1] < len(means) - 1 and len(beyond) <= len(means) // 2:
        return "they part and meet again: the schedule or its warmup, or how fast the adapters start"
    if signs.pop():
        return "the TPU learns less: fewer weights are trained, a smaller rate or scaling, more decay or clipping"
    return "the TPU learns more: a larger rate or scaling (alpha / r), more weights are trained, less clipping or decay"


def _both(windows: Sequence[Window]) -> str:
    """The mean losses of both."""
    gpu, tpu = mean([window.gpu for window in windows]), mean([window.tpu for window in windows])
    return f"GPU {gpu:.4g}, TPU {tpu:.4g}"


def _steps(windows: Sequence[Window], envelope: Envelope, number: int) -> str:
    block = envelope.blocks[number]
    return f"steps {windows[block.first].start + 1}-{windows[block.last].step}"
