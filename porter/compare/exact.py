"""What has to agree exactly: settings, learning rates, epochs, tokens. Rounding of what is written is allowed for."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ..validate.comparing.tolerances import FLOAT32
from ..validate.comparing.verdict import Check
from .logs.log import RECORD, Log, Value

SETTINGS = "settings of the run"
RATES = "learning rate of every step that is logged"
EPOCHS = "epochs"
TOKENS = "tokens fed"
OLDER = "as older transformers"
ADAM = 1e-6  # relative: numbers that were written as text, or in float32
WHY = {
    "max_grad_norm": "clipping of gradients was dropped or changed: optax.clip_by_global_norm first in the chain",
    "weight_decay": "the optimizer's weight_decay: Optax's default is 1e-4, transformers' is 0",
    "r": "the rank of the adapters",
    "lora_alpha": "the adapters' scaling, alpha / r",
    "adapted_linears": "other layers have adapters: target_modules, or the rules' module_path",
}


def check_settings(gpu: Log, tpu: Log) -> Check:
    """Clipping, weight decay, Adam's constants, the adapters' scaling and number, where both logs have them."""
    shared = sorted(set(gpu.settings) & set(tpu.settings))
    if not shared:
        missing = [name for name, log in (("GPU", gpu), ("TPU", tpu)) if not log.settings]
        where = " and ".join(missing) or "GPU and TPU"
        return Check(SETTINGS, "skipped", f"the {where} log says none: clipping, weight decay and alpha can't be told")
    for name in shared:
        one, other = float(gpu.settings[name]), float(tpu.settings[name])
        if name == "max_grad_norm":
            one, other = max(one, 0.0), max(other, 0.0)
        if abs(one - other) > ADAM * max(abs(one), abs(other)):
            cause = WHY.get(name, f"{name} of the optimizer")
            return Check(SETTINGS, "differs", f"{name}: GPU {one:g}, TPU {other:g}", step=1, cause=cause)
    alone = sorted(set(gpu.settings) ^ set(tpu.settings))
    untold = f"; only one log tells {', '.join(alone)}" if alone else ""
    return Check(SETTINGS, "equal", ", ".join(f"{name} {float(gpu.settings[name]):g}" for name in shared) + untold)


def check_rates(gpu: Log, tpu: Log) -> Check:
    """At every step that both have a rate of.

    transformers logs the rate of the step itself, before 4.51 that of the next one, and so do the lines of a port of
    that day. Which it is shows where a schedule begins or ends with 0, and a port's record has the step's own. Where it
    doesn't show, a schedule that is off by one can't be told from the rates.
    """
    ours, theirs = gpu.at("learning_rate"), tpu.at("learning_rate")
    if not ours or not theirs:
        missing = " and ".join(name for name, found in (("GPU", ours), ("TPU", theirs)) if not found)
        return Check(RATES, "skipped", f"the {missing} log has no learning rates")
    shared = sorted(set(ours) & set(theirs))
    if not shared:
        return Check(RATES, "skipped", "no step has a rate in both logs")
    peak = max(abs(value.number) for value in (*ours.values(), *theirs.values()))
    ahead = logs_next_rate(gpu, ours), logs_next_rate(tpu, theirs)
    # By how many steps the TPU's rates may lie behind the GPU's.
    one, other = ((0, 1) if each is None else (int(each),) for each in ahead)
    shifts = {a - b for a in one for b in other}
    compared = {shift: [step for step in shared if step + shift in theirs] for shift in shifts}
    off = {shift: _first_off(ours, theirs, steps, shift, peak) for shift, steps in compared.items() if steps}
    said, tolerance = f"{len(shared)} rates, up to {peak:g}", FLOAT32.learning_rate
    if len(shifts) == 1 and not off:
        return Check(RATES, "skipped", f"{_whose(ahead)} of the next step, which the other log has no rates of")
    fits = [shift for shift in (0, 1, -1) if shift in off and off[shift][0] is None]
    if fits and len(shifts) == 1:
        detail = f"{said}; {_whose(ahead)} of the next step, {OLDER} logs them" if True in ahead else said
        return Check(RATES, "equal", detail, off[fits[0]][1], tolerance)
    if fits[:1] == [0] and True not in ahead:
        return Check(RATES, "equal", said, off[0][1], tolerance)
    if fits:
        whose = "the GPU's rates are the TPU's of the next step"
        whose = {1: whose, -1: "the TPU's rates are the GPU's of the next step"}.get(fits[0], _whose(ahead))
        detail = f"{said}: {whose}. Older transformers logs that, and so looks a schedule that is off by one: "
        return Check(RATES, "skipped", detail + "this can't be told from these logs")
    shift = 0 if 0 in off else min(off)
    step, most = off[shift]
    assert step is not None
    detail = f"step {step}: GPU {ours[step].number:.9g}, TPU {theirs[step + shift].number:.9g}"
    return Check(RATES, "differs", detail, most, tolerance, step, _why_rates(ours, theirs, shared, peak))


def _whose(ahead: tuple[bool | None, bool | None]) -> str:
    both = "the GPU's are those" if ahead[0] else "the TPU's are those"
    return "both logs' are those" if ahead == (True, True) else both


def logs_next_rate(log: Log, rates: Mapping[int, Value]) -> bool | None:
    """Whether the log has the next step's rate at each step: seen at a rate of 0; None where it can't be seen."""
    if log.kind == RECORD:
        return False
    steps = sorted(rates)
    last, first = rates[steps[-1]], rates[steps[0]]
    if steps[0] == 1 and len(steps) > 1 and rates[steps[1]].number > first.number:
        return first.number > first.half  # a warmup begins with a step of rate 0
    if log.max_steps is not None and steps[-1] == log.max_steps and len(steps) > 1:
        if last.number <= last.half:
            return True  # the schedule ends behind its last step
        if last.number < rates[steps[-2]].number:
            return False
    return None


def check_epochs(gpu: Log, tpu: Log) -> Check:
    """To one optimizer step: transformers counts micro-batches, of which an epoch's last step may have fewer."""
    ours, theirs = gpu.at("epoch"), tpu.at("epoch")
    shared = sorted(set(ours) & set(theirs))
    if not shared:
        return Check(EPOCHS, "skipped", "no step has an epoch in both logs")
    worst = 0.0
    for step in shared:
        one, other = ours[step], theirs[step]
        allowed = max(one.number, other.number) / step + one.half + other.half + 1e-6 * one.number
        off = abs(one.number - other.number)
        worst = max(worst, off)
        if off > allowed:
            why = "an epoch has another number of steps: other rows, another batch size, or as of other processes"
            return Check(
                EPOCHS, "differs", f"step {step}: GPU {one.number:g}, TPU {other.number:g}", off, allowed, step, why
            )
    return Check(EPOCHS, "equal", f"{len(shared)} lines, up to epoch {ours[shared[-1]].number:.4g}", worst)


