"""A checkpoint of Tunix's PeftTrainer as named arrays: read from its files, without JAX, a model or an accelerator.

Orbax keeps each array under its path in the tree ("layers.0.attn.q_einsum.w_lora_a.value"), in one OCDBT database or in
a zarr folder each, and `_METADATA` says which (orbax-checkpoint 0.5 and later). TensorStore reads both, a slice at a
time; what is on another file system is fetched first (`remote.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore

from ..errors import InputError
from ..files import LARGEST_FILE, read_text
from ..runtime.facts import sidecar
from .remote import Remote

ITEM = "model_params"
# Orbax writes into a folder of this name and renames it when all is there.
UNFINISHED = ".orbax-checkpoint-tmp"


@dataclass(frozen=True)
class Checkpoint:
    """The arrays of one saved step. `described` is the run's sidecar, where there is one.

    `path` is what messages call it; `folder` is where its parameters are on this machine, fetched there if `remote`.
    """

    path: str
    folder: Path
    step: int | None
    described: Mapping[str, Any] | None
    _open: Mapping[str, Any] = field(repr=False)
    remote: Remote | None = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Tunix's parameter paths with slashes ("layers/0/attn/q_einsum/w_lora_a"), sorted."""
        return tuple(self._open)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._open[name].shape)

    def dtype(self, name: str) -> np.dtype[Any]:
        return np.dtype(self._open[name].dtype.numpy_dtype)

    def read(self, name: str, where: Any = ...) -> np.ndarray:
        """An array, or the part of it at `where` (an index as NumPy has it). InputError for damaged or lost chunks."""
        try:
            return np.asarray(self._open[name][where].read().result())
        except ValueError as error:
            raise InputError(f"{name} can't be read: {_first(error)}", self.path, fix="export another step") from error


def open_checkpoint(path: str | Path, step: int | None = None) -> Checkpoint:
    """The checkpoint at `path`: a run's folder (its latest step, or `step`), a step in it, or its parameters.

    A URL (`gs://bucket/run`) is read through fsspec. InputError when there is none, when it is still being written,
    and when it holds no arrays.
    """
    remote = Remote(str(path)) if "://" in str(path) else None
    try:
        return _open_checkpoint(path, remote.folder if remote is not None else Path(path), step, remote)
    except InputError as error:
        if remote is not None and error.path.startswith(str(remote.kept)):
            raise InputError(error.message, remote.said(Path(error.path)), fix=error.fix) from error
        raise


def _open_checkpoint(path: str | Path, folder: Path, step: int | None, remote: Remote | None) -> Checkpoint:
    if not folder.exists():
        raise InputError("no such checkpoint", path, fix="name the folder that the run saved to")
    if not folder.is_dir():
        raise InputError("a checkpoint is a folder", path, fix="name the folder that the run saved to")
    if UNFINISHED in str(folder):
        raise InputError(
            "this checkpoint was never finished, or is still being written", path, fix="export another step"
        )
    if (folder / "_METADATA").exists():
        item = folder
        folder = item.parent if item.name == ITEM else item
    else:
        folder = folder if (folder / ITEM).is_dir() else _step_of(folder, step)
        item = folder / ITEM
    found = int(folder.name) if folder.name.isdigit() else None
    if step is not None and found is not None and found != step:
        raise InputError(f"this is step {found}, not {step}", path, fix="give the run's folder with --step")
    if not (item / "_METADATA").exists():
        whole = folder.exists() and any((folder / name).exists() for name in ("commit_success.txt", ITEM))
        problem = "it is incomplete: its parameters have no _METADATA" if whole else f"it holds no {ITEM}"
        raise InputError(f"{problem}; a step of PeftTrainer has one", folder, fix="export another step")
    if remote is not None and not (item / "commit_success.txt").exists():
        # Object stores rename nothing: Orbax says with this file that all is there.
        raise InputError("it was never finished, or is still being written", folder, fix="export another step")
    described = _sidecar(folder.parent) or _sidecar(folder)
    said = str(item)
    if remote is not None:
        remote.fetch(item)
        said = remote.said(item)
    return Checkpoint(said, item, found, described, _arrays(item), remote)


