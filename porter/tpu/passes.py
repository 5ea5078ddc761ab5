"""What a run computes beside its training step, by formula: memory and time of a reference's or a teacher's pass, of
sampling with its cache of keys and values, and of log-probabilities.

The constants were fitted to XLA:TPU (libtpu 0.0.42) on Qwen3-0.6B; docs/plan.md has the table. An estimate,
marked as one wherever it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .memory import ACTIVATION_BYTES, CHUNK, Candidate, heads_of, kept, layers_of, of_each, softcapped, window_of
from .results import Pass, Step
from .slices import Slice, link_bandwidth, xla_seconds

FLOAT = 4
# Of a forward pass: what a layer holds while it is computed, and how often its arrays are read and written.
LIVE_SCORE_BYTES, LIVE_EMBED, LIVE_HIDDEN, LIVE_HEADS = 2, 2, 1, 1
WEIGHT_TRAFFIC, WIDTH_TRAFFIC, SCORE_TRAFFIC = 4, 7, 6
# Float32 copies of the logits that stand at once, of a reference in half precision but for Gemma's, and how often each
# is read and written.
REFERENCE_COPIES, REFERENCE_COPIES_GEMMA, TEACHER_COPIES, SAMPLED_COPIES = 0.5, 1.0, 1.0, 4
LOGIT_TRAFFIC, CHUNK_TRAFFIC, SAMPLED_TRAFFIC = 1.5, 3, 25
CACHES = 1.8  # of keys and values: what the loop carries, and what the prompts' pass makes them of
# A token of every row reads the gathered weights, and its row's keys and values.
TOKEN_WEIGHT_TRAFFIC, TOKEN_CACHE_TRAFFIC = 2, 1


@dataclass(frozen=True)
class PassFigure:
    """One kind of pass in one optimizer step: `peak` bytes on one device with all that lies there, `seconds` of all its
    runs in the step."""

    name: str
    peak: int
    seconds: float


def estimate_passes(
    step: Step, wanted: Candidate, micro_batches: int, where: Slice, layers: int | None = None
) -> list[PassFigure]:
    """The passes of `step`'s run as `wanted` makes them on `where`."""
    layers = layers or step.all_layers
    everything = kept(step, wanted, layers)
    return [_figure(step, one, wanted, micro_batches, where, layers, everything) for one in step.passes]


