"""What the text of a compiled program says of its communication between chips."""

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


def _bytes(kind: str, dims: str) -> int:
    bits = _BITS.get(kind) or int("".join(c for c in kind[1:3] if c.isdigit()) or 32)
    count = 1
    for dim in dims.split(","):
        count *= int(dim) if dim else 1
    return count * bits // 8
