"""Compares two traces in a fixed order, from what must be identical to what follows from it.

The first check that differs is the one to look at: all later ones inherit its difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from . import causes
from .configuration import CONFIGURATION as CONFIGURATION
from .configuration import check_configuration as check_configuration
from .configuration import some
from .left_behind import LEFT as LEFT
from .left_behind import check_left_behind
from .noise import MOST, weight_noise, without_the_furthest
from .tolerances import Tolerances
from .trace import Step, Trace
from .verdict import Check

BATCHES = "token ids and masks of every batch"
LEARNING_RATE = "learning rate of every step"
INITIAL_LOSS = "initial loss"
LOSS = "loss of every step"
METRICS = "rewards of every step"
GRAD_NORM = "gradient norm"
WEIGHTS = "final adapter weights"
EVALUATION = "evaluation loss"
MEASURED = "metrics of every evaluation"
DEVICES = "the same port on {}"
NATS = 6.0  # of a token's log-probability by chance, in the vocabulary of a stand-in
# A norm below a hundredth of the run's largest is what rounding left of terms that cancel.
SMALL_NORM, LEAST_NORM = 1e-2, 1e-6
# A token's loss is a logarithm of a sum less a logit, which float32 knows to about 1e-6, however small it comes out.
LEAST_LOSS = 0.1


def compare(source: Trace, port: Trace, tolerances: Tolerances) -> list[Check]:
    """Every check of a source against its port, in order. An empty comparison differs at the batches."""
    return [
        check_configuration(source, port),
        check_batches(source, port),
        check_learning_rate(source, port, tolerances),
        check_initial_loss(source, port, tolerances),
        check_losses(source, port, tolerances),
        *check_metrics(source, port, tolerances),
        check_grad_norm(source, port, tolerances),
        check_weights(source, port, tolerances),
        *check_evaluation(source, port, tolerances),
        *check_measured(source, port, tolerances),
        *check_left_behind(source, port, tolerances),
    ]


def check_batches(source: Trace, port: Trace) -> Check:
    """Documents of every step: tokens and labels equal, in the same order."""
    if not source.steps or not port.steps:
        side = "source" if not source.steps else "port"
        return Check(BATCHES, "differs", f"the {side} trained no step", cause="nothing to compare")
    if not any(step.trained for step in source.steps):
        return Check(BATCHES, "differs", "no token of the source's batches is trained", cause="nothing to compare")
    for number, (ours, theirs) in enumerate(zip(source.steps, port.steps, strict=False), 1):
        if not same_rows(ours, theirs, ordered=not port.config.get("buckets")):
            detail, cause = causes.of_rows(source, port, number)
            return Check(BATCHES, "differs", detail, step=number, cause=cause)
    if len(source.steps) != len(port.steps):
        detail = f"the source trained {len(source.steps)} steps, the port {len(port.steps)}"
        step = min(len(source.steps), len(port.steps)) + 1
        return Check(BATCHES, "differs", detail, step=step, cause="one side ran out of data or stopped early")
    rows = sum(len(step.rows) for step in source.steps)
    tokens = sum(row.tokens.size for step in source.steps for row in step.rows)
    trained = sum(step.trained for step in source.steps)
    return Check(BATCHES, "equal", f"{rows} rows in {len(source.steps)} steps, {tokens} tokens, {trained} trained")


def check_learning_rate(source: Trace, port: Trace, tolerances: Tolerances) -> Check:
    """Rates used, and the rates of the whole horizon where the source's schedule has one."""
    used = [step.learning_rate for step in source.steps], [step.learning_rate for step in port.steps]
    horizon = bool(source.schedule) and bool(port.schedule)
    wanted, got = (list(source.schedule), list(port.schedule)) if horizon else used
    if not wanted or None in wanted:
        return Check(LEARNING_RATE, "skipped", "the source's learning rate could not be seen: its release doesn't tell")
    if not got or None in got or None in used[1]:
        detail = "the port's learning rate could not be seen"
        return Check(LEARNING_RATE, "differs", detail, cause="no schedule found")
    if None in used[0]:
        used = [], []
    # What the schedule says and what the source's optimizer really used must agree too.
    pairs = [*zip(wanted, got, strict=False), *zip(used[0], used[1], strict=False)]
    # A loop shows no more than the rates it used: the highest of a long warm-up is the port's to say.
    rates = [*wanted, *(port.schedule if not horizon else ())]
    peak = max(abs(float(rate)) for rate in rates if rate is not None) or 1.0
    errors = [abs(float(a) - float(b)) / peak for a, b in pairs]  # type: ignore[arg-type]
    worst = max(errors)
    if len(wanted) != len(got) or not worst <= tolerances.learning_rate:
        bad = [index for index, error in enumerate(errors) if not error <= tolerances.learning_rate]
        at = bad[0] % len(wanted) if bad else 0
        detail = f"step {at + 1}: source {wanted[at]:.6g}, port {got[at]:.6g}" if at < len(got) else "horizons differ"
        if len(wanted) != len(got):
            detail = f"{len(wanted)} steps in the source's schedule, {len(got)} in the port's; {detail}"
        cause = causes.of_schedule([float(r) for r in wanted], [float(r) for r in got])  # type: ignore[arg-type]
        return Check(LEARNING_RATE, "differs", detail, worst, tolerances.learning_rate, at + 1, cause)
    detail = f"{len(wanted)} steps{' of the whole horizon' if horizon else ''}, highest rate {peak:g}"
    return Check(LEARNING_RATE, "equal", detail, worst, tolerances.learning_rate)


