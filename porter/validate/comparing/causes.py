"""What most likely made a difference, in a user's words, from the shape of the difference alone."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .trace import Row, Step, Trace

CLOSE = 1e-4  # two losses this near are taken to be the same quantity
MEAN_OF_MEANS = "the loss is a mean of micro-batch means, not the mean over all trained tokens of the accumulated batch"
ADAPTER_START = "the adapters' initial values: PEFT's A is kaiming_uniform(a=sqrt(5)) (rt.PEFT_INIT), its B zero"


def of_setting(key: str, source: Any, port: Any) -> str:
    """Why one setting differs."""
    if key == "max_grad_norm":
        return "clipping was dropped" if port is None else "clipping at another norm"
    if key == "weight_decay" and port == 1e-4:
        return "weight decay was left to Optax's default, 1e-4"
    if key == "lora_scaling" and source and port:
        return f"alpha (or rsLoRA) is off: the port scales its adapters by {port[-1] / source[-1]:g} times the source's"
    if key == "steps":
        return "the schedule's length: epochs, rows, batch size, accumulation or the number of processes"
    if key == "decayed":
        return "the decay mask: transformers decays neither biases nor norm weights (rt.decay_mask)"
    if key == "quantization":
        return "the base was not quantised: rt.load_model(quantization=)" if port is None else "the base's format"
    if key == "weights_dtype":
        return "rt.load_model(dtype=): transformers before 5 loads float32 unless told otherwise, 5 the checkpoint's"
    if key == "processes":
        return "the port was made for another number of processes: give the same --launch-config to both"
    return "the setting was not carried over"


def of_tensors(missing: Sequence[str], extra: Sequence[str], shapes: Sequence[str]) -> str:
    """Why the sets of trained tensors differ."""
    if shapes and not missing and not extra:
        return "the LoRA rank"
    layers = sorted({re.sub(r"\.\d+\.", ".*.", name).split(".lora_")[0].split(".")[-1] for name in (*missing, *extra)})
    where = sorted({int(number) for name in (*missing, *extra) for number in re.findall(r"\.layers\.(\d+)\.", name)})
    side = "lacks" if missing else "adapts too"
    return f"a LoRA target: the port {side} {', '.join(layers)} in layers {_ranges(where)}"


def of_rows(source: Trace, port: Trace, number: int) -> tuple[str, str]:
    """What is different in step `number` (from 1) of two runs, and why."""
    ours, theirs = source.steps[number - 1], port.steps[number - 1]
    if _tokens(ours.rows) == _tokens(theirs.rows) and len(ours.rows) == len(theirs.rows):
        index = next(i for i, (a, b) in enumerate(zip(ours.rows, theirs.rows, strict=True)) if not a.same(b))
        a, b = ours.rows[index], theirs.rows[index]
        detail = f"step {number}, row {index + 1}: {a.trained} trained tokens in the source, {b.trained} in the port"
        return detail, _of_masks(ours, theirs)
    if sorted(_tokens(ours.rows)) == sorted(_tokens(theirs.rows)):
        return f"step {number} has the same rows in another order", "the order of rows within a step"
    if len(ours.rows) != len(theirs.rows):
        detail = f"step {number}: {len(ours.rows)} rows in the source, {len(theirs.rows)} in the port"
        return detail, "rows per step: batch size, accumulation, processes, packing, or a short last group"
    index = next(i for i, (a, b) in enumerate(zip(ours.rows, theirs.rows, strict=True)) if not a.same(b))
    a, b = ours.rows[index], theirs.rows[index]
    detail = f"step {number}, row {index + 1}: source starts {_start(a)}, port {_start(b)}"
    if _prefix(a, b):
        return detail, "truncation: max_length or truncation_mode"
    places = {mark: place for place, mark in reversed(list(enumerate(source.dataset)))}
    found = [places.get(row.mark) for row in theirs.rows]
    if any(place is not None for place in found):
        read = [place for place in found if place is not None]
        if len(read) > 2 and all(b - a == 1 for a, b in itertools.pairwise(read)):
            return detail, "the data is not shuffled: the port reads consecutive rows of the dataset"
        return detail, "the order of the data: shuffling or its seed"
    return detail, "tokenisation: the chat template, special tokens, or another column"


def of_schedule(source: Sequence[float], port: Sequence[float]) -> str:
    """Why two lists of learning rates differ."""
    a, b = np.array(source), np.array(port)
    size = min(a.size, b.size)
    peak = float(np.abs(a).max()) or 1.0
    for shift in (1, -1):
        one, other = (a[shift:size], b[: size - shift]) if shift > 0 else (a[: size + shift], b[-shift:size])
        if one.size and float(np.abs(one - other).max()) < 1e-5 * peak:
            return f"the schedule is off by one step: the port is one {'ahead' if shift > 0 else 'behind'}"
    if a.size != b.size:
        return "the schedule's length"
    if np.allclose(b, b[0]):
        return "the port's learning rate is constant"
    ratio = float(np.abs(b).max()) / peak
    if not math.isclose(ratio, 1.0, rel_tol=1e-5) and np.allclose(a * ratio, b, rtol=1e-4, atol=1e-9 * peak):
        return f"the peak learning rate: the port's is {ratio:g} times the source's"
    if int(a.argmax()) != int(b.argmax()):
        top = int(a.argmax()) + 1, int(b.argmax()) + 1
        return f"warmup: the rate is highest at step {top[0]} in the source, {top[1]} in the port"
    return "the schedule's kind or its arguments"


def of_initial_loss(source: Step, port: Step) -> str:
    """Why the same tokens give another loss before any update: how it is averaged, or the model itself."""
    if source.loss is None or port.loss is None:
        return "a loss could not be seen"
    if _is_mean_of_means(source, port):
        return MEAN_OF_MEANS
    ratio = port.loss / source.loss
    for size in {len(port.micro), len(source.micro)} - {1}:
        if _near(ratio, size) or _near(ratio, 1 / size):
            return "the loss is scaled by the number of micro-batches"
    if abs(ratio) > 10:
        return "the loss is summed, not averaged over the trained tokens"
    if math.isnan(port.loss):
        return "the port's loss is NaN: a row whose attention mask leaves a query without keys, or an overflow"
    return "the model computes something else: weights, rotary embedding, attention mask, or the loss's normalisation"


def _is_mean_of_means(source: Step, port: Step) -> bool:
    """Whether the port's loss is what the source's rows give averaged by micro-batch, and not the source's own."""
    means = mean_of_means(source, port.micro)
    if means is None or source.loss is None or port.loss is None:
        return False
    return _near(means, port.loss) and abs(means - port.loss) < abs(source.loss - port.loss)


