"""What an export has finished, so that it can go on after a kill: `tpu_port_export.json` in the output folder.

It holds a hash of everything that decides the output (base, adapters, options) and, for every finished file, its size
and a fingerprint. It depends on nothing else, so an interrupted export ends with the same bytes as one that wasn't.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from .base import Base
from .merging import Retained
from .output import write_json

NAME = "tpu_port_export.json"
FORMAT = 1
# A fingerprint reads SAMPLED bytes at every STRIDE of a file: reading all of it would cost as much as writing it.
SAMPLED = 64 << 10
STRIDE = 16 << 20


@dataclass
class Manifest:
    """`job`: the hash of what is exported. `done`: finished files; their tensors with what rounding kept."""

    folder: Path
    job: str
    files: tuple[str, ...]
    done: dict[str, dict[str, Any]] = field(default_factory=dict)

    def finish(self, name: str, retained: Mapping[str, Retained]) -> None:
        """Notes that file `name` is whole, on the disk and under its name."""
        path = self.folder / name
        tensors = {tensor: asdict(kept) for tensor, kept in sorted(retained.items())}
        self.done[name] = {"size": path.stat().st_size, "fingerprint": fingerprint(path), "tensors": tensors}
        self.write()

    def is_done(self, name: str) -> bool:
        """Whether file `name` was finished and is still what it was."""
        entry, path = self.done.get(name), self.folder / name
        if entry is None or not path.is_file() or path.stat().st_size != entry["size"]:
            return False
        return bool(fingerprint(path) == entry["fingerprint"])

    def retained(self) -> dict[str, Retained]:
        return {t: Retained(**kept) for entry in self.done.values() for t, kept in entry["tensors"].items()}

    def write(self) -> None:
        document = {"format": FORMAT, "job": self.job, "files": list(self.files), "done": self.done}
        write_json(self.folder / NAME, document)


def read_manifest(folder: Path, job: str, files: Sequence[str]) -> Manifest:
    """The manifest in `folder` if it is of this job, else a new one (not written yet)."""
    fresh = Manifest(folder, job, tuple(files))
    try:
        document = json.loads((folder / NAME).read_text(encoding="utf-8"))
        if (document["format"], document["job"], document["files"]) == (FORMAT, job, list(files)):
            fresh.done = {name: entry for name, entry in document["done"].items() if name in files}
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"is no manifest of an export ({error})", folder / NAME, fix="move it away") from error
    return fresh


def matches(folder: Path, job: str) -> bool:
    """Whether `folder` holds an export of this very job, finished or not."""
    try:
        return bool(json.loads((folder / NAME).read_text(encoding="utf-8"))["job"] == job)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def job_hash(base: Base, trained: str, options: Mapping[str, Any]) -> str:
    """A hash of what decides the output. `trained` is a hash of the checkpoint's arrays and how they are applied."""
    shards = [
        (shard.name, shard.size, shard.path.stat().st_mtime_ns, hashlib.sha256(shard.header).hexdigest())
        for shard in base.shards
    ]
    text = json.dumps([FORMAT, base.config, shards, trained, dict(options)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(path: Path) -> str:
    """sha256 of a file's size and of samples all over it."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as stream:
        for at in (*range(0, size, STRIDE), max(0, size - SAMPLED)):
            stream.seek(at)
            digest.update(stream.read(SAMPLED))
    return digest.hexdigest()