def check_initial_loss(source: Trace, port: Trace, tolerances: Tolerances) -> Check:
    """Loss of the first step: the same weights on the same tokens."""
    if not source.steps or not port.steps:
        return Check(INITIAL_LOSS, "differs", "no step on one of the sides", cause="nothing to compare")
    for side, trace in (("source", source), ("port", port)):
        if trace.steps[0].loss is None:
            return Check(INITIAL_LOSS, "skipped", f"the {side} shows no loss of its first step")
    error = relative(source.losses[0], port.losses[0], loss_floor(source))
    detail = f"source {source.losses[0]:.7f}, port {port.losses[0]:.7f}"
    if error <= tolerances.initial_loss:
        return Check(INITIAL_LOSS, "equal", detail, error, tolerances.initial_loss)
    cause = causes.of_initial_loss(source.steps[0], port.steps[0])
    return Check(INITIAL_LOSS, "differs", detail, error, tolerances.initial_loss, 1, cause)


def check_losses(source: Trace, port: Trace, tolerances: Tolerances) -> Check:
    """Largest and mean relative difference over the steps that both trained."""
    unseen = [side for side, trace in (("source", source), ("port", port)) if _no_loss(trace)]
    if unseen:
        return Check(LOSS, "skipped", f"the {unseen[0]} shows no loss")
    errors = [relative(a, b, loss_floor(source)) for a, b in zip(source.losses, port.losses, strict=False)]
    if not errors:
        return Check(LOSS, "differs", "no loss on one of the sides", cause="nothing to compare")
    worst, mean = max(errors, key=_nan_first), float(np.mean(errors))
    step = errors.index(worst) + 1 if not math.isnan(worst) else 1
    detail = f"{len(errors)} steps, largest at step {step}, mean {mean:.1e}"
    if worst <= tolerances.loss and mean <= tolerances.loss_mean:
        return Check(LOSS, "equal", detail, worst, tolerances.loss)
    first = next((i for i, error in enumerate(errors, 1) if not error <= tolerances.loss), step)
    pair = f"step {first}: source {source.losses[first - 1]:.7f}, port {port.losses[first - 1]:.7f}; {detail}"
    cause = causes.of_losses(first, source, port)
    return Check(LOSS, "differs", pair, worst, tolerances.loss, first, cause)


