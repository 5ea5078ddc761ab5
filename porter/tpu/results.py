"""What a compile or a trace says of a training step and of what a run computes beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .slices import Slice, link_bandwidth, xla_seconds


@dataclass(frozen=True)
class Memory:
    """Bytes on one device. `outputs` less `aliased` are new buffers; `logits` is one float32 copy, part of `temporary`.

    `peak` is the compiler's own figure for the whole program. Weights, adapters, optimizer and logits are the training
    step's; of other programs they are part of `arguments` and `temporary`, and 0 here.
    """

    peak: int
    weights: int = 0
    adapters: int = 0
    optimizer: int = 0
    arguments: int = 0
    outputs: int = 0
    aliased: int = 0
    temporary: int = 0
    code: int = 0
    logits: int = 0


@dataclass(frozen=True)
class Pass:
    """What a run computes beside its training step: the pass of a reference or a teacher, sampling, log-probabilities.

    `times`: how often an optimizer step runs it (a share, where it runs in some): once for each micro-batch where
    `count` is 0, else `goes` times over `count` rows. `rows` and `length` of its arrays over the whole mesh; `prompt`
    and `completion`: tokens of each where it samples. Bytes on one device: `cache` of keys and values, `given` of
    weights that are its arguments, `resident` of what lies there besides. FLOPs, bytes and seconds are XLA's on one
    device: of the whole program, whose loop is counted once, and of one turn of it (`token_`), whose seconds are no
    less than what its collectives need of the links. `weights`: bytes over the whole mesh by the axes they are sharded
    on. `own`: of the model that trains; `family`: of the model's.
    """

    name: str
    model: str
    own: bool
    rows: int
    length: int
    times: float
    layers: int
    all_layers: int
    sizes: Mapping[str, Any]
    weights: Mapping[str, int]
    family: str = ""
    count: int = 0
    goes: float = 0.0
    prompt: int = 0
    completion: int = 0
    cache: int = 0
    given: int = 0
    resident: int = 0
    memory: Memory | None = None
    flops: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    token_flops: float = 0.0
    token_bytes: float = 0.0
    token_seconds: float = 0.0
    token_collectives: Mapping[str, Mapping[str, int]] | None = None
    collectives: Mapping[str, Mapping[str, int]] | None = None
    compile_seconds: float = 0.0
    short_of_memory: int = 0
    wanted_memory: int = 0

    @property
    def samples(self) -> bool:
        return self.prompt > 0

    @property
    def turns(self) -> int:
        """Turns of its loop beyond the one that XLA counts, where every completion is as long as it may be."""
        return max(0, self.completion - 2) if self.samples else 0

    @property
    def run_seconds(self) -> float:
        """XLA's seconds of one run of it."""
        return self.seconds + self.turns * self.token_seconds

    @property
    def step_seconds(self) -> float:
        """Its seconds in one optimizer step."""
        return self.times * self.run_seconds

    @property
    def peak(self) -> int:
        """The compiler's peak and what lies in the HBM besides; 0 where it wasn't compiled."""
        return self.memory.peak + self.resident if self.memory is not None else 0


@dataclass(frozen=True)
class Step:
    """What came of it. FLOPs, bytes and seconds are XLA's for one micro-batch on one device.

    `own_batch`: rows and number of the micro-batches that a loss needs as the GPU run had them, None where a step may
    go through the mesh in any; `documents`: rows of an example, the two of a pair. `query_block`: how many queries
    attend at a time, 0 for all of a row. `short_of_memory`: bytes wanted beyond the HBM
    there is, 0 when it fits; the compiler gives no more figures then. `weights_returned`: the step gives back all
    weights, as Tunix's own does. `state`: bytes of weights, adapters and optimizer over the whole mesh, by the mesh
    axes that they are sharded on.
    """

    devices: int
    mesh: Mapping[str, int]
    batch_rows: int
    length: int
    micro_batches: int
    effective_rows: int
    steps: int
    remat: bool
    packing: bool
    layers: int
    all_layers: int
    period: int
    parameters: int
    trainable: int
    lora_tensors: int
    model: str
    family: str
    sizes: Mapping[str, Any]
    state: Mapping[str, Mapping[str, int]]
    kind: str = "SFT"
    own_batch: Mapping[str, int] | None = None
    documents: int = 1
    resident: int = 0
    passes: tuple[Pass, ...] = ()
    query_block: int = 0
    varying: tuple[str, ...] = ()
    weights_returned: bool = True
    memory: Memory | None = None
    flops: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    collectives: Mapping[str, Mapping[str, int]] | None = None
    trace_seconds: float = 0.0
    compile_seconds: float = 0.0
    short_of_memory: int = 0
    wanted_memory: int = 0
    quick: bool = False
    cached: bool = False

    @property
    def peak(self) -> int:
        """The most that lies in one device's HBM at once, by the compiler; 0 where nothing was compiled."""
        return max(self.training_peak, *(one.peak for one in self.passes), 0)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the run loads: the one that trains, and a reference or a teacher."""
        return tuple(dict.fromkeys([self.model, *(one.model for one in self.passes)]))

    @property
    def training_peak(self) -> int:
        """The training step's peak and what lies in the HBM besides; 0 where it wasn't compiled."""
        return self.memory.peak + self.resident if self.memory is not None else 0

    @property
    def step_seconds(self) -> float:
        """XLA's seconds of one optimizer step: its micro-batches, and what the run computes beside them."""
        return self.seconds * self.micro_batches + sum(one.step_seconds for one in self.passes)

    def shortage(self, hbm: int) -> tuple[str, int]:
        """Which program lacks how many bytes of a device's `hbm`; ("", 0) where all of them fit."""
        lacking = [("training", self.short_of_memory or self.training_peak - hbm)]
        lacking += [(one.name, one.short_of_memory or one.peak - hbm) for one in self.passes]
        name, most = max(lacking, key=lambda found: found[1])
        return (name, most) if most > 0 else ("", 0)

    @property
    def seconds_a_row(self) -> float:
        """XLA's seconds for one row, on all chips together."""
        return self.seconds / self.batch_rows

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def step_of(found: dict[str, Any], where: Slice, *, cached: bool) -> Step:
    """The step that `porter.tpu.tracing` wrote down."""
    passes = tuple(Pass(**_linked(_mended(dict(one), where), where)) for one in found.pop("passes", ()))
    found = _mended(found, where)
    found["varying"] = tuple(found.get("varying", ()))
    return Step(**{**found, "passes": passes, "cached": cached})


def _linked(found: dict[str, Any], where: Slice) -> dict[str, Any]:
    """A turn of a sampling loop takes at least what its collectives take on the links, which XLA's time leaves out:
    over fsdp every token gathers all weights."""
    moved = sum(kind["bytes"] for kind in (found.get("token_collectives") or {}).values())
    return found | {"token_seconds": max(found.get("token_seconds", 0.0), moved / link_bandwidth(where))}


def _mended(found: dict[str, Any], where: Slice) -> dict[str, Any]:
    """XLA's cost analysis counts -1 second for an instruction whose time it doesn't know: those are taken out."""
    for prefix in ("", "token_"):
        flops, moved, seconds = (found.get(prefix + name, 0.0) for name in ("flops", "bytes", "seconds"))
        if seconds < xla_seconds(flops, 0.0, where):
            found[prefix + "seconds"] = seconds + max(0, round(xla_seconds(flops, moved, where) - seconds))
    memory = found.pop("memory", None)
    return {**found, "memory": Memory(**memory) if memory else None}
