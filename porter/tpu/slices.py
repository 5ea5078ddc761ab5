"""TPU slices by name: how many chips and hosts, what a chip can do, what it costs. One table, slices.toml."""

from __future__ import annotations

import difflib
import functools
import itertools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..meshes import AXES, parse_mesh

GIB = 2**30
LINK_SHARE = 0.75  # of the links' bandwidth
XLA_SHARE = 1.035  # of the time by FLOPs and bytes; libtpu 0.0.42


@dataclass(frozen=True)
class Price:
    """US dollars for one chip for one hour. Never bare: `source`, `date`, `region` and `kind` (on demand, spot)."""

    usd: float
    kind: str
    region: str
    date: str
    source: str


@dataclass(frozen=True)
class Chip:
    """One chip of a generation. Bandwidths in GB/s; `ici_link_gbps` is one torus axis, both ways; HBM in GiB."""

    generation: str
    title: str
    devices: int
    hbm_gib: float
    bf16_tflops: float
    hbm_gbps: float
    ici_gbps: float
    ici_link_gbps: float
    source: str
    prices: tuple[Price, ...]

    @property
    def alpha(self) -> float:
        """FLOPs a byte over one ICI axis: FSDP is compute-bound above alpha / axes tokens a chip (JAX scaling book)."""
        return self.bf16_tflops * 1e3 / self.ici_link_gbps


@dataclass(frozen=True)
class Slice:
    """A slice as it is asked for (`v5p-8`): `topology` is "2x2x1", `chips` its product, `arguments` for libtpu.

    `hosts`: its VMs, each with a JAX process. `splits_axes`: whether jax.make_mesh takes axes of the topology apart.
    """

    name: str
    chip: Chip
    chips: int
    hosts: int
    topology: str
    topology_name: str
    arguments: Mapping[str, Any]
    splits_axes: bool = False

    @property
    def devices(self) -> int:
        """Devices that JAX shows: what a mesh has to multiply to."""
        return self.chips * self.chip.devices

    @property
    def hbm(self) -> int:
        """HBM of one device in bytes."""
        return int(self.chip.hbm_gib * GIB / self.chip.devices)

    def lays_out(self, *mesh: int) -> bool:
        """Whether jax.make_mesh finds axes of the topology for a mesh, as its search does: the last axis first, whole
        axes of the topology for each, as many as can be."""
        left = [*map(int, self.topology.split("x")), *([self.chip.devices] if self.chip.devices > 1 else [])]
        if self.splits_axes:
            return True
        for size in reversed(mesh):
            chosen = _whole_axes(left, size)
            if chosen is None and size > 1:
                return False
            left = [0 if place in (chosen or ()) else length for place, length in enumerate(left)]
        return True

    @property
    def axes(self) -> int:
        """Torus axes that are longer than one chip, at least 1."""
        return max(1, sum(int(length) > 1 for length in self.topology.split("x")))


def _whole_axes(lengths: Sequence[int], size: int) -> tuple[int, ...] | None:
    """The places of lengths that multiply to `size`, the most of them that do; None without any."""
    for count in range(len(lengths), 0, -1):
        for places in itertools.combinations(range(len(lengths)), count):
            if math.prod(lengths[place] for place in places) == size:
                return places
    return None


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads((Path(__file__).parent / "slices.toml").read_text(encoding="utf-8"))


def names() -> list[str]:
    """Every slice that can be asked for."""
    return [f"{row['prefix']}-{size}" for row in _table().values() for size in row["topologies"]]


def slice_named(name: str) -> Slice:
    """The slice `name`; InputError with the nearest names when there is none."""
    match = re.fullmatch(r"([a-z0-9]+?)-(\d+)", name.strip().lower())
    for generation, row in _table().items():
        if match and match[1] in row["names"] and match[2] in row["topologies"]:
            return _slice(generation, row, match[2])
    near = difflib.get_close_matches(name.strip().lower(), names(), n=3, cutoff=0.3)
    sizes = next((row for row in _table().values() if match and match[1] in row["names"]), None)
    if sizes is not None:
        wanted = int(match[2]) if match else 0
        near = [f"{sizes['prefix']}-{n}" for n in sorted(sizes["topologies"], key=lambda n: abs(int(n) - wanted))[:3]]
    raise InputError(f"there is no TPU slice {name!r}", fix=f"nearest: {', '.join(near or names()[:5])}")


