"""`tpu_port.json` beside a run's checkpoints: which model and which adapters the arrays in them belong to.

Tunix saves arrays alone; rank, alpha and what a fused weight holds are in the script. `rt.load_model` and
`rt.apply_lora` describe the model here, `rt.fresh_dir` and `rt.resume_dir` say where checkpoints go, and the file is
written as soon as both are known, whichever a script does first. `tpu-port export` reads it. No JAX in this module.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .lora_targets import Block, Site
from .peft_targets import LoraSpec

NAME = "tpu_port.json"
FORMAT = 1
# Keys of a config.json that say nothing about the weights.
_VOLATILE = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "use_cache")

# The model that the next folder is for (_used: a folder has it already), the last folder, and what was written there.
_model: dict[str, Any] | None = None
_used = False
_folder: Any = None
_written: dict[str, Any] | None = None


def describe(model: Any) -> None:
    """Notes what the process trains: `model.porter`, and `model.lora` where it has adapters.

    Other models may be loaded around it (a reference, one to evaluate): one with adapters goes before one without, and
    what is written is only replaced when the same model gets its adapters afterwards.
    """
    global _model, _used
    info, lora = model.porter, getattr(model, "lora", None)
    new = {
        "format": FORMAT,
        "family": info.family.name,
        "family_table": dict(info.family.table),
        "base": {"id": info.id, "config": info.config, "config_sha256": config_hash(info.config)},
        "lora": None if lora is None else {**asdict(lora.spec), "sites": [asdict(site) for site in lora.sites]},
    }
    if _model is None or _used or lora is not None or _model["lora"] is None:
        _model, _used = new, False
    if _folder is None:
        return
    if _written is None or (_written["lora"] is None and lora is not None and _written["base"] == new["base"]):
        _write(new)


def checkpoints_in(folder: Any) -> None:
    """Notes where the run's checkpoints go (an epath.Path)."""
    global _folder, _written
    _folder, _written = folder, None
    if _model is not None:
        _write(_model)


def read_lora(lora: Mapping[str, Any]) -> tuple[LoraSpec, tuple[Site, ...]]:
    """The spec and the sites of a sidecar's `lora`. KeyError or TypeError when it is not what `describe` wrote."""
    sites = tuple(
        Site(s["path"], s["weight"], s["slots"], tuple(Block(**block) for block in s["blocks"]), s["alpha"])
        for s in lora["sites"]
    )
    return LoraSpec(**{name: value for name, value in lora.items() if name != "sites"}), sites


def config_hash(config: Mapping[str, Any]) -> str:
    """sha256 of a config.json, without what differs between copies of one model."""
    return hashlib.sha256(json.dumps(steady(config), sort_keys=True).encode()).hexdigest()


def steady(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json without the keys that differ between copies of one model, in its parts too."""
    return {
        key: steady(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key not in _VOLATILE
    }


def _write(described: dict[str, Any]) -> None:
    global _used, _written
    _used, _written = True, described
    import jax

    if jax.process_index() == 0:
        _folder.mkdir(parents=True, exist_ok=True)
        # One small write, read only after training: object stores have no rename worth waiting for.
        (_folder / NAME).write_text(json.dumps(described, indent=1, sort_keys=True, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{value!r} cannot be written to {NAME}")