def check_tokens(gpu: Log, tpu: Log) -> Check:
    """Tokens from one common step to the next: other rows, another order or another cut show at once."""
    ours, theirs = gpu.at("num_tokens"), tpu.at("num_tokens")
    shared = sorted(set(ours) & set(theirs))
    if not shared:
        return Check(TOKENS, "skipped", "no step has a count of tokens in both logs: the order of rows can't be told")
    compared = 0
    for before, step in pairwise([0, *shared]):
        zero = Value(0.0)
        a, b = ours.get(before, zero), ours[step]
        c, d = theirs.get(before, zero), theirs[step]
        one, other = b.number - a.number, d.number - c.number
        if one < 0 or other < 0:
            continue  # counted anew by a run that was resumed
        compared += 1
        if abs(one - other) > a.half + b.half + c.half + d.half + 0.5:
            why = "other rows: the data's order or its seed, max_length, packing, or another batch"
            return Check(
                TOKENS,
                "differs",
                f"steps {before + 1}-{step}: GPU {one:.0f}, TPU {other:.0f}",
                abs(one - other),
                0.0,
                step,
                why,
            )
    return Check(TOKENS, "equal", f"{compared} windows, {ours[shared[-1]].number:.0f} tokens")


def _first_off(
    ours: Mapping[int, Value], theirs: Mapping[int, Value], steps: list[int], shift: int, peak: float
) -> tuple[int | None, float]:
    """The first step whose rates differ, and the largest difference as a share of the highest rate."""
    first, most = None, 0.0
    for step in steps:
        one, other = ours[step], theirs[step + shift]
        off = abs(one.number - other.number)
        most = max(most, off / peak if peak else 0.0)
        if first is None and off > FLOAT32.learning_rate * peak + one.half + other.half:
            first = step
    return first, most


def _why_rates(ours: Mapping[int, Value], theirs: Mapping[int, Value], shared: list[int], peak: float) -> str:
    for shift, text in ((1, "one step behind the GPU's"), (-1, "one step ahead of the GPU's")):
        moved = [step for step in shared if step + shift in theirs]
        if len(moved) > 1 and _first_off(ours, theirs, moved, shift, peak)[0] is None:
            return f"the TPU's schedule is {text}"
    ratios = {round(theirs[step].number / ours[step].number, 4) for step in shared if ours[step].number > 0}
    if len(ratios) == 1:
        return f"the TPU's rates are {ratios.pop():g} times the GPU's"
    return "another schedule: its kind, its warmup, or the number of steps that it was made for"
