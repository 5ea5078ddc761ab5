"""What stands beside a model's weights: config, tokenizer and generation files, copied as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ..errors import InputError
from .base import INDEX, Base
from .output import whole, write_json

_KINDS = (".json", ".txt", ".model", ".jinja", ".tiktoken")
# Of PyTorch checkpoints, of adapters, and of an earlier export.
_NOT = ("adapter_config.json", "tpu_port.json", "tpu_port_export.json", "trainer_state.json")
_TORCH = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def names(base: Base) -> tuple[str, ...]:
    """The files to copy, by name."""
    found = [
        path.name
        for path in base.path.iterdir()
        if path.is_file() and (path.suffix in _KINDS or path.name.startswith("LICENSE"))
    ]
    kept = tuple(sorted(n for n in found if n not in _NOT and n != INDEX and not n.endswith(".index.json")))
    for name in kept:
        _check_inside(base.path, name)
    return kept


def _check_inside(folder: Path, name: str) -> None:
    """InputError for a link to somewhere else: what it names would be handed on with the model. The Hub's cache links
    each file to its `blobs`.
    """
    whole_folder, real = folder.resolve(), (folder / name).resolve()
    blobs = whole_folder.parents[1] / "blobs" if whole_folder.parent.name == "snapshots" else None
    if whole_folder not in real.parents and real.parent != blobs:
        raise InputError(f"is a link out of the model's folder, to {real}", folder / name, fix="put the file there")


def copy(base: Base, folder: Path, dtype: str | None) -> None:
    """Copies them into `folder`; config.json says `dtype` (safetensors' name) where that is not None."""
    for name in names(base):
        if name == "config.json" and dtype is not None:
            write_json(folder / name, _with_dtype(dict(base.config), _TORCH[dtype]))
            continue
        with whole(folder / name) as partial:
            shutil.copyfile(base.path / name, partial)


def _with_dtype(config: dict[str, Any], dtype: str) -> dict[str, Any]:
    """A config.json that says `dtype` in all its parts that say one."""
    config = json.loads(json.dumps(config))
    for part in (config, *(value for value in config.values() if isinstance(value, dict))):
        for key in ("dtype", "torch_dtype"):
            if key in part:
                part[key] = dtype
    return config
