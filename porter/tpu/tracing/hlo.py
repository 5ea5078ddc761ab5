"""What XLA:TPU says in text: the collectives of a compiled program, and how much memory one lacks that it refuses."""

from __future__ import annotations

import re

KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")
_BITS = {"pred": 8, "s4": 4, "u4": 4, "bf16": 16, "f16": 16, "f32": 32, "f64": 64, "s64": 64, "u64": 64}
_LINE = re.compile(
    r"^\s*(?:ROOT )?%?\S+ = (?P<type>\(.*?\)|\S+) (?P<kind>" + "|".join(KINDS) + r")(?P<start>-start)?\("
)
_ARRAY = re.compile(r"([a-z]+\d*[a-z\d]*)\[([\d,]*)\]")


def collectives(hlo: str) -> dict[str, dict[str, int]]:
    """Collectives of an optimised HLO module by kind: how many, and the bytes of their results on one device.

    An asynchronous one is counted at its start, whose result is a tuple of operand and result: the largest counts.
    """
    found: dict[str, dict[str, int]] = {}
    for line in hlo.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        sizes = [_bytes(kind, dims) for kind, dims in _ARRAY.findall(match["type"])]
        entry = found.setdefault(match["kind"], {"count": 0, "bytes": 0})
        entry["count"] += 1
        entry["bytes"] += max(sizes, default=0) if match["start"] else sum(sizes)
    return found


# libtpu 0.0.42's two ways to refuse a program: the whole of it, or its temporaries alone.
_SHORT = (
    re.compile(r"Used ([\d.]+)([KMGT])\S* of ([\d.]+)([KMGT])\S* hbm", re.IGNORECASE),
    re.compile(r"temporaries \(([\d.]+)([KMGT])\S*\) exceeds available HBM \(([\d.]+)([KMGT])", re.IGNORECASE),
)
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def out_of_memory(message: str) -> tuple[int, int] | None:
    """Bytes wanted and bytes there are, from the compiler's error; None for an error of another kind."""
    for pattern in _SHORT if "RESOURCE_EXHAUSTED" in message else ():
        if found := pattern.search(message):
            return int(float(found[1]) * _UNITS[found[2].upper()]), int(float(found[3]) * _UNITS[found[4].upper()])
    return None


def _bytes(kind: str, dims: str) -> int:
    bits = _BITS.get(kind) or int("".join(c for c in kind[1:3] if c.isdigit()) or 32)
    count = 1
    for dim in dims.split(","):
        count *= int(dim) if dim else 1
    return count * bits // 8