def check_metrics(source: Trace, port: Trace, tolerances: Tolerances) -> list[Check]:
    """What preference trainers log beside the loss; no check where the source logs nothing.

    A difference counts as a share of the metric's largest value in the run, or of a fiftieth of the largest
    log-probability: rewards start at zero, and are differences of log-probabilities, of which float32 keeps seven
    digits. Where none is logged (KTO's kl alone), it is that of the longest answer by chance. A share of pairs whose
    reward is right is compared where the margin isn't next to zero.
    """
    pairs = list(zip(source.steps, port.steps, strict=False))
    names = list(dict.fromkeys(name for step in source.steps for name in step.metrics))
    if not names:
        return []
    largest = {name: max(abs(step.metrics.get(name, 0.0)) for step in source.steps) for name in names}
    told = max((value for name, value in largest.items() if name.startswith("logps/")), default=0.0)
    floor = (told or NATS * max((row.trained for step in source.steps for row in step.rows), default=0)) / 50 or 1.0
    largest = {name: max(value, floor) for name, value in largest.items()}
    worst, where, at = 0.0, names[0], 1
    for number, (ours, theirs) in enumerate(pairs, 1):
        for name in names:
            if name.endswith("accuracies") and _near_tie(ours, theirs):
                continue
            one, other = ours.metrics.get(name, math.nan), theirs.metrics.get(name, math.nan)
            error = 0.0 if math.isnan(one) and math.isnan(other) else _nan_first(abs(one - other)) / largest[name]
            if error > worst:
                worst, where, at = error, name, number
    detail = f"{len(pairs)} steps, {len(names)} metrics, furthest apart {where} at step {at}"
    if worst <= tolerances.metrics:
        return [Check(METRICS, "equal", detail, worst, tolerances.metrics)]
    values = [
        f"{side} {step.metrics.get(where, math.nan):.7g}"
        for side, step in zip(("source", "port"), pairs[at - 1], strict=True)
    ]
    cause = "beta, the reference model, or which tokens an answer's log-probability sums"
    return [Check(METRICS, "differs", f"{detail}: {', '.join(values)}", worst, tolerances.metrics, at, cause)]


def _near_tie(ours: Step, theirs: Step) -> bool:
    """Whether rounding may decide which reward of a pair is larger: their mean margin is next to zero."""
    return min(abs(step.metrics.get("rewards/margins", 1.0)) for step in (ours, theirs)) < 1e-3


def check_grad_norm(source: Trace, port: Trace, tolerances: Tolerances) -> Check:
    """Norm of the accumulated gradient before clipping, relative, step by step.

    A norm near zero (a step whose advantages are all alike) is measured against the largest of the run; beside none at
    all in the source it is what rounding left.
    """
    pairs = [(a.grad_norm, b.grad_norm) for a, b in zip(source.steps, port.steps, strict=False)]
    seen = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not seen:
        if any(a is not None for a, _ in pairs):
            return Check(GRAD_NORM, "differs", "the source shows one, the port none", cause="nothing to compare")
        return Check(GRAD_NORM, "skipped", "the source shows none: it clips nothing, or its release doesn't tell")
    largest = max((abs(a) for a, _ in seen if math.isfinite(a)), default=0.0)
    errors = [
        0.0 if a == 0 and b < LEAST_NORM else relative(a, b, max(SMALL_NORM * largest, LEAST_NORM)) for a, b in seen
    ]
    worst = max(errors, key=_nan_first)
    detail = f"{len(seen)} steps, source {seen[0][0]:.4g} and port {seen[0][1]:.4g} at the first"
    if worst <= tolerances.grad_norm:
        return Check(GRAD_NORM, "equal", detail, worst, tolerances.grad_norm)
    step = next(i for i, error in enumerate(errors, 1) if not error <= tolerances.grad_norm)
    detail = f"step {step}: source {seen[step - 1][0]:.6g}, port {seen[step - 1][1]:.6g}"
    return Check(GRAD_NORM, "differs", detail, worst, tolerances.grad_norm, step, causes.of_norm(seen[step - 1], step))


