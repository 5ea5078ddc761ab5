"""A made-up adapter for a script that starts from one that isn't here: the same in both processes.

Nothing here imports torch or JAX.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

RANK, ALPHA = 4, 8
TARGETS = ("q_proj", "v_proj")
SPREAD = 0.05  # of its values: enough that a run without it trains otherwise


def make_adapter(folder: Path, base: Path) -> bool:
    """Write a LoRA adapter for the model in `base`, as PEFT saves it; False where it has no layers of those names."""
    import numpy as np
    from safetensors.numpy import save_file

    tensors = {}
    for name, (outputs, inputs) in sorted(_linears(base)):
        for letter, shape in (("A", (RANK, inputs)), ("B", (outputs, RANK))):
            key = f"base_model.model.{name}.lora_{letter}.weight"
            values = np.random.default_rng(zlib.crc32(key.encode())).normal(0.0, SPREAD, shape)
            tensors[key] = values.astype(np.float32)
    if not tensors:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {
        "base_model_name_or_path": str(base),
        "bias": "none",
        "inference_mode": True,
        "lora_alpha": ALPHA,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": RANK,
        "target_modules": list(TARGETS),
        "task_type": "CAUSAL_LM",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return True


def _linears(base: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Name and shape of the base's layers that get an adapter, from the headers of its files."""
    for file in base.glob("*.safetensors"):
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            entries = json.loads(stream.read(length))
        for name, entry in entries.items():
            linear = name.removesuffix(".weight")
            if linear != name and linear.endswith(TARGETS) and len(entry["shape"]) == 2:
                yield linear, (entry["shape"][0], entry["shape"][1])
