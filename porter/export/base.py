"""The base model's folder: its config, and every tensor's place in its safetensors files, checked before use."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import InputError
from ..files import LARGEST_FILE, is_file, read_text
from ..runtime.facts.families import family_from, family_of
from ..runtime.facts.family import Family, UnknownFamily
from ..safety.model_sizes import check_sizes

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
# Bytes of an element, by safetensors' names. Smaller ones pack several elements into a byte.
WIDTH = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
WIDTH |= {"U64": 8, "U32": 4, "U16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
# What a safetensors reader accepts at most as a header.
LONGEST_HEADER = 100_000_000


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: `start` and `end` are bytes from the file's beginning."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def nbytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Shard:
    """A safetensors file: `header` are its first bytes, up to the data; `tensors` in the order of the data."""

    name: str
    path: Path
    size: int
    header: bytes
    tensors: tuple[Stored, ...]
    metadata: Mapping[str, str]
    seen: tuple[int, ...]  # which file it was when its header was read

    def check(self) -> None:
        """InputError when another file stands in its place, or somebody wrote to it since its header was read."""
        try:
            now = _seen(self.path.stat())
        except OSError:
            now = ()
        if now != self.seen:
            raise InputError("was changed while it was read", self.path, fix="run the same command again")


@dataclass(frozen=True)
class Base:
    """A model's folder. `shards` are in the order of their names; empty when only its config is there."""

    path: Path
    config: Mapping[str, Any]
    family: Family
    shards: tuple[Shard, ...]

    def check(self) -> None:
        """InputError when a shard isn't what it was when it was opened."""
        for shard in self.shards:
            shard.check()

    @property
    def tensors(self) -> dict[str, Stored]:
        return {tensor.name: tensor for shard in self.shards for tensor in shard.tensors}


def open_base(folder: Path, table: Mapping[str, Any] | None = None) -> Base:
    """The model in `folder`, with all headers read and checked. `table`: the family table of a contributed family.

    InputError: no folder or config, an unknown family, a shard that is missing, truncated, or says something else than
    the index does, a tensor that is there twice, an index that leads out of the folder.
    """
    if not folder.is_dir():
        hint = "give the folder it was downloaded to" if str(folder).count("/") == 1 else "give the folder of the model"
        raise InputError("--base is no folder", folder, fix=hint)
    config = read_json(folder / "config.json", "a model has one: give the folder of the model that was trained")
    if "quantization_config" in config:
        raise InputError("its weights are quantised", folder, fix="give the model they were made from")
    check_sizes(config, folder / "config.json")
    try:
        extra = [] if table is None else [family_from(dict(table), "the checkpoint's sidecar")]
        family = family_of(config, str(folder), extra)
    except UnknownFamily as error:
        raise InputError(str(error)) from error
    return Base(folder, config, family, _shards(folder))


def read_json(file: Path, fix: str) -> dict[str, Any]:
    """A JSON object from a file; InputError when it is missing or damaged."""
    try:
        value = json.loads(read_text(file, LARGEST_FILE))
    except FileNotFoundError:
        raise InputError("no such file", file, fix=fix) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"can't be read: {error}", file, fix="download it again") from error
    if not isinstance(value, dict):
        raise InputError("holds no JSON object", file, fix="download it again")
    return value


def _shards(folder: Path) -> tuple[Shard, ...]:
    index = folder / INDEX
    if index.exists():
        weight_map = read_json(index, "").get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
            raise InputError("has no weight_map of names to files", index, fix="download it again")
        names = sorted(set(weight_map.values()))
        for name in names:
            if PurePosixPath(name).name != name or "\\" in name or name in (".", ".."):
                raise InputError(f"names the file {name!r}, outside the folder", index, fix="don't trust this model")
            if not name.endswith(".safetensors"):
                raise InputError(f"names {name!r}, which is no safetensors file", index, fix="convert the model")
    else:
        weight_map, names = None, sorted(path.name for path in folder.glob("*.safetensors"))
        if len(names) > 1 and SINGLE in names:
            raise InputError(f"holds {SINGLE} and {names[0]}, and no index", folder, fix="remove what isn't its own")
    shards = tuple(read_shard(folder / name) for name in names)
    seen: dict[str, str] = {}
    for shard in shards:
        for tensor in shard.tensors:
            if tensor.name in seen:
                raise InputError(
                    f"{tensor.name} is in {seen[tensor.name]} and in {shard.name}", folder, fix="remove one"
                )
            seen[tensor.name] = shard.name
    for name, file in (weight_map or {}).items():
        if seen.get(name) != file:
            where = f"is in {seen[name]}" if name in seen else "is in none of its files"
            raise InputError(f"says that {name} is in {file}; it {where}", index, fix="download the model again")
    if weight_map is not None and (unlisted := sorted(set(seen) - set(weight_map))):
        raise InputError(f"{unlisted[0]} and {len(unlisted) - 1} more tensors are missing in it", index, fix="mend it")
    return shards


def read_shard(path: Path) -> Shard:
    """The header of a safetensors file. InputError when the file is missing, cut off, or contradicts itself."""
    again = "download it again"
    try:
        size = path.stat().st_size
        if not is_file(path):
            raise InputError("is no regular file", path, fix=again)
        with path.open("rb") as stream:
            seen = _seen(os.fstat(stream.fileno()))
            start = stream.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if 8 + length > size or length > LONGEST_HEADER:
                raise InputError("is no safetensors file, or cut off in its header", path, fix=again)
            header = start + stream.read(length)
        entries = json.loads(header[8:], object_pairs_hook=_once)
        metadata = entries.pop("__metadata__", {})
        tensors = sorted((_stored(name, entry, len(header)) for name, entry in entries.items()), key=_order)
    except FileNotFoundError:
        raise InputError("this shard is missing", path, fix="download the model again") from None
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror}", path, fix="check its permissions") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"its header is damaged ({error})", path, fix=again) from error
    at = len(header)
    for tensor in tensors:
        if tensor.start != at:
            raise InputError(f"{tensor.name} doesn't begin where the tensor before it ends", path, fix=again)
        at = tensor.end
    if at != size:
        problem = f"is cut off: {size:,} bytes of {at:,}" if size < at else f"has {size - at:,} bytes too many"
        raise InputError(problem, path, fix=again)
    return Shard(path.name, path, size, header, tuple(tensors), metadata, seen)


def _seen(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _order(tensor: Stored) -> tuple[int, int]:
    return tensor.start, tensor.end


def _stored(name: str, entry: Mapping[str, Any], offset: int) -> Stored:
    begin, end = entry["data_offsets"]
    shape, dtype = tuple(entry["shape"]), entry["dtype"]
    numbers = (begin, end, *shape)
    if not isinstance(dtype, str) or any(type(number) is not int for number in numbers):
        raise ValueError(f"{name} has a shape, a type or offsets that are none")
    if not 0 <= begin <= end or any(size < 0 for size in shape):
        raise ValueError(f"{name} has offsets or a shape below zero, or ends before it begins")
    count = 1
    for size in shape:
        count *= size
    if dtype in WIDTH and count * WIDTH[dtype] != end - begin:
        raise ValueError(f"{name} has {end - begin} bytes, {dtype} {list(shape)} needs {count * WIDTH[dtype]}")
    return Stored(name, dtype, shape, offset + begin, offset + end)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice} is there twice")
    return found
