"""What a training step takes on a chip, by formula: memory and time, without compiling.

The sizes come from a trace of the script's own step (`compile_step` with compile=False), which gives every tensor's
bytes and the mesh axes that it is sharded on. The constants were fitted to XLA:TPU (libtpu 0.0.42) on Gemma 4 31B with
LoRA r=64 on v5p:2x2x1; docs/plan.md has the table. It is an estimate and is marked as one wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .results import Pass, Step
from .slices import Slice, link_bandwidth, xla_seconds

# google-tunix 0.1.7 jits its step without donating the model: flax returns all weights, and XLA copies what it returns.
# The runtime's step (porter.runtime.lora.train_step) returns what was trained.
WEIGHT_COPIES = 2
# Float32 copies of the logits alive at once, with token_loss: fewer when the vocabulary is split over tp.
LOGITS_COPIES, LOGITS_COPIES_TP = 2.5, 0.6
# Of other families than Gemma, whose head is float32, the logits stand in half precision: so many of them, beside
# the head's gathered weights. GKD's step is given the teacher's in float32.
HALF_LOGITS = {"SFT": 1, "GKD": 3}
PAIR_LOGITS, PAIR_LOGITS_WITH_REFERENCE = 1.2, 2
# GRPO and RLOO make logits of so many tokens of each row at one time, and read the head so often for each.
CHUNK, CHUNK_COPIES, CHUNK_HEADS = 64, 1.35, 3.5
SAMPLED = ("GRPO", "RLOO")
REFERENCE_IN_STEP = ("DPO", "KTO")  # with adapters, and without a reference model of their own
# Without remat, what a layer keeps for its backward pass: bytes for each attention score (more where heads are split
# over tp), and arrays of each width. The residual stream's stand on every chip of tp, the others are split over it.
KEPT_SCORE_BYTES, KEPT_SCORE_BYTES_TP = 2.2, 3.9
KEPT_EMBED, KEPT_HIDDEN, KEPT_HEADS = 2, 3, 4
# What a layer that is recomputed holds while its gradient is made.
LIVE_SCORE_BYTES = 6
LIVE_EMBED, LIVE_HIDDEN, LIVE_HEADS = 8, 3, 5
ACTIVATION_BYTES = 2
# The bytes it counts: each gathered weight so often, arrays of each layer's widths, each attention score, each logit.
WEIGHT_TRAFFIC, WIDTH_TRAFFIC = 10, 18
SCORE_TRAFFIC, LOGIT_TRAFFIC = 13.7, 14
HALF_LOGIT_TRAFFIC, TEACHER_TRAFFIC = 5, 23


@dataclass(frozen=True)
class Candidate:
    """One way to run the step: the mesh, rows of a micro-batch over the whole mesh, tokens of a row, remat.

    `query_block`: queries that attend at a time (`rt.attend_in_blocks`), 0 for all of a row.
    """

    fsdp: int
    tp: int
    batch: int
    length: int
    remat: bool
    query_block: int = 0

    def keys(self, window: int | None = None) -> float:
        """Keys that a query's scores are made of, on average: the row's, or those that its block can see.

        A block of queries takes the keys up to its end, in a layer with a sliding window (in tokens) those within it.
        """
        if not 0 < self.query_block < self.length:
            return self.length
        scores = 0
        for start in range(0, self.length, self.query_block):
            end = min(start + self.query_block, self.length)
            scores += (end - start) * (end - (max(0, start - window + 1) if window else 0))
        return scores / self.length

    @property
    def mesh(self) -> dict[str, int]:
        return {"fsdp": self.fsdp, "tp": self.tp}

    @property
    def name(self) -> str:
        return f"fsdp={self.fsdp},tp={self.tp} batch {self.batch} {'remat' if self.remat else 'no remat'}"

    @property
    def way(self) -> str:
        """Its name without the micro-batch."""
        return f"fsdp={self.fsdp},tp={self.tp} {'remat' if self.remat else 'no remat'}"


@dataclass(frozen=True)
class Estimate:
    """Bytes on one device by kind, and seconds of one micro-batch. An estimate by formula.

    `resident`: of what lies there beside the training step's own, a reference's or a teacher's weights.
    """

    weights: int
    weight_copies: int
    adapters: int
    optimizer: int
    activations: int
    logits: int
    seconds: float
    flops: float
    resident: int = 0

    @property
    def peak(self) -> int:
        own = self.weights + self.weight_copies + self.adapters + self.optimizer
        return own + self.activations + self.logits + self.resident


def estimate(step: Step, wanted: Candidate, where: Slice, layers: int | None = None) -> Estimate:
    """The step of `step`'s script run as `wanted` on `where`, with `layers` of its layers (all of them by default).

    `step` may be a trace on any mesh and of any number of layers; weights grow with the layers.
    """
    layers = layers or step.all_layers
    sizes = step.sizes
    rows = max(1, wanted.batch // wanted.fsdp)
    weights = grown(step, step.state["weights"], wanted, layers)
    adapters = grown(step, step.state["adapters"], wanted, layers, fixed=0)
    optimizer = grown(step, step.state["optimizer"], wanted, layers, fixed=0)
    kept = sum(of_each(sizes, layers, lambda kind: _kept_bytes(sizes, kind, rows, wanted)))
    largest = max(_live_bytes(sizes, kind, rows, wanted) for kind in set(sizes["kinds"]))
    boundary = rows * wanted.length * sizes["embed"] * ACTIVATION_BYTES
    logits = int(_logits(step, rows, wanted))
    # The logits are gone before the first layer is computed again.
    together = step.kind in SAMPLED and wanted.tp > 1  # logits of a few tokens, and what a layer's heads hold
    activations = layers * boundary + max(0, largest - (0 if together else logits)) if wanted.remat else kept
    flops = _flops(step, wanted, layers) / (wanted.fsdp * wanted.tp)
    copied = 2 * weights if step.weights_returned else 0
    bytes_moved = _bytes_moved(step, wanted, layers) + copied
    seconds = max(xla_seconds(flops, bytes_moved, where), _link_seconds(step, wanted, where, layers))
    # Adapters in training stand twice: what goes in and what comes out.
    copies_of_weights = WEIGHT_COPIES - 1 if step.weights_returned else 0
    return Estimate(
        weights,
        copies_of_weights * weights,
        2 * adapters,
        optimizer,
        int(activations),
        logits,
        seconds,
        flops,
        resident(step, wanted, layers),
    )


def resident(step: Step, wanted: Candidate, layers: int | None = None) -> int:
    """Bytes on one device beside the training step's own: a reference's or a teacher's weights."""
    layers = layers or step.all_layers
    reference = step.state.get("reference")
    found = grown(step, reference, wanted, layers, fixed=None if step.weights_returned else 0) if reference else 0
    others = {one.model: one for one in step.passes if not one.own}
    return found + sum(weights_of(one, wanted, layers_of(one, step, layers)) for one in others.values())