def runs(one: Pass, wanted: Candidate, micro_batches: int) -> tuple[int, float]:
    """Rows of one run of a pass over the whole mesh, and its runs in an optimizer step."""
    if not one.count:
        return wanted.batch, micro_batches
    if one.samples:
        return -(-one.count // wanted.fsdp) * wanted.fsdp, one.goes
    return wanted.batch, one.goes * math.ceil(one.count / wanted.batch)


def _figure(
    step: Step, one: Pass, wanted: Candidate, micro_batches: int, where: Slice, layers: int, everything: int
) -> PassFigure:
    rows, times = runs(one, wanted, micro_batches)
    wanted = wanted if one.own else replace(wanted, query_block=0)  # the trained model alone attends in blocks
    count = layers_of(one, step, layers)
    each = max(1, rows // wanted.fsdp)
    if one.samples:
        memory, seconds = _sampling(one, wanted, each, count, where)
    else:
        memory, seconds = _forward(one, wanted, each, count, where, step.family)
    return PassFigure(one.name, everything + int(memory), times * seconds)


def _forward(one: Pass, wanted: Candidate, rows: int, layers: int, where: Slice, family: str) -> tuple[float, float]:
    """Bytes beside what is kept, and seconds, of a pass over whole rows, `rows` of them on a device."""
    sizes, length = one.sizes, wanted.length
    logits = _logits(sizes, rows * length, wanted)
    head = rows * (one.completion or length)
    if one.completion:
        held = _logits(sizes, rows * CHUNK, wanted)
    elif one.name == "teacher":
        held = TEACHER_COPIES * logits
    else:
        held = (REFERENCE_COPIES_GEMMA if softcapped(family) else REFERENCE_COPIES) * logits
    memory = max(_gathered(one, wanted) + held, _live(sizes, rows, length, wanted.keys(), wanted))
    flops, moved = _layers(one, wanted, rows, length, layers)
    flops += 2 * sizes["embed"] * sizes["vocab"] * head / wanted.tp
    moved += (CHUNK_TRAFFIC if one.completion else LOGIT_TRAFFIC) * _logits(sizes, head, wanted)
    return memory, xla_seconds(flops, moved, where)


def _sampling(one: Pass, wanted: Candidate, rows: int, layers: int, where: Slice) -> tuple[float, float]:
    """Bytes beside what is kept, and seconds, of `rows` prompts on a device and their completions, all of them as long
    as they may be."""
    sizes, span = one.sizes, one.prompt + one.completion
    cache = cache_bytes(sizes, rows, span, layers, wanted)
    logits = _logits(sizes, rows, wanted)
    whole = _whole_weights(one, wanted, layers)
    memory = cache * CACHES
    memory += max(_gathered(one, wanted) + SAMPLED_COPIES * logits, _live(sizes, rows, one.prompt, span, wanted))
    flops, moved = _layers(one, wanted, rows, one.prompt, layers, keys=span)
    first = xla_seconds(flops, moved + cache, where)
    flops = 2 * rows * (whole / ACTIVATION_BYTES + 2 * cache / ACTIVATION_BYTES / rows)
    moved = TOKEN_WEIGHT_TRAFFIC * whole + TOKEN_CACHE_TRAFFIC * cache + SAMPLED_TRAFFIC * logits
    links = whole * (wanted.fsdp - 1) / wanted.fsdp / link_bandwidth(where)  # every token gathers all weights
    return memory, first + max(0, one.completion - 1) * max(links, xla_seconds(flops, moved, where))


def cache_bytes(sizes: Mapping[str, object], rows: int, span: int, layers: int, wanted: Candidate) -> int:
    """Bytes on one device of the keys and values of `rows` rows of `span` tokens."""

    def of_layer(kind: str) -> float:
        heads, width = kv_heads_of(sizes, kind)
        parts = wanted.tp if heads % wanted.tp == 0 else 1
        return 2 * rows * span * heads * width * ACTIVATION_BYTES / parts

    return int(sum(of_each(sizes, layers, of_layer)))


def kv_heads_of(sizes: Mapping[str, object], kind: str) -> tuple[int, int]:
    """Heads of keys and values, and their width, in a layer of this attention kind."""
    own = sizes.get("global_kv_heads") if kind == "global" else None
    return int(str(own or sizes["kv_heads"])), heads_of(sizes, kind)[1]


def _layers(
    one: Pass, wanted: Candidate, rows: int, length: int, layers: int, keys: float | None = None
) -> tuple[float, float]:
    """FLOPs and bytes on a device of a forward pass through the layers; `keys` of a query, where a cache says it."""
    sizes, tokens = one.sizes, rows * length
    flops = 2 * tokens * _layer_bytes(one) / ACTIVATION_BYTES * layers / wanted.tp

    def attention(kind: str) -> float:
        heads, width = heads_of(sizes, kind)
        return 4 * tokens * heads * width * (keys or wanted.keys(window_of(sizes, kind))) / wanted.tp

    def traffic(kind: str) -> float:
        heads, width = heads_of(sizes, kind)
        widths = 4 * int(str(sizes["embed"])) + 3 * int(str(sizes["hidden"])) + 4 * heads * width
        scores = heads * (keys or wanted.keys(window_of(sizes, kind)))
        return tokens * (WIDTH_TRAFFIC * widths * ACTIVATION_BYTES + SCORE_TRAFFIC * scores) / wanted.tp

    flops += sum(of_each(sizes, layers, attention))
    moved = sum(of_each(sizes, layers, traffic)) + WEIGHT_TRAFFIC * _layer_bytes(one) * layers / wanted.tp
    return flops, moved


def _live(sizes: Mapping[str, object], rows: int, length: int, keys: float, wanted: Candidate) -> float:
    """Bytes that a layer holds on a device in a forward pass."""
    heads, width = heads_of(sizes, next(iter(sizes["kinds"])))  # type: ignore[call-overload]
    widths = LIVE_EMBED * int(str(sizes["embed"]))
    split = LIVE_HIDDEN * int(str(sizes["hidden"])) + LIVE_HEADS * heads * width
    scores = heads * length * keys * LIVE_SCORE_BYTES
    return rows * (length * widths * ACTIVATION_BYTES + (scores + length * split * ACTIVATION_BYTES) / wanted.tp)


def _logits(sizes: Mapping[str, object], tokens: int, wanted: Candidate) -> float:
    """Bytes on a device of the float32 logits of `tokens` tokens."""
    return tokens * -(-int(str(sizes["vocab"])) // wanted.tp) * FLOAT


def _embedding(sizes: Mapping[str, object]) -> int:
    return int(str(sizes["vocab"])) * int(str(sizes["embed"])) * ACTIVATION_BYTES


def _layer_bytes(one: Pass) -> float:
    """Bytes of one layer's weights over the whole mesh."""
    tables = 1 if one.sizes["tied"] else 2
    return max(0.0, sum(one.weights.values()) - tables * _embedding(one.sizes)) / one.layers


def _gathered(one: Pass, wanted: Candidate) -> float:
    """Bytes of the largest weights that are gathered over fsdp at one time: the head's, or a layer's."""
    return max(_embedding(one.sizes), _layer_bytes(one)) / wanted.tp if wanted.fsdp > 1 else 0.0


def _whole_weights(one: Pass, wanted: Candidate, layers: int) -> float:
    """Bytes of the layers' and the head's weights on a device once they are gathered over fsdp."""
    return (_layer_bytes(one) * layers + _embedding(one.sizes)) / wanted.tp