def mean_of_means(source: Step, micro: Sequence[int]) -> float | None:
    """What the source's rows would give if each of `micro` documents were averaged first; None when not known."""
    if source.row_loss is None or sum(micro) != len(source.rows) or not micro:
        return None
    means, at = [], 0
    for count in micro:
        tokens = sum(row.trained for row in source.rows[at : at + count])
        means.append(sum(source.row_loss[at : at + count]) / tokens if tokens else 0.0)
        at += count
    return sum(means) / len(means)


def of_losses(step: int, source: Trace, port: Trace) -> str:
    """Why the losses part at `step` although batches, rates and the first loss agree."""
    if _is_mean_of_means(source.steps[step - 1], port.steps[step - 1]):
        return MEAN_OF_MEANS
    norms = [(a.grad_norm, b.grad_norm) for a, b in zip(source.steps, port.steps, strict=False)]
    first = norms[0] if norms else (None, None)
    if first[0] and first[1] and not math.isclose(first[0], first[1], rel_tol=1e-3):
        return f"the gradient: its first norm is {first[1]:.4g} in the port, {first[0]:.4g} in the source"
    if step <= 3:
        return "the update: accumulation, clipping, or which tensors are trained"
    return "the update, slowly: weight decay, epsilon, betas, precision of the adapters, or clipping"


def of_norm(pair: tuple[float, float], step: int) -> str:
    """Why gradient norms differ."""
    if math.isclose(pair[1], pair[0] ** 2, rel_tol=1e-3):
        return "the norm is squared"
    if step == 1:
        return "the first gradient: the scale of the loss, tensors trained on one side only, or fused K and V"
    return "the weights had already parted"


def of_weights(worst: str, names: Sequence[str], apart: Mapping[str, float], moved: Mapping[str, float]) -> str:
    """Why weights differ although every loss agrees."""
    total = sum(apart.values())
    part = re.sub(r".*layers\.\d+\.", "", worst)
    share = sum(apart[name] for name in names if name.endswith(part)) / total if total else 0.0
    if share > 0.8 and len(names) > 2:
        return f"one kind of tensor: {part} holds {share:.0%} of the difference"
    return "the optimizer: weight decay or its mask, epsilon, or the last updates"


def _of_masks(ours: Step, theirs: Step) -> str:
    a, b = sum(row.trained for row in ours.rows), sum(row.trained for row in theirs.rows)
    full = sum(max(row.tokens.size - 1, 0) for row in theirs.rows)
    if b == full and a < b:
        return "the loss mask: the port trains on every token, the source on answers only"
    return "the loss mask: completion-only or assistant-only loss, the chat template, or the end token"


def _tokens(rows: Sequence[Row]) -> list[bytes]:
    return [row.tokens.tobytes() for row in rows]


def _start(row: Row) -> str:
    return "[" + " ".join(str(token) for token in row.tokens[:6]) + (" ...]" if row.tokens.size > 6 else "]")


def _prefix(a: Row, b: Row) -> bool:
    size = min(a.tokens.size, b.tokens.size)
    same = np.array_equal(a.tokens[:size], b.tokens[:size]) or np.array_equal(a.tokens[-size:], b.tokens[-size:])
    return bool(size > 8 and a.tokens.size != b.tokens.size and same)


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=CLOSE)


def _ranges(numbers: Sequence[int]) -> str:
    if not numbers:
        return "-"
    if len(numbers) > 6:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(str(number) for number in numbers)