def kept(step: Step, wanted: Candidate, layers: int) -> int:
    """Bytes on one device of all that a run keeps: what it trains, its optimizer, and what `resident` says."""
    own = grown(step, step.state["weights"], wanted, layers)
    own += sum(grown(step, step.state[kind], wanted, layers, fixed=0) for kind in ("adapters", "optimizer"))
    return own + resident(step, wanted, layers)


def layers_of(one: Pass, step: Step, layers: int) -> int:
    """Layers of a pass's model where the trained one has `layers`."""
    return one.all_layers if layers == step.all_layers else min(layers, one.all_layers)


def weights_of(one: Pass, wanted: Candidate, layers: int) -> int:
    """Bytes of a pass's model on one device."""
    return grown(one, one.weights, wanted, layers)


def layer_bytes(step: Step) -> float:
    """Bytes of one layer's weights over the whole mesh: those of the traced model less its embeddings, a layer."""
    sizes = step.sizes
    return max(0.0, sum(step.state["weights"].values()) - _embedding_bytes(sizes)) / step.layers


def _embedding_bytes(sizes: Mapping[str, object]) -> float:
    tables = 1 if sizes["tied"] else 2
    return tables * int(str(sizes["vocab"])) * int(str(sizes["embed"])) * ACTIVATION_BYTES


