"""A made-up adapter for a script that starts from one that isn't here: the same in both processes.

Nothing here imports torch or JAX.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONFIG = "adapter_config.json"
DEFAULTS: dict[str, Any] = {
    "lora_alpha": 8,
    "lora_dropout": 0.0,
    "peft_type": "LORA",
    "r": 4,
    "target_modules": ["q_proj", "v_proj"],
    "task_type": "CAUSAL_LM",
}
SPREAD = 0.05  # of its values: enough that a run without it trains otherwise


def make_adapter(folder: Path, base: Path, like: Path | None = None) -> list[str]:
    """Write a LoRA adapter for the model in `base`, as PEFT saves it; its layers' names, none where the model has none.

    Rank, scale and layers are those of the adapter_config.json in the folder `like`, where there is one.
    """
    import numpy as np
    from safetensors.numpy import save_file

    config = DEFAULTS | _settings(like) | {"base_model_name_or_path": str(base), "bias": "none", "inference_mode": True}
    tensors, names = {}, set()
    for name, (outputs, inputs) in sorted(_linears(base, config["target_modules"])):
        names.add(name.rpartition(".")[2])
        for letter, shape in (("A", (config["r"], inputs)), ("B", (outputs, config["r"]))):
            key = f"base_model.model.{name}.lora_{letter}.weight"
            values = np.random.default_rng(zlib.crc32(key.encode())).normal(0.0, SPREAD, shape)
            tensors[key] = values.astype(np.float32)
    if not tensors:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(config | {"target_modules": sorted(names)}, indent=2), encoding="utf-8")
    return sorted(names)


def base_of(folder: Path) -> str:
    """The model that the adapter in `folder` is of; "" where its settings don't say."""
    return str(_json(folder / CONFIG).get("base_model_name_or_path") or "")


def _settings(like: Path | None) -> dict[str, Any]:
    """What a made-up adapter keeps of the settings in a folder, of a LoRA alone."""
    found = _json(like / CONFIG) if like is not None and (like / CONFIG).is_file() else {}
    if found.get("peft_type", "LORA") != "LORA":
        return {}
    return {name: found[name] for name in (*DEFAULTS, "use_rslora", "fan_in_fan_out") if found.get(name) is not None}


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _linears(base: Path, targets: Any) -> Iterator[tuple[str, tuple[int, int]]]:
    """Name and shape of the base's layers that get an adapter, from the headers of its files.

    `targets` as PEFT takes them: the ends of names, a pattern of whole names, or all-linear.
    """
    for file in base.glob("*.safetensors"):
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            entries = json.loads(stream.read(length))
        for name, entry in entries.items():
            linear = name.removesuffix(".weight")
            if linear != name and len(entry.get("shape", ())) == 2 and _is_target(linear, targets):
                yield linear, (entry["shape"][0], entry["shape"][1])


def _is_target(name: str, targets: Any) -> bool:
    if targets == "all-linear":
        return "embed" not in name and not name.endswith("lm_head")
    if isinstance(targets, str):
        return re.fullmatch(targets, name) is not None
    return any(name == each or name.endswith(f".{each}") for each in targets)