def check_weights(source: Trace, port: Trace, tolerances: Tolerances) -> Check:
    """L2 norm of the difference of all trained tensors over the L2 norm of what training changed in the source.

    What float32 alone makes of such a training (`noise`) adds to the tolerance.
    """
    if (
        source.steps
        and source.final
        and not any(step.learning_rate is None or step.learning_rate for step in source.steps)
    ):
        return Check(WEIGHTS, "skipped", "the learning rate of every step that ran is 0: more --steps")
    names = sorted(set(source.final) & set(port.final) & set(source.initial))
    if not names:
        return Check(WEIGHTS, "differs", "no trained tensor is there on both sides", cause="nothing to compare")
    moved = {name: float(np.sum((source.final[name] - source.initial[name]) ** 2)) for name in names}
    apart = {name: _distance(source.final[name], port.final[name]) for name in names}
    nothing = all(step.grad_norm == 0 for step in source.steps)  # rewards that are all the same
    faint = all(
        (step.grad_norm or 0.0) < LEAST_NORM for step in port.steps
    )  # what rounding leaves, Adam makes steps of
    if nothing and faint and not sum(moved.values()) > 0:
        return Check(WEIGHTS, "skipped", "training changed no weights on either side: no gradient in these steps")
    if not sum(moved.values()) > 0:
        return Check(WEIGHTS, "differs", "training did not change the source's weights", cause="nothing to compare")
    error = math.sqrt(sum(apart.values()) / sum(moved.values()))
    missing = sorted((set(source.initial) | set(source.final)) - set(names))
    detail = f"{len(names)} tensors, changed by {math.sqrt(sum(moved.values())):.3g} in the source"
    allowed = tolerances.weights + weight_noise(source).allowed
    if error <= allowed and not missing:
        return Check(WEIGHTS, "equal", detail, error, allowed)
    alike = all(source.final[name].shape == port.final[name].shape for name in names)
    if alike and error <= MOST and not missing and _is_adam(source):
        most = math.sqrt(without_the_furthest(source, port, names) / sum(moved.values()))
        if most <= allowed:
            said = f"{detail}; {error:.1e} with the few elements whose gradient is all but zero"
            return Check(WEIGHTS, "equal", said, most, allowed)
    if missing:
        cause = f"{len(missing)} trained tensors of the source were not compared: {some(missing)}"
        return Check(WEIGHTS, "differs", detail, error, allowed, cause=cause)
    worst = max(names, key=lambda name: apart[name])
    cause = causes.of_weights(worst, names, apart, moved)
    return Check(WEIGHTS, "differs", f"{detail}; furthest apart: {worst}", error, allowed, cause=cause)


def _is_adam(trace: Trace) -> bool:
    return trace.config.get("epsilon") is not None


def check_evaluation(source: Trace, port: Trace, tolerances: Tolerances) -> list[Check]:
    """Evaluation losses at the steps where both evaluated; no check when the source never evaluates.

    A port that evaluates at none of the source's steps differs, unless the source evaluated before training alone:
    a call of `trainer.evaluate()` there says nothing of the port's schedule.
    """
    if not source.evaluations:
        return []
    ours, theirs = dict(source.evaluations), dict(port.evaluations)
    shared = sorted(set(ours) & set(theirs))
    if not shared:
        detail = f"the source evaluated at steps {sorted(ours)}, the port at {sorted(theirs)}"
        if max(ours) == 0 or (source.config.get("loop") and not theirs):  # which the port's TODOs name
            return [Check(EVALUATION, "skipped", detail)]
        cause = "the port is given no evaluation set, or evaluates at other steps"
        return [Check(EVALUATION, "differs", detail, step=max(min(ours), 1), cause=cause)]
    errors = [relative(ours[step], theirs[step], LEAST_LOSS) for step in shared]
    worst = max(errors, key=_nan_first)
    step = shared[errors.index(worst)] if not math.isnan(worst) else shared[0]
    detail = f"{len(shared)} evaluations; step {step}: source {ours[step]:.7f}, port {theirs[step]:.7f}"
    if worst <= tolerances.evaluation:
        return [Check(EVALUATION, "equal", detail, worst, tolerances.evaluation)]
    cause = "the mean over evaluation batches, their rows, or dropout that stays on in evaluation"
    return [Check(EVALUATION, "differs", detail, worst, tolerances.evaluation, step, cause)]