def grown(
    traced: Step | Pass, held: Mapping[str, int], wanted: Candidate, layers: int, fixed: float | None = None
) -> int:
    """Bytes on one device of what is `held` over the whole mesh by axes, scaled from the traced layers to `layers`;
    `fixed` is what doesn't grow: the embeddings, by default."""
    sizes = {"fsdp": wanted.fsdp, "tp": wanted.tp}
    here = 0.0
    for axes, count in held.items():
        parts = 1
        for axis in axes.split():
            parts *= sizes.get(axis, 1)
        here += count / parts
    constant = fixed if fixed is not None else _embedding_bytes(traced.sizes) / (wanted.fsdp * wanted.tp)
    return int(constant + (here - constant) * layers / traced.layers)


def _kinds(sizes: Mapping[str, object], layers: int) -> list[str]:
    kinds = list(sizes["kinds"])  # type: ignore[call-overload]
    return [kinds[i % len(kinds)] for i in range(layers)]


def of_each(sizes: Mapping[str, object], layers: int, figure: Callable[[str], float]) -> list[float]:
    """A layer's figure for every layer: asked once for each attention kind."""
    kinds = _kinds(sizes, layers)
    figures = {kind: figure(kind) for kind in set(kinds)}
    return [figures[kind] for kind in kinds]


def heads_of(sizes: Mapping[str, object], kind: str) -> tuple[int, int]:
    """Query heads and their width in a layer of this attention kind."""
    width = sizes["global_head_dim"] if kind == "global" else sizes["head_dim"]
    return int(str(sizes["heads"])), int(str(width))


def window_of(sizes: Mapping[str, object], kind: str) -> int | None:
    """Tokens of the sliding window in a layer of this attention kind; None for a whole row, or where it isn't known."""
    window = sizes.get("window") if kind == "local" else None
    return int(str(window)) if window is not None else None


def _kept_bytes(sizes: Mapping[str, object], kind: str, rows: int, wanted: Candidate) -> float:
    """What one layer keeps on a device from the forward to the backward pass, without remat."""
    heads, width = heads_of(sizes, kind)
    scores = (
        heads
        * wanted.length
        * wanted.keys(window_of(sizes, kind))
        * (KEPT_SCORE_BYTES if wanted.tp == 1 else KEPT_SCORE_BYTES_TP)
    )
    widths = KEPT_HIDDEN * int(str(sizes["hidden"])) + KEPT_HEADS * heads * width
    whole = KEPT_EMBED * int(str(sizes["embed"])) * wanted.length * ACTIVATION_BYTES
    return rows * (whole + (scores + wanted.length * widths * ACTIVATION_BYTES) / wanted.tp)


def _live_bytes(sizes: Mapping[str, object], kind: str, rows: int, wanted: Candidate) -> float:
    """What one layer holds on a device while its backward pass runs."""
    heads, width = heads_of(sizes, kind)
    scores = heads * wanted.length * wanted.keys(window_of(sizes, kind)) * LIVE_SCORE_BYTES
    widths = LIVE_EMBED * int(str(sizes["embed"])) + LIVE_HIDDEN * int(str(sizes["hidden"]))
    widths += LIVE_HEADS * heads * width
    return rows * (scores + wanted.length * widths * ACTIVATION_BYTES) / wanted.tp


