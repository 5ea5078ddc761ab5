"""Which bytes of the output come from where: files, their headers, and pieces to copy or to make.

Unless asked otherwise the output has the base's files with the base's headers, byte for byte: merged tensors keep their
shape and dtype, so nothing else moves.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .base import INDEX, SINGLE, WIDTH, Base, Shard, Stored
from .merging import FLOATS

# Bytes of a piece: enough to read and write at the disk's speed, little enough to hold one a thread.
PIECE = 16 << 20


@dataclass(frozen=True)
class Copy:
    """`count` bytes of `source`, from `start`, to `to` in the output file."""

    source: Path
    start: int
    to: int
    count: int


@dataclass(frozen=True)
class Make:
    """Rows `first : last` of a tensor that is computed, to `to` in the output file.

    `stored` is the base's tensor in `source`; `change` names what it becomes (see `Change`), None converts only.
    """

    source: Path
    stored: Stored
    change: str | None
    goal: str
    first: int
    last: int
    to: int


@dataclass(frozen=True)
class OutFile:
    """An output file: `header`, then `pieces`, `size` bytes in all."""

    name: str
    header: bytes
    pieces: tuple[Copy | Make, ...]
    size: int


@dataclass(frozen=True)
class Layout:
    """The weights' files, and the index as it will be written (None: there is none)."""

    files: tuple[OutFile, ...]
    index: bytes | None

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def plan_layout(
    base: Base,
    changes: Mapping[str, str],
    *,
    dtype: str | None = None,
    trained_dtype: str | None = None,
    max_shard_size: int | None = None,
) -> Layout:
    """The output's files. `changes`: name of a tensor of the base → what is made of it; all others are copied.

    `dtype`: what floating point tensors are stored in ("BF16"), `trained_dtype`: those in `changes` (a whole model's
    own); None: as in the base. `max_shard_size` in bytes splits the files anew. InputError for a tensor that cannot
    be computed with, or is larger than a shard may be.
    """
    goals = {}
    for tensor in base.tensors.values():
        asked = (dtype or trained_dtype) if tensor.name in changes else dtype
        goals[tensor.name] = asked if asked is not None and tensor.dtype in FLOATS else tensor.dtype
        if tensor.name in changes and tensor.dtype not in FLOATS:
            raise InputError(f"{tensor.name} is {tensor.dtype}", base.path, fix="give the model in bfloat16 or float32")
    same = all(goals[tensor.name] == tensor.dtype for tensor in base.tensors.values())
    if same and max_shard_size is None:
        files = tuple(
            _file(shard.name, shard.header, [(shard, t) for t in shard.tensors], changes, goals)
            for shard in base.shards
        )
        index = base.path / INDEX
        return Layout(files, index.read_bytes() if index.exists() else None)
    return _anew(base, changes, goals, max_shard_size)


def _anew(base: Base, changes: Mapping[str, str], goals: Mapping[str, str], limit: int | None) -> Layout:
    """Files with headers of our own: other dtypes, or other sizes."""
    groups: list[list[tuple[Shard, Stored]]] = []
    if limit is None:
        groups = [[(shard, tensor) for tensor in shard.tensors] for shard in base.shards]
        names = [shard.name for shard in base.shards]
    else:
        room = 0
        for shard in base.shards:
            for tensor in shard.tensors:
                size = _size(tensor, goals)
                if not groups or size > room:
                    groups.append([])
                    room = limit
                groups[-1].append((shard, tensor))
                room -= size
        names = [SINGLE] if len(groups) == 1 else [
            f"model-{i:05d}-of-{len(groups):05d}.safetensors" for i in range(1, len(groups) + 1)
        ]  # fmt: skip
    metadata = dict(base.shards[0].metadata) or {"format": "pt"}
    files = []
    for name, group in zip(names, groups, strict=True):
        entries, at = {}, 0
        for _, tensor in group:
            size = _size(tensor, goals)
            entries[tensor.name] = {
                "dtype": goals[tensor.name], "shape": list(tensor.shape), "data_offsets": [at, at + size]
            }  # fmt: skip
            at += size
        text = json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        files.append(_file(name, struct.pack("<Q", len(text)) + text, group, changes, goals))
    index = None
    if len(files) > 1 or (limit is None and (base.path / INDEX).exists()):
        weight_map = {t.name: name for name, group in zip(names, groups, strict=True) for _, t in group}
        total = sum(_size(tensor, goals) for group in groups for _, tensor in group)
        document = {"metadata": {"total_size": total}, "weight_map": weight_map}
        index = (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()
    return Layout(tuple(files), index)


def _size(tensor: Stored, goals: Mapping[str, str]) -> int:
    goal = goals[tensor.name]
    return tensor.nbytes if goal == tensor.dtype else tensor.nbytes // WIDTH[tensor.dtype] * WIDTH[goal]


def _file(
    name: str,
    header: bytes,
    tensors: Sequence[tuple[Shard, Stored]],
    changes: Mapping[str, str],
    goals: Mapping[str, str],
) -> OutFile:
    pieces: list[Copy | Make] = []
    at = len(header)
    for shard, tensor in tensors:
        size = _size(tensor, goals)
        change, goal = changes.get(tensor.name), goals[tensor.name]
        if change is None and goal == tensor.dtype:
            before = pieces[-1] if pieces else None
            if isinstance(before, Copy) and (before.source, before.start + before.count) == (shard.path, tensor.start):
                pieces[-1] = Copy(shard.path, before.start, before.to, before.count + size)
            elif size:
                pieces.append(Copy(shard.path, tensor.start, at, size))
        elif size:
            rows = tensor.shape[0] if len(tensor.shape) > 1 else 1
            width = size // rows
            step = max(1, PIECE // width)
            for first in range(0, rows, step):
                last = min(rows, first + step)
                pieces.append(Make(shard.path, tensor, change, goal, first, last, at + first * width))
        at += size
    return OutFile(name, header, tuple(pieces), at)