def _slice(generation: str, row: Mapping[str, Any], size: str) -> Slice:
    chips = int(size) // row["cores_a_chip"]
    topology = row["topologies"][size]
    prices = tuple(Price(p["usd"], p["class"], p["region"], str(p["date"]), p["source"]) for p in row.get("price", []))
    chip = Chip(
        generation=generation,
        title=row["title"],
        devices=row["devices_a_chip"],
        hbm_gib=row["hbm_gib"],
        bf16_tflops=row["bf16_tflops"],
        hbm_gbps=row["hbm_gbps"],
        ici_gbps=row["ici_gbps"],
        ici_link_gbps=row["ici_link_gbps"],
        source=row["source"],
        prices=prices,
    )
    lengths = [int(length) for length in topology.split("x")]
    alone = chips <= row.get("one_host_up_to", 0)
    whole = [*lengths, 1, 1][:3]
    bounds = whole if alone else [min(b, n) for b, n in zip(row["host_bounds"], whole, strict=True)]
    arguments = {
        **row["topology_arguments"],
        "chips_per_host_bounds": bounds,
        "num_slices": 1,
        "wrap": [False] * 3,
    }
    hosts = 1 if alone else max(1, -(-chips // row["chips_a_host"]))
    name, splits = f"{row['prefix']}-{size}", row.get("splits_axes", False)
    return Slice(name, chip, chips, hosts, topology, f"{generation}:{topology}", arguments, splits)


def xla_seconds(flops: float, moved: float, where: Slice) -> float:
    """XLA's own time for a device: its FLOPs at the chip's peak and its bytes at the HBM's bandwidth, one after
    the other. It knows nothing of overlap (docs/plan.md)."""
    chip = where.chip
    return XLA_SHARE * (flops / (chip.bf16_tflops * 1e12) + moved / (chip.hbm_gbps * 1e9)) * chip.devices


def link_bandwidth(where: Slice) -> float:
    """Bytes a second that a chip gets over its links, one way."""
    return where.chip.ici_link_gbps * 1e9 / 2 * where.axes * LINK_SHARE


def mesh_of(text: str, wanted: Slice) -> dict[str, int]:
    """`fsdp=4,tp=1` as axes; InputError when it isn't that, or when its product isn't the slice's devices."""
    axes = dict(zip(AXES, parse_mesh(text), strict=True))
    product = axes["fsdp"] * axes["tp"]
    if product != wanted.devices:
        n = wanted.devices
        what = (
            f"{n} chips" if wanted.chip.devices == 1 else f"{wanted.chips} chips of {wanted.chip.devices} devices, {n}"
        )
        fix = f"use one of {', '.join(meshes_of(wanted))}"
        raise InputError(f"the mesh {text} has {product} devices, {wanted.name} has {what}", fix=fix)
    if not wanted.lays_out(axes["fsdp"], axes["tp"]):
        raise InputError(unlaid(text, wanted), fix=f"use one of {', '.join(meshes_of(wanted))}")
    return axes


def unlaid(mesh: str, wanted: Slice) -> str:
    """Why there is no such mesh on a slice."""
    return f"jax.make_mesh can't lay {mesh} out on {wanted.name}: it splits no axis of its {wanted.topology} chips"


def meshes_of(wanted: Slice) -> list[str]:
    """The meshes that a slice has."""
    n = wanted.devices
    sizes = [tp for tp in range(1, n + 1) if n % tp == 0 and wanted.lays_out(n // tp, tp)]
    return [f"fsdp={n // tp},tp={tp}" for tp in sizes]