def _logits(step: Step, rows: int, wanted: Candidate) -> float:
    """Bytes on a device of the logits that stand at once, and of what is gathered for them."""
    sizes = step.sizes
    vocabulary = -(-sizes["vocab"] // wanted.tp)
    gathered = sizes["vocab"] * sizes["embed"] * ACTIVATION_BYTES / wanted.tp if wanted.fsdp > 1 else 0
    if step.kind in SAMPLED:
        return float(gathered + CHUNK_COPIES * rows * CHUNK * vocabulary * 4)
    one = rows * wanted.length * vocabulary * 4
    given = one if step.kind == "GKD" else 0
    if softcapped(step.family) or wanted.tp > 1:
        return float((LOGITS_COPIES if wanted.tp == 1 else LOGITS_COPIES_TP) * one + given)
    pair = PAIR_LOGITS_WITH_REFERENCE if references_in_step(step) else PAIR_LOGITS
    return float(gathered + HALF_LOGITS.get(step.kind, pair) * one / 2 + given)


def softcapped(family: str) -> bool:
    """Whether the logits are made in float32: the Gemma families, for which the first constants were fitted."""
    return family.startswith("gemma")


def _logit_traffic(step: Step) -> float:
    """Bytes read and written for each logit."""
    if softcapped(step.family) or step.kind in SAMPLED:
        return LOGIT_TRAFFIC
    return HALF_LOGIT_TRAFFIC + (TEACHER_TRAFFIC if step.kind == "GKD" else 0)


def _trained_tokens(step: Step, length: int) -> int:
    """Tokens of a row that have logits."""
    completion = max((one.completion for one in step.passes), default=0)
    return min(length, completion) if step.kind in SAMPLED else length


def references_in_step(step: Step) -> bool:
    """Whether the step itself has the reference's pass: the base, its adapters off."""
    return step.kind in REFERENCE_IN_STEP and bool(step.lora_tensors) and not step.passes


def _flops(step: Step, wanted: Candidate, layers: int) -> float:
    """FLOPs of a micro-batch over all chips: frozen weights need the forward pass and the gradient of their input.

    2 FLOPs a weight and token each, once more with remat, for a reference within the step, and for the gradient of
    weights that are trained themselves; adapters 6; attention 2 products forward and 4 backward.
    """
    sizes = step.sizes
    tokens = wanted.batch * wanted.length
    again, whole, reference = int(wanted.remat), int(not step.lora_tensors), int(references_in_step(step))
    body = layer_bytes(step) / ACTIVATION_BYTES * layers * (4 + 2 * (again + whole + reference))
    adapters = 0 if whole else step.trainable * layers / step.layers * 6

    def products(kind: str) -> float:
        heads, width = heads_of(sizes, kind)
        return 2 * 2 * heads * width * wanted.keys(window_of(sizes, kind)) * (3 + again + reference)

    attention = sum(of_each(sizes, layers, products))
    head = (4 + 2 * (whole + reference + (step.kind in SAMPLED))) * sizes["vocab"] * sizes["embed"]
    with_logits = wanted.batch * _trained_tokens(step, wanted.length)
    return float(tokens * (body + adapters + attention) + with_logits * head)


def _bytes_moved(step: Step, wanted: Candidate, layers: int) -> float:
    """Bytes that a device reads and writes in a micro-batch, as XLA counts them, without copies of returned weights."""
    sizes = step.sizes
    rows = max(1, wanted.batch // wanted.fsdp)
    tokens = rows * wanted.length
    again = 1 + 0.5 * (wanted.remat + references_in_step(step))  # the forward pass twice

    def traffic(kind: str) -> float:
        heads, width = heads_of(sizes, kind)
        widths = 4 * sizes["embed"] + 3 * sizes["hidden"] + 4 * heads * width
        scores = heads * wanted.keys(window_of(sizes, kind))
        return float(tokens * (WIDTH_TRAFFIC * widths * ACTIVATION_BYTES + SCORE_TRAFFIC * scores))

    moved = sum(of_each(sizes, layers, traffic), WEIGHT_TRAFFIC * layer_bytes(step) * layers)
    trained = _trained_tokens(step, wanted.length)
    moved = again * moved + _logit_traffic(step) * rows * trained * sizes["vocab"]
    if step.kind in SAMPLED:
        moved += CHUNK_HEADS * -(-trained // CHUNK) * sizes["vocab"] * sizes["embed"] * ACTIVATION_BYTES
    return float(moved / wanted.tp)


def _link_seconds(step: Step, wanted: Candidate, where: Slice, layers: int) -> float:
    """Time on the ICI: gathering the weights over fsdp in each pass, and summing activations over tp."""
    passes = 3 if wanted.remat else 2
    gathered = layer_bytes(step) * layers / wanted.tp * passes * (wanted.fsdp - 1) / wanted.fsdp
    rows = max(1, wanted.batch // wanted.fsdp)
    reduced = 0.0
    if wanted.tp > 1:
        each = rows * wanted.length * step.sizes["embed"] * ACTIVATION_BYTES
        reduced = 2 * each * (wanted.tp - 1) / wanted.tp * layers * 2 * passes
    return float((gathered + reduced) / link_bandwidth(where))
