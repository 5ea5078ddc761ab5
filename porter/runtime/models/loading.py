"""How TRL loads a model that the trainer gets by name."""

from __future__ import annotations

import sys
from typing import Any

import jax.numpy as jnp

from ..facts.field_tables import version_key
from ..facts.releases.habits import fills_type
from .dtypes import jax_type
from .quantization import Quantization

# Choices among PyTorch implementations and ways to fetch files: the weights are the same.
_IDLE = {
    "attn_implementation", "device_map", "experts_implementation", "low_cpu_mem_usage", "max_memory",
    "offload_folder", "token", "use_cache", "use_kernels", "use_safetensors",
}  # fmt: skip


def weight_types(dtype: Any, *, masters: Any) -> dict[str, Any]:
    """Arguments of rt.load_model: `dtype` as it is, or float32 weights and bfloat16 products where `masters` is true.

    So DeepSpeed and FSDP train in mixed precision: weights that were loaded in bfloat16 are updated in float32.
    """
    return {"dtype": jnp.float32, "compute_dtype": jnp.bfloat16} if masters else {"dtype": dtype}


def load_arguments(
    training_args: Any, transformers: str | None = None, *, sharded: bool = False, frozen: bool = False
) -> dict[str, Any]:
    """Arguments of rt.load_model that follow from an SFTConfig, as SFTTrainer reads them for a model's name.

    `dtype`: the weights' dtype from `model_init_kwargs`, float32 when it isn't given there (TRL's default, not
    transformers', which ORPOTrainer, CPOTrainer and TRL before 0.27 take), the checkpoint's for "auto" or None; with
    transformers before 5, which `transformers` or the arguments' own release says, None and its default are float32.
    `torch_dtype` loses to a `dtype`, be it the one that TRL fills in.
    DeepSpeed and FSDP, which the arguments or `sharded` say, train float32 weights in mixed precision, unless `frozen`
    below adapters.
    `compute_dtype`: bfloat16 for `bf16` and `fp16`, which autocast on a GPU. `revision` from `model_init_kwargs`, and
    `quantization` where it asks for one.

    ValueError for an argument of from_pretrained without a counterpart, by name.
    """
    given = dict(training_args.model_init_kwargs or {})
    release = transformers or getattr(training_args, "of_transformers", None)
    unset = "float32" if release is not None and version_key(release) < (5,) else "auto"
    left_alone = type(training_args).__name__ in ("ORPOConfig", "CPOConfig")
    filled = fills_type(getattr(training_args, "of_trl", None), left_alone=left_alone)
    older = given.pop("torch_dtype", None)
    default = unset if left_alone and training_args.model_init_kwargs is None else filled
    asked = given.pop("dtype", default or None)
    if older and asked and "dtype" not in training_args.model_init_kwargs and jax_type(older) != jax_type(asked):
        said = (
            f"model_init_kwargs: torch_dtype={older} has no effect, as TRL fills in dtype={asked!r}; write dtype for it"
        )
        print(said, file=sys.stderr)
    dtype = asked or older or unset
    revision = given.pop("revision", None)
    given.pop("trust_remote_code", None)  # Tunix has the families that it has, by their own code
    keywords = {name: given.pop(name, None) for name in ("load_in_4bit", "load_in_8bit")}
    quantization = Quantization.read(given.pop("quantization_config", None) or keywords)
    unknown = sorted(name for name in set(given) - _IDLE if given[name] is not None)
    if unknown:
        raise ValueError(f"model_init_kwargs: {', '.join(unknown)} can't be handed to rt.load_model")
    halved = training_args.bf16 or training_args.fp16
    if halved and not frozen and (sharded or training_args.deepspeed or training_args.fsdp):
        dtype = "float32"
    found = {
        "dtype": jax_type(dtype),
        "compute_dtype": jnp.bfloat16 if halved else None,
        "revision": revision,
    }
    return {**found, "quantization": quantization} if quantization is not None else found
