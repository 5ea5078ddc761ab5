"""`merge_and_unload`: the trained adapters added to the weights, as PEFT does it at the end of a script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from .adapters import adapter_state
from .main_process import push_to_hub
from .saving import save_whole, tensors_of


class MergedModel:
    """The whole model with its adapters merged in, to be saved: what PEFT's `merge_and_unload` is used for.

    `unmerged`: the model with its adapters beside the weights, which samples the same tokens up to rounding.
    """

    def __init__(self, model: nnx.Module) -> None:
        self.unmerged = model

    def save_pretrained(self, save_directory: str | Path, **unused: Any) -> None:
        """Writes the merged weights under the names and in the dtype of the base, with its config.json.

        `unused`: how transformers would write them (`safe_serialization`, `max_shard_size`). All processes call this.
        """
        save_whole(self.unmerged, Path(save_directory), _merged(self.unmerged))

    def push_to_hub(self, repo_id: str, **settings: Any) -> str | None:
        """Saves the merged weights into a folder of the repository's name, and uploads it from one host."""
        folder = Path(repo_id.rsplit("/", 1)[-1])
        self.save_pretrained(folder)
        known = {
            name: settings[name] for name in ("private", "revision", "token", "commit_message") if name in settings
        }
        return push_to_hub(folder, repo_id, **known)


def merge_and_unload(model: nnx.Module) -> MergedModel:
    """The model with its adapters merged in: W + scale · B · A in float32, rounded to the weights' dtype.

    ValueError without adapters, and for a quantised base, whose rounding would be merged, too: there,
    `tpu-port export --merged` adds them to the full-precision base instead.
    """
    if getattr(model, "lora", None) is None:
        raise ValueError("this model has no adapters to merge")
    if model.porter.quantization is not None:
        raise ValueError("a quantised base can't be merged into: save the adapter, then tpu-port export --merged")
    return MergedModel(model)


def _merged(model: nnx.Module) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors of the checkpoint with what the adapters add."""
    state = adapter_state(model)
    scales = {block.hf: site.alpha / site.rank for site in model.lora.sites for block in site.blocks}
    left = set(scales)
    for name, tensor in tensors_of(model):
        linear = name.removesuffix(".weight")
        if linear in scales:
            a, b = (state[f"base_model.model.{linear}.lora_{letter}.weight"] for letter in "AB")
            added = scales[linear] * (b.astype(np.float32) @ a.astype(np.float32))
            tensor = (tensor.astype(np.float32) + added).astype(tensor.dtype)
            left.discard(linear)
        yield name, tensor
    if left and jax.process_index() == 0:
        raise ValueError(
            f"the checkpoint has no tensors of these names: {', '.join(sorted(left)[:3])}; save the adapter, then "
            "tpu-port export --merged"
        )
