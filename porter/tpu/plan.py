"""Choose mesh, remat and micro-batch for a slice: by divisibility, then by formula, then by compiling the best few.

The effective batch stays the GPU run's: candidates differ in how many rows go through the mesh at once and how often.
Compiling takes one and two periods of layers and extrapolates linearly to all of them, unless the model is that small.
Where the rows' lengths are known, padding, buckets and packing are compared by the seconds of the shapes they need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..errors import InputError
from ..runtime.batches.step_packing import Shape
from ..runtime.facts.families import families
from ..runtime.facts.lengths import rounded
from ..runtime.facts.mesh import mesh_problems
from .batching import Batching, batchings
from .compile import CompileFailed, Request, compile_step, compile_steps, libtpu_problem
from .memory import Candidate, Estimate, estimate
from .passes import PassFigure, estimate_passes
from .results import Step
from .slices import GIB, Price, Slice, unlaid

SPARE = (
    0.10  # of a chip's HBM, for what the compiler doesn't see: the runtime, fragmentation, a checkpoint being written
)
QUERY_BLOCK = 512  # queries that attend at a time, where rows are longer and the script doesn't say
WAYS = 3  # candidates whose micro-batches are filled in every way
SLOWER = 2.0  # the cost's upper end: XLA's time is an estimate without the host, and no run has been timed against it


@dataclass(frozen=True)
class Row:
    """A candidate with what is known of it. `seconds` of one micro-batch, `peak` bytes on one device at most, be it in
    the training step or in one of the `passes` beside it.

    `how`: "formula", "compiled" or "extrapolated" (from the layers in `compiled_layers`); `why_not` when it fell out.
    """

    candidate: Candidate
    estimate: Estimate
    micro_batches: int
    peak: int
    seconds: float
    how: str
    compiled_layers: tuple[int, ...] = ()
    why_not: str = ""
    passes: tuple[PassFigure, ...] = ()

    @property
    def step_seconds(self) -> float:
        """One optimizer step: its micro-batches, and what the run computes beside them."""
        return self.seconds * self.micro_batches + sum(one.seconds for one in self.passes)

    @property
    def tokens_a_second(self) -> float:
        return self.candidate.batch * self.candidate.length * self.micro_batches / self.step_seconds


@dataclass(frozen=True)
class Cost:
    """US dollars of the whole run at one price: from XLA's time to `SLOWER` times it."""

    price: Price
    hours: tuple[float, float]
    usd: tuple[float, float]


@dataclass(frozen=True)
class Plan:
    """Candidates of one slice, the best first; `dropped` are meshes that the model doesn't fit, with the tensors.

    `ways`: how the best candidate's micro-batches may be filled, the fastest first; empty where no lengths are known.
    """

    slice: Slice
    step: Step
    rows: tuple[Row, ...]
    dropped: tuple[tuple[str, str], ...]
    costs: tuple[Cost, ...]
    note: str = ""
    ways: tuple[Batching, ...] = ()

    @property
    def best(self) -> Row | None:
        return next((row for row in self.rows if not row.why_not), None)

    @property
    def way(self) -> Batching | None:
        return self.ways[0] if self.ways else None

    @property
    def step_seconds(self) -> float:
        """One optimizer step, as the best candidate and the best way take it; 0 when nothing fits."""
        if self.way is not None:
            return self.way.seconds * self.step.effective_rows
        return self.best.step_seconds if self.best is not None else 0.0