def check_measured(source: Trace, port: Trace, tolerances: Tolerances) -> list[Check]:
    """What compute_metrics said where both evaluated; no check when the port computes no metric.

    A metric that the source would have had otherwise for a last digit (`near_ties` of its predictions) may differ by
    the share that they are.
    """
    shared = [step for step in sorted(port.measured) if port.measured[step] and step in source.measured]
    found = []
    for step in shared:
        for name, theirs in port.measured[step].items():
            ours = source.measured[step].get(name, math.nan)
            same = ours == theirs or (math.isnan(theirs) and name in source.measured[step] and math.isnan(ours))
            tied = source.config.get("near_ties", {}).get(str(step), 0.0)
            near = abs(ours - theirs) <= tied
            found.append((0.0 if same or near else relative(ours, theirs), step, name, ours, theirs))
    if not found:
        return []
    worst, step, name, ours, theirs = max(found, key=lambda one: _nan_first(one[0]))
    detail = f"{len(shared)} evaluations; step {step}: {name} {ours:.7f} in the source, {theirs:.7f} in the port"
    if worst <= tolerances.metrics:
        return [Check(MEASURED, "equal", detail, worst, tolerances.metrics)]
    cause = "the predictions, what preprocess_logits_for_metrics makes of them, or a near tie that rounding decides"
    return [Check(MEASURED, "differs", detail, worst, tolerances.metrics, step, cause)]


def check_devices(
    reference: Trace, others: Sequence[tuple[str, Trace]], tolerances: Tolerances, *, floor: float = 1e-30
) -> list[Check]:
    """The port against itself on other meshes: loss of every step that both ran, relative to at least `floor`."""
    checks = []
    for name, trace in others:
        title = DEVICES.format(name)
        if apart := trace.config.get("apart"):
            detail = f"process {', '.join(map(str, apart))} trained to other losses or weights than process 0"
            cause = "the processes have other rows: what makes them must not depend on the host"
            checks.append(Check(title, "differs", detail, cause=cause))
            continue
        errors = [relative(a, b, floor) for a, b in zip(reference.losses, trace.losses, strict=False)]
        if not errors:
            checks.append(Check(title, "differs", "no step was trained", cause="nothing to compare"))
            continue
        worst = max(errors, key=_nan_first)
        detail = f"{len(errors)} steps, mesh {trace.config.get('mesh')} against {reference.config.get('mesh')}"
        if worst <= tolerances.devices:
            checks.append(Check(title, "equal", detail, worst, tolerances.devices))
            continue
        step = next(i for i, error in enumerate(errors, 1) if not error <= tolerances.devices)
        cause = "sharding: an adapter, optimizer state or batch is not placed as the mesh wants it"
        checks.append(Check(title, "differs", detail, worst, tolerances.devices, step, cause))
    return checks


def same_rows(a: Step, b: Step, *, ordered: bool = True) -> bool:
    """Whether both steps hold the same documents, in the same order or (length buckets) in any: the loss is a sum."""
    if ordered:
        return len(a.rows) == len(b.rows) and all(x.same(y) for x, y in zip(a.rows, b.rows, strict=True))
    left = list(b.rows)
    for row in a.rows:
        match = next((place for place, other in enumerate(left) if row.same(other)), None)
        if match is None:
            return False
        del left[match]
    return not left


def relative(a: float, b: float, floor: float = 1e-30) -> float:
    """|a - b| / |a|, |a| being at least `floor`; NaN when one of them is, so that no tolerance lets it pass."""
    return abs(a - b) / max(abs(a), floor)


def loss_floor(source: Trace) -> float:
    """What a loss is measured against at least: one that is nearly learnt, or a sum of large terms which cancel."""
    return max(float(source.config.get("loss_floor") or 0.0), LEAST_LOSS)


def _no_loss(trace: Trace) -> bool:
    return bool(trace.steps) and all(step.loss is None for step in trace.steps)


def _nan_first(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sum((a - b) ** 2)) if a.shape == b.shape else math.inf
