"""What an export has finished, so that it can go on after a kill: `tpu_port_export.json` in the output folder.

It holds a hash of everything that decides the output (base, adapters, options) and, for every finished file, its size
and xxh3 hash. It depends on nothing else, so an interrupted export ends with the same bytes as one that wasn't.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from ..errors import InputError
from ..files import LARGEST_FILE, read_text
from .base import Base
from .merging import Retained
from .output import write_json

NAME = "tpu_port_export.json"
FORMAT = 2
READ = 1 << 20  # bytes at a time: what fits the caches


@dataclass
class Manifest:
    """`job`: the hash of what is exported. `done`: finished files; their tensors with what rounding kept."""

    folder: Path
    job: str
    files: tuple[str, ...]
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    _checked: dict[str, bool] = field(default_factory=dict)

    def finish(self, name: str, retained: Mapping[str, Retained]) -> None:
        """Notes that file `name` is whole, on the disk and under its name."""
        path = self.folder / name
        tensors = {tensor: asdict(kept) for tensor, kept in sorted(retained.items())}
        self._checked[name] = True
        self.done[name] = {"size": path.stat().st_size, "xxh3": content_hash(path), "tensors": tensors}
        self.write()

    def is_done(self, name: str) -> bool:
        """Whether file `name` was finished and is still what it was, byte for byte (read once, when first asked)."""
        if name not in self._checked:
            entry, path = self.done.get(name), self.folder / name
            there = entry is not None and path.is_file() and path.stat().st_size == entry["size"]
            self._checked[name] = bool(there and entry is not None and content_hash(path) == entry["xxh3"])
        return self._checked[name]

    def retained(self) -> dict[str, Retained]:
        return {t: Retained(**kept) for entry in self.done.values() for t, kept in entry["tensors"].items()}

    def write(self) -> None:
        document = {"format": FORMAT, "job": self.job, "files": list(self.files), "done": self.done}
        write_json(self.folder / NAME, document)


def read_manifest(folder: Path, job: str, files: Sequence[str]) -> Manifest:
    """The manifest in `folder` if it is of this job, else a new one (not written yet)."""
    fresh = Manifest(folder, job, tuple(files))
    try:
        document = json.loads(read_text(folder / NAME, LARGEST_FILE))
        if (document["format"], document["job"], document["files"]) == (FORMAT, job, list(files)):
            fresh.done = {name: entry for name, entry in document["done"].items() if name in files}
            if not all({"size", "xxh3"} <= {*entry} for entry in fresh.done.values()):
                raise ValueError("a file without its size or hash")
            fresh.retained()
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"is no manifest of an export ({error})", folder / NAME, fix="move it away") from error
    return fresh


def matches(folder: Path, job: str) -> bool:
    """Whether `folder` holds an export of this very job, finished or not."""
    try:
        return bool(json.loads(read_text(folder / NAME, LARGEST_FILE))["job"] == job)
    except (OSError, ValueError, KeyError, TypeError, InputError, RecursionError):
        return False


def job_hash(base: Base, trained: str, options: Mapping[str, Any]) -> str:
    """A hash of what decides the output. `trained` is a hash of the checkpoint's arrays and how they are applied."""
    shards = [
        (shard.name, shard.size, shard.path.stat().st_mtime_ns, hashlib.sha256(shard.header).hexdigest())
        for shard in base.shards
    ]
    text = json.dumps([FORMAT, base.config, shards, trained, dict(options)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def content_hash(path: Path) -> str:
    """The 128-bit XXH3 of a file: as fast as memory where sha256 would cost as much as the merge itself.

    It finds what went wrong by accident; it is no proof against somebody who wants two files to look the same.
    """
    digest, buffer = xxhash.xxh3_128(), memoryview(bytearray(READ))
    with path.open("rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            digest.update(buffer[:count])
    return digest.hexdigest()