def plan(
    request: Request,
    *,
    compiled: int = 3,
    full: bool = False,
    lengths: Sequence[int] = (),
    price: float | None = None,
    say: Callable[[str], None] = lambda line: None,
    timeout: float = 3600,
) -> Plan:
    """Plan `request` (its mesh and remat are chosen here) on its slice. `compiled`: how many candidates are compiled.

    `full`: compile the winner with all its layers. `lengths`: tokens of the dataset's rows, or of a sample of them.
    `price`: the user's own, USD a chip-hour. Without libtpu, or with `compiled` 0, the order is the formula's and every
    row says so.
    """
    where = request.slice
    if lengths and (kind := compile_step(_traced(request)).kind) != "SFT":
        raise InputError(
            f"--lengths: buckets and packing within the step are of supervised ports, and this is one of {kind}"
        )
    if lengths:
        request = replace(request, seq_len=compiled_length(lengths))
    say("tracing the step")
    traced = compile_step(_traced(request), say)
    if not traced.query_block and traced.length > QUERY_BLOCK:
        request, traced = replace(request, query_block=QUERY_BLOCK), replace(traced, query_block=QUERY_BLOCK)
    meshes, dropped = fitting_meshes(traced, where)
    rows = [
        by_formula(traced, candidate, where) for candidate in candidates(traced, meshes, request.batch, request.remat)
    ]
    rows.sort(key=_order)
    if not rows:
        raise InputError(f"no mesh of {where.name} divides {traced.model}", fix=dropped[0][1] if dropped else "")
    note = libtpu_problem() if compiled else ""
    if compiled and not note:
        rows = _decide(request, traced, rows, where, compiled, full, say, timeout)
    ways: list[Batching] = []
    if lengths:
        rows, ways = _filled(traced, rows, where, lengths)
    found = Plan(where, traced, tuple(rows), tuple(dropped), (), note, tuple(ways))
    return replace(found, costs=costs_of(traced, found.step_seconds, where, price)) if found.best else found


def longest_row(request: Request) -> int:
    """Tokens of the longest row that the script lets through: its max_length."""
    return compile_step(_traced(request)).length


def _traced(request: Request) -> Request:
    """One period of layers on one device, traced alone: what the sizes are read from."""
    return replace(request, mesh={"fsdp": 1, "tp": 1}, remat="decoder", layers=0, compile=False)


