"""`load_trained`: what a training run has saved, loaded again to try it out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
from flax import nnx

from ..models import load_model as models
from . import adapters


def load_trained(
    path: str | Path,
    mesh: jax.sharding.Mesh,
    *,
    dtype: Any = None,
    revision: str | None = None,
    quantization: Any = None,
) -> Any:
    """The model in a folder (or Hub repository): a whole one, or an adapter on the base model that it names.

    As AutoModelForCausalLM.from_pretrained and AutoPeftModelForCausalLM.from_pretrained load either. `dtype`: of the
    (base) model's weights, its checkpoint's when None; `quantization`: of the (base) model, as `rt.load_model` has it.
    """
    folder = Path(path).expanduser()
    if folder.is_dir() and not (folder / "adapter_config.json").exists():
        return models.load_model(path, mesh, dtype=dtype, revision=revision, quantization=quantization)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        patterns = ["adapter_*", "config.json"]
        folder = Path(snapshot_download(str(path), revision=revision, allow_patterns=patterns))
        if not (folder / "adapter_config.json").exists():
            return models.load_model(path, mesh, dtype=dtype, revision=revision, quantization=quantization)
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    base: nnx.Module = models.load_model(
        config["base_model_name_or_path"], mesh, dtype=dtype, quantization=quantization
    )
    return adapters.apply_adapter(base, folder, mesh)
