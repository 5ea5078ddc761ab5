"""Adapters added to the weights, as PEFT's `merge_and_unload` does: the trained ones at the end of a script, and saved
ones before its training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from ..generation.generation_config import generation_config, model_config
from ..models import weights
from .adapters import adapter_state, apply_adapter
from .save_model import save_whole, tensors_of
from .uploads import upload_folder

TYPES = {
    "float16": jnp.float16,
    "half": jnp.float16,
    "bfloat16": jnp.bfloat16,
    "float32": jnp.float32,
    "float": jnp.float32,
    "float64": np.float64,
    "double": np.float64,
}  # by the names that torch and JAX have for them


class MergedModel:
    """The whole model with its adapters merged in, to be saved: what PEFT's `merge_and_unload` is used for.

    `unmerged`: the model with its adapters beside the weights, which samples the same tokens up to rounding. `config`
    and `generation_config` are those of `rt.model_config` and `rt.generation_config`.
    """

    def __init__(self, model: nnx.Module, *, unquantized: bool = False, dtype: Any = None) -> None:
        self.unmerged = model
        self.config, self.generation_config = model_config(model), generation_config(model)
        self._unquantized = unquantized
        self._held = self._dtype = None if dtype is None else np.dtype(dtype)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that the weights are saved in; of the base's own, that of the first of them."""
        return np.dtype(self._dtype or jax.tree.leaves(nnx.state(self.unmerged, nnx.Param))[0].dtype)

    def to(self, *types: Any, **named: Any) -> MergedModel:
        """The model itself, which is saved in the type that is given: JAX's, torch's or a name. A device is no matter.

        Weights are rounded to the type of the merge as they are merged, to this one as they are saved.
        """
        for given in (*types, *named.values()):
            name = str(getattr(given, "name", None) or getattr(given, "__name__", given)).removeprefix("torch.")
            if name in TYPES:
                self._dtype = np.dtype(TYPES[name])
        return self

    def half(self) -> MergedModel:
        """The model itself, to be saved in float16."""
        return self.to(jnp.float16)

    def bfloat16(self) -> MergedModel:
        """The model itself, to be saved in bfloat16."""
        return self.to(jnp.bfloat16)

    def float(self) -> MergedModel:
        """The model itself, to be saved in float32."""
        return self.to(jnp.float32)

    def save_pretrained(self, save_directory: str | Path, **unused: Any) -> None:
        """Writes the merged weights under the names of the base, in its dtype or that of `to`, with its config.json.

        `unused`: how transformers would write them (`safe_serialization`, `max_shard_size`). All processes call this.
        """
        tensors = _merged(self.unmerged, self._unquantized, self._held)
        if (dtype := self._dtype) is not None:
            tensors = ((name, value.astype(dtype)) for name, value in tensors)
        save_whole(self.unmerged, Path(save_directory), tensors, dtype)

    def push_to_hub(self, repo_id: str, **settings: Any) -> str | None:
        """Uploads the merged weights from one host; all processes call this."""
        known = {
            name: settings[name] for name in ("private", "revision", "token", "commit_message") if name in settings
        }
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return upload_folder(folder, repo_id, **known)


def merge_and_unload(model: nnx.Module, *, unquantized: bool = False, dtype: Any = None) -> MergedModel:
    """The model with its adapters merged in: W + scale · B · A in float32, rounded to the weights' dtype.

    With `dtype` it is rounded to that, and the base is merged in that type though the model holds it in another: what
    is the checkpoint's, rounded, is taken from the checkpoint. So a GPU run merges that loads float32 and multiplies
    in bfloat16.

    A base that is held in 4 or 8 bits is what the adapters were trained on: they are added to the weights that its
    codes stand for, and the sum is written in the dtype of the other weights. PEFT rounds it to 4 or 8 bits again.
    With `unquantized` they are added to the checkpoint's own weights, as Unsloth from 2025.6 on and `tpu-port export
    --merged` do. ValueError without adapters.
    """
    if getattr(model, "lora", None) is None:
        raise ValueError("this model has no adapters to merge")
    return MergedModel(model, unquantized=unquantized, dtype=dtype)


def merge_adapter(
    model: nnx.Module, adapter: str | Path, mesh: jax.sharding.Mesh, *, subfolder: str = "", revision: str | None = None
) -> nnx.Module:
    """`model` with a saved adapter merged into its weights, to train from there: PeftModel.from_pretrained(model,
    adapter).merge_and_unload().

    W + scale · B · A in float32, rounded to the weights' dtype. ValueError for a quantised base, and as
    `rt.apply_adapter` has them. Call it before `rt.apply_lora`.
    """
    if getattr(model, "lora", None) is not None:
        raise ValueError("merge the saved adapter before new ones are put in")
    if model.porter.quantization is not None:
        raise ValueError("a quantised base can't be merged into: load it in full precision")
    adapted = apply_adapter(model, adapter, mesh, subfolder=subfolder, revision=revision, dropout=False)
    state, scales, info = adapter_state(adapted), _scales(adapted), model.porter
    plan = weights.plan(info.family, info.config, weights.read_headers(Path(info.path)), info.id)
    held = dict(nnx.to_flat_state(nnx.state(model, nnx.Param)))
    names = {"/".join(map(str, path)): path for path in held}
    for name, tensor in plan.tensors.items():
        linear = name.removesuffix(".weight")
        if linear not in scales:
            continue
        a, b = (state[f"base_model.model.{linear}.lora_{letter}.weight"] for letter in "AB")
        path = names[tensor.tunix]
        old = held[path].get_value()
        added = weights.to_tunix(tensor, scales.pop(linear) * (b @ a))
        part = old[tensor.slot] if tensor.slots > 1 else old
        new = (part.astype(jnp.float32) + added).astype(old.dtype)
        new = old.at[tensor.slot].set(new) if tensor.slots > 1 else new
        held[path] = held[path].replace(jax.device_put(new, old.sharding))
    if scales:
        raise ValueError(f"the checkpoint has no tensors of these names: {', '.join(sorted(scales)[:3])}")
    nnx.update(model, nnx.from_flat_state(held))
    return model


def _scales(model: nnx.Module) -> dict[str, float]:
    """alpha / rank by the linears that have adapters, under the checkpoint's names."""
    return {block.hf: site.alpha / site.rank for site in model.lora.sites for block in site.blocks}


def _merged(model: nnx.Module, unquantized: bool, dtype: np.dtype[Any] | None) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors of the checkpoint with what the adapters add, in their types, or in one."""
    state, scales = adapter_state(model), _scales(model)
    left = set(scales)
    for name, tensor in tensors_of(model, unquantized=unquantized, unrounded=dtype is not None):
        linear = name.removesuffix(".weight")
        if linear in scales:
            a, b = (state[f"base_model.model.{linear}.lora_{letter}.weight"] for letter in "AB")
            added = scales[linear] * (b.astype(np.float32) @ a.astype(np.float32))
            tensor = (tensor.astype(np.float32) + added).astype(dtype or tensor.dtype)
            left.discard(linear)
        yield name, tensor
    if left and jax.process_index() == 0:
        raise ValueError(
            f"the checkpoint has no tensors of these names: {', '.join(sorted(left)[:3])}; save the adapter, then "
            "tpu-port export --merged"
        )