def fitting_meshes(step: Step, where: Slice) -> tuple[list[tuple[int, int]], list[tuple[str, str]]]:
    """(fsdp, tp) that the slice has and that divide every tensor, and the others with what is in their way.

    A reference's or a teacher's tensors have to divide, too.
    """
    models = {step.model: (step.family, step.sizes)} | {one.model: (one.family, one.sizes) for one in step.passes}
    known = {family.name: family for family in families()}
    count = where.devices
    fit, dropped = [], []
    for tp in [n for n in range(1, count + 1) if count % n == 0]:
        if not where.lays_out(count // tp, tp):
            mesh = f"fsdp={count // tp},tp={tp}"
            dropped.append((mesh, unlaid(mesh, where)))
            continue
        problems = [
            line if model == step.model else f"{model}: {line}"
            for model, (family, sizes) in models.items()
            if family in known
            for line in mesh_problems(known[family], sizes, count // tp, tp)[:-1]
        ]
        if problems:
            dropped.append((f"fsdp={count // tp},tp={tp}", "; ".join(problems[:2])))
        else:
            fit.append((count // tp, tp))
    return fit, dropped


def candidates(step: Step, meshes: list[tuple[int, int]], batch: int | None, remat: str = "script") -> list[Candidate]:
    """Every mesh with 1, 2, 4... rows a device, as far as the effective batch fills them, with remat and without.

    Where the loss compares the rows of the GPU run's micro-batches, each mesh has the one that it makes of those. The
    rows of a pair stay in one micro-batch.
    """
    found = []
    for fsdp, tp in meshes:
        unit = math.lcm(fsdp, step.documents)
        most = max(1, math.ceil(step.effective_rows / unit))
        if step.own_batch is not None:
            sizes = [math.ceil(step.own_batch["rows"] / unit)]
        elif batch and batch % unit == 0:
            sizes = [min(batch // unit, most)]
        else:
            sizes = [min(2**n, most) for n in range(most.bit_length())]
        for size in dict.fromkeys(sizes):
            for with_remat in {"none": (False,), "decoder": (True,)}.get(remat, (False, True)):
                found.append(Candidate(fsdp, tp, size * unit, step.length, with_remat, step.query_block))
    return found


def compiled_length(lengths: Sequence[int]) -> int:
    """Tokens of the rows to compile where lengths are known: two rows of the mean, or the longest."""
    return min(rounded(max(lengths)), rounded(-(-2 * sum(lengths) // len(lengths))))


def _filled(step: Step, rows: list[Row], where: Slice, lengths: Sequence[int]) -> tuple[list[Row], list[Batching]]:
    """The candidates with the one first whose micro-batches are filled fastest, and the ways to fill those.

    Shapes that were not compiled have the formula's seconds and memory, times what the compiler said of the candidate
    against the formula.
    """
    filled: list[tuple[Row, list[Batching]]] = []
    for row in [row for row in rows if not row.why_not]:
        if len(filled) == WAYS or (filled and row.how == "formula" != filled[0][0].how):
            break
        candidate, slower, larger = row.candidate, row.seconds / row.estimate.seconds, row.peak / row.estimate.peak

        def of(shape: Shape, candidate: Candidate = candidate) -> Estimate:
            return estimate(step, replace(candidate, batch=shape[0], length=shape[1]), where)

        ways = batchings(
            lengths,
            step.effective_rows,
            candidate.batch,
            candidate.fsdp,
            lambda shape, of=of, slower=slower: of(shape).seconds * slower,  # type: ignore[misc]
            lambda shape, of=of, larger=larger: of(shape).peak * larger <= usable(where),  # type: ignore[misc]
        )
        if ways:  # none where the longest row doesn't fit
            filled.append((row, ways))
    if not filled:
        return rows, []
    best, ways = min(filled, key=lambda one: one[1][0].seconds)
    return [best, *(row for row in rows if row is not best)], ways


def costs_of(step: Step, step_seconds: float, where: Slice, price: float | None) -> tuple[Cost, ...]:
    """The run's cost at each price of the chip, or at the user's own."""
    prices = where.chip.prices
    if price is not None:
        prices = (Price(price, "your price", "--price", "", "--price"),)
    hours = step_seconds * step.steps / 3600
    span = (hours, hours * SLOWER)
    return tuple(Cost(p, span, (span[0] * p.usd * where.chips, span[1] * p.usd * where.chips)) for p in prices)


def usable(where: Slice) -> int:
    """Bytes of a device's HBM that a plan may fill."""
    return int(where.hbm * (1 - SPARE))


def by_formula(step: Step, candidate: Candidate, where: Slice, layers: int | None = None) -> Row:
    """A candidate by formula, with all layers or `layers` of them."""
    found = estimate(step, candidate, where, layers)
    micro = micro_batches_of(step, candidate)
    passes = tuple(estimate_passes(step, candidate, micro, where, layers))
    peak = max(found.peak, *(one.peak for one in passes), 0)
    return Row(candidate, found, micro, peak, found.seconds, "formula", (), _why_not(peak, where), passes)


def micro_batches_of(step: Step, candidate: Candidate) -> int:
    """Micro-batches of an optimizer step."""
    whole = step.own_batch["micro_batches"] if step.own_batch is not None else 0
    return whole or max(1, math.ceil(step.effective_rows / candidate.batch))


def _why_not(peak: int, where: Slice) -> str:
    over = peak - usable(where)
    return f"{over / GIB:.1f} GiB over {usable(where) / GIB:.1f} GiB ({SPARE:.0%} of HBM kept free)" if over > 0 else ""


def _order(row: Row) -> tuple[bool, float]:
    return bool(row.why_not), row.step_seconds


def _decide(
    request: Request,
    step: Step,
    rows: list[Row],
    where: Slice,
    compiled: int,
    full: bool,
    say: Callable[[str], None],
    timeout: float,
) -> list[Row]:
    """Compile candidates in the formula's order until `compiled` of them fit, and put those first."""
    done: list[Row] = []
    left = list(rows)
    while missing := min(compiled - sum(not row.why_not for row in done), 2 * compiled - len(done)):
        fit = bool(done) and not all(row.why_not for row in done)
        chosen = [row for row in left[:missing] if not (row.why_not and fit)]
        if not chosen:
            break
        left = left[len(chosen) :]
        done += _measure(request, step, chosen, where, say, timeout, layer_counts(step))
    done.sort(key=_order)
    if full and done and not done[0].why_not and done[0].how != "compiled":
        done[:1] = _measure(request, step, done[:1], where, say, timeout, (step.all_layers,))
        done.sort(key=_order)
    return [*done, *left]


def _measure(
    request: Request,
    step: Step,
    rows: Sequence[Row],
    where: Slice,
    say: Callable[[str], None],
    timeout: float,
    counts: Sequence[int],
) -> list[Row]:
    """`rows` by the compiler, each with these numbers of layers and extrapolated from there."""
    asked, names = [], []
    for row in rows:
        candidate = row.candidate
        for count in counts:
            asked.append(
                replace(
                    request,
                    mesh=candidate.mesh,
                    batch=None if step.own_batch else candidate.batch,
                    seq_len=candidate.length if step.kind == "SFT" else request.seq_len,
                    remat="decoder" if candidate.remat else "none",
                    layers=None if count == step.all_layers else count,
                    quick=True,
                )
            )
            names.append(f"{candidate.name}, {count} of {step.all_layers} layers")
    steps = compile_steps(asked, lambda number, line: say(f"{names[number]}: {line}"), timeout=timeout)
    each = [steps[start : start + len(counts)] for start in range(0, len(steps), len(counts))]
    return [_measured(row, found, tuple(counts), step.all_layers, where) for row, found in zip(rows, each, strict=True)]


def _measured(
    row: Row, found: Sequence[Step | CompileFailed], counts: tuple[int, ...], layers: int, where: Slice
) -> Row:
    steps = []
    for count, compiled in zip(counts, found, strict=True):
        if isinstance(compiled, CompileFailed):
            return replace(row, why_not=f"XLA: {compiled}")
        name, short = compiled.shortage(where.hbm)
        if short:
            what = f"{name}: " if compiled.passes else ""
            why = f"XLA: {what}{short / GIB:.1f} GiB more than the chip has, at {count} layers"
            return replace(row, how="compiled", compiled_layers=(count,), peak=where.hbm + short, why_not=why)
        steps.append(compiled)
    peak, seconds = extrapolate(steps, layers)
    passes = tuple(_passes(steps, number) for number in range(len(steps[0].passes)))
    peak = max(peak, *(one.peak for one in passes), 0)
    how = "compiled" if len(steps) == 1 else "extrapolated"
    why_not = _why_not(peak, where)
    return replace(row, peak=peak, seconds=seconds, how=how, compiled_layers=counts, why_not=why_not, passes=passes)


def _passes(steps: Sequence[Step], number: int) -> PassFigure:
    """A pass of the steps compiled, at all layers of its model."""
    found = [step.passes[number] for step in steps]
    one = found[0]
    peak, seconds = (
        along([(one.layers, value) for one, value in zip(found, values, strict=True)], one.all_layers)
        for values in ([one.peak for one in found], [one.step_seconds for one in found])
    )
    return PassFigure(one.name, int(peak), seconds)


def layer_counts(step: Step) -> tuple[int, ...]:
    """Layers to compile: one and two periods of the attention pattern, or all when that is hardly more.

    Layers that share keys and values with others (Gemma 4's small models) are never cut apart.
    """
    first = max(step.period, 2)
    if step.sizes.get("kv_shared") or step.all_layers <= 3 * first:
        return (step.all_layers,)
    return (first, 2 * first)


def extrapolate(found: list[Step], layers: int) -> tuple[int, float]:
    """Peak bytes of the training step and its seconds at `layers` layers, on the line through the steps compiled."""
    peak = along([(step.layers, step.training_peak) for step in found], layers)
    return int(peak), along([(step.layers, step.seconds) for step in found], layers)


def along(points: Sequence[tuple[int, float]], layers: int) -> float:
    """The value at `layers` layers on the line through the first and the last point (through one: as it is)."""
    (first, low), (last, high) = points[0], points[-1]
    return low if first == last else low + (layers - first) / (last - first) * (high - low)
