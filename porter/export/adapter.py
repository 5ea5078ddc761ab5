"""A PEFT adapter from a checkpoint: adapter_model.safetensors and adapter_config.json, float32, nothing lost."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

from ..runtime.facts.peft_format import peft_config
from .base import Base
from .output import PARTIAL, whole
from .trained import Adapters

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
FILES = (WEIGHTS, CONFIG)


def adapter_bytes(adapters: Adapters) -> int:
    """Bytes of the adapter's tensors."""
    return sum(4 * count for count in _counts(adapters).values())


def write_adapter(adapters: Adapters, base: Base, folder: Path, name: str) -> None:
    """Writes the adapter as PEFT's save_pretrained does, a weight at a time. `name`: the base model's id.

    The config gets its name last: a folder without it is no adapter.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shapes = _shapes(adapters)
    entries: dict[str, dict[str, object]] = {}
    places, at = {}, 0
    for tensor in sorted(shapes):  # by name, as safetensors orders tensors of one dtype
        size = 4 * shapes[tensor][0] * shapes[tensor][1]
        entries[tensor] = {"dtype": "F32", "shape": list(shapes[tensor]), "data_offsets": [at, at + size]}
        places[tensor] = at
        at += size
    header = json.dumps({"__metadata__": {"format": "pt"}, **entries}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    start = 8 + len(header)
    config = peft_config(base.family, base.config, name, adapters.spec, adapters.sites)
    with whole(folder / CONFIG) as beside:
        beside.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        with whole(folder / WEIGHTS) as partial, partial.open("wb") as stream:
            stream.write(struct.pack("<Q", len(header)) + header)
            for site in adapters.sites:
                for tensor, value in adapters.tensors(site).items():
                    stream.seek(start + places[tensor])
                    stream.write(value.astype("<f4", copy=False).data.cast("B"))


def is_interrupted(folder: Path) -> bool:
    """Whether a folder holds nothing but what a `write_adapter` left that was killed, and was again when it went on."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    begun = {f"{CONFIG}{PARTIAL}", f"{WEIGHTS}{PARTIAL}"}
    return names <= begun or (f"{CONFIG}{PARTIAL}" in names and names <= begun | {WEIGHTS})


def _shapes(adapters: Adapters) -> dict[str, tuple[int, int]]:
    shapes = {}
    for site in adapters.sites:
        a, b = (adapters.checkpoint.shape(f"{site.path}/{site.weight}_lora_{x}") for x in "ab")
        inner, outer = math.prod(a[:-1]), math.prod(b[1:]) // site.slots
        for block in site.blocks:
            shapes[f"base_model.model.{block.hf}.lora_A.weight"] = (block.rank, inner)
            shapes[f"base_model.model.{block.hf}.lora_B.weight"] = (outer, block.rank)
    return shapes


def _counts(adapters: Adapters) -> dict[str, int]:
    return {name: math.prod(shape) for name, shape in _shapes(adapters).items()}