def _step_of(run: Path, step: int | None) -> Path:
    """The folder of a run's step: `step`, or the latest finished one."""
    finished = sorted(int(child.name) for child in run.iterdir() if child.name.isdigit() and child.is_dir())
    writing = [child.name.partition(UNFINISHED)[0] for child in run.iterdir() if UNFINISHED in child.name]
    if step is None and finished:
        return run / str(finished[-1])
    if step in finished:
        return run / str(step)
    if (str(step) in writing) if step is not None else writing:
        said = f"step {step if step is not None else ', '.join(writing)} was never finished, or is still being written"
        raise InputError(said, run, fix="wait for the run, or export another step")
    if finished:
        raise InputError(f"no step {step}; it has {', '.join(map(str, finished))}", run, fix="choose one of these")
    hint = "this is a Hugging Face folder" if (run / "config.json").exists() else "a run's folder has one per step"
    raise InputError(f"it holds no checkpoint of PeftTrainer: {hint}", run, fix="name the folder it saved to")


def _sidecar(folder: Path) -> Mapping[str, Any] | None:
    file = folder / sidecar.NAME
    if not file.exists():
        return None
    try:
        described = json.loads(read_text(file, LARGEST_FILE))
        if described["format"] != sidecar.FORMAT:
            raise InputError(
                f"it has format {described['format']}", file, fix="export with the tpu-port that trained it"
            )
        return dict(described)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"it is damaged ({_first(error)})", file, fix="remove it and give --rank --alpha") from error


def _arrays(item: Path) -> dict[str, Any]:
    """Path → opened TensorStore array of everything that the item's metadata lists."""
    try:
        metadata = json.loads(read_text(item / "_METADATA", LARGEST_FILE))
        tree = metadata["tree_metadata"].values()
        keys = {_name(entry): ".".join(str(k["key"]) for k in entry["key_metadata"]) for entry in tree}
        if any(re.search(r"[/\\\x00\ud800-\udfff]", key) or set(key) <= {"."} for key in keys.values()):
            raise ValueError("it names arrays outside of its folder")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise InputError(f"its _METADATA can't be read ({_first(error)})", item, fix="export another step") from (error)
    if not keys:
        raise InputError("it holds no arrays", item, fix="was the model trained? A run without LoRA tensors saves none")
    found, pending = {}, dict(_requests(item, keys, metadata))
    for name, request in sorted(pending.items()):
        try:
            found[name] = request.result()
        except ValueError as error:
            raise InputError(f"{name} is missing or damaged: {_first(error)}", item, fix="export another step") from (
                error
            )
    return found


def _requests(item: Path, keys: Mapping[str, str], metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    folder = item.resolve()  # no URL: there `%2e` is a dot, and `?` ends a path
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": 64 << 20}})
    for name, key in keys.items():
        store = (
            {"driver": "ocdbt", "base": {"driver": "file", "path": f"{folder}/"}, "path": key}
            if metadata.get("use_ocdbt", True)
            else {"driver": "file", "path": f"{folder}/{key}/"}
        )
        spec: dict[str, Any] = {"driver": "zarr3" if metadata.get("use_zarr3") else "zarr", "kvstore": store}
        if metadata.get("store_array_data_equal_to_fill_value"):
            spec["fill_missing_data_reads"] = False  # a chunk that is gone must not read as zeros
        yield name, tensorstore.open(spec, read=True, open=True, context=context)


def _name(entry: Mapping[str, Any]) -> str:
    keys = [str(key["key"]) for key in entry["key_metadata"]]
    return "/".join(keys[:-1] if keys[-1] == "value" else keys)


def _first(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
