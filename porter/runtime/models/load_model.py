"""`load_model`: a Hugging Face checkpoint as a Tunix model, sharded over a mesh, with the same logits."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ..facts import sidecar
from ..facts.families import family_of, read_family
from ..facts.family import Family, Sizes, rope, text_config
from ..facts.mesh import mesh_problems
from ..facts.stored_formats import base_name
from . import patches, torch_files, weights
from .dtypes import jax_type
from .quantization import Quantization
from .quantized_loading import load_by_weight


@dataclass(frozen=True)
class ModelInfo:
    """Where a model comes from; static, so that it survives qwix, nnx.jit and nnx.clone as `model.porter`.

    `vocabulary`: the rows of its embedding where `resize_vocabulary` has taken some away, else None.
    `generation_json`: what the script has set in its generation_config, as JSON.
    `dtype`, `compute_dtype`: what `load_model` was told, or settled on.
    """

    id: str
    path: str
    family: Family
    config_json: str
    quantization: Quantization | None = None
    vocabulary: int | None = None
    generation_json: str = "{}"
    dtype: str | None = None
    compute_dtype: str | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The contents of the model's config.json."""
        return dict(json.loads(self.config_json))

    @property
    def sizes(self) -> Sizes:
        return self.family.sizes(self.config)


class Buffer(nnx.Variable):
    """A value that is loaded and saved but never trained, as a buffer of a torch module."""


def load_model(
    model_id: str | Path,
    mesh: jax.sharding.Mesh,
    *,
    dtype: Any = None,
    compute_dtype: Any = None,
    revision: str | None = None,
    quantization: Any = None,
    family: str | Path | Family | None = None,
) -> nnx.Module:
    """The Tunix model of a Hub id or a local folder, its weights sharded over `mesh` (axes fsdp and tp).

    `dtype` is the weights' dtype, the checkpoint's when None or "auto"; torch's types and names will do, too; float16
    is bfloat16, in which a TPU computes.
    `compute_dtype` is what the layers compute in where Tunix separates the two (qwen2, qwen3, gemma4); None, and in
    the other families always, means the weights' dtype. `quantization` holds the layers' linears as bitsandbytes does:
    "nf4", "fp4", "int8", or a BitsAndBytesConfig; such a base is frozen. Of one of Unsloth's mirrors in 4 bits
    (`unsloth/mistral-7b-bnb-4bit`) the weights that it was made from are loaded, in nf4. `family` is a model family
    that the porter does not know, or the file of its table, relative to the running script.

    Raises UnknownFamily for an architecture without a table or a setting that Tunix ignores; ValueError for a mesh
    that does not divide a tensor, or a checkpoint with missing, superfluous or quantised tensors, all by name.
    """
    base = base_name(str(model_id))
    if base != str(model_id) and not Path(model_id).is_dir():
        warnings.warn(f"{model_id} holds 4-bit weights of bitsandbytes: {base} is loaded, held in nf4", stacklevel=2)
        model_id, revision, quantization = base, None, "nf4"
    folder = _folder(model_id, revision)
    config = _read_config(folder)
    extra = [] if family is None else [family if isinstance(family, Family) else read_family(_beside_script(family))]
    found = family_of(config, str(model_id), extra)
    missing = [axis for axis in ("fsdp", "tp") if axis not in mesh.shape]
    if missing:
        raise ValueError(f"the mesh has the axes {tuple(mesh.shape)}: Tunix's models need {' and '.join(missing)}")
    problems = mesh_problems(found, config, mesh.shape["fsdp"], mesh.shape["tp"])
    if problems:
        raise ValueError(f"{model_id} does not fit the mesh {dict(mesh.shape)}:\n  " + "\n  ".join(problems))
    headers = weights.read_headers(folder)
    plan = weights.plan(found, config, headers, str(model_id))
    if plan.other:
        below = Counter(".".join(name.split(".")[:2]) for name in plan.other if name != "lm_head.weight")
        for name, count in below.items():
            warnings.warn(f"{model_id}: {count} tensors below {name} are not part of the text model", stacklevel=2)
    dtype = jax_type(dtype)
    dtype = jnp.dtype(dtype if dtype is not None else _checkpoint_dtype(config, folder))
    compute_dtype = jax_type(compute_dtype)
    model_config = tunix_config(found, config, dtype, compute_dtype)
    module = importlib.import_module(found.module + ".model")
    patches.apply(module)

    model_class, asked = getattr(module, found.model_class), Quantization.read(quantization)
    if asked is not None or any(weights.is_torchs(header.file) for header in headers.values()):
        model = load_by_weight(folder, headers, plan, model_class, model_config, found, config, mesh, dtype, asked)
    else:
        from tunix.models import safetensors_loader

        mode = "original" if plan.mixed else "auto"
        arguments = (str(folder), model_class, model_config, plan.key_mapping, mesh, plan.preprocess(), dtype)
        model = safetensors_loader.load_and_create_model(*arguments, mode=mode)
    for tensor in found.tensors(config):
        if tensor.buffer:
            _make_buffer(model, tensor.tunix)
    patches.padding_learns_nothing(model, {**found.table["defaults"], **text_config(config)}.get("pad_token_id"))
    types: Any = {
        "dtype": str(dtype),
        "compute_dtype": None if compute_dtype is None else str(jnp.dtype(compute_dtype)),
    }
    model.porter = ModelInfo(str(model_id), str(folder), found, json.dumps(config), asked, **types)
    sidecar.describe(model)
    return model


def load_reference(model: nnx.Module, mesh: jax.sharding.Mesh) -> nnx.Module | None:
    """The checkpoint of `model` loaded anew, in its types; None for a model with adapters, whose base is the reference.

    So trainers of TRL make themselves a reference: without what was merged into the model, trained or resized since it
    was loaded. GRPOTrainer since 0.19, RLOOTrainer 0.22, DPOTrainer 0.29, KTOTrainer 1.2; before, they copied it.

    ValueError where the model got rows for new tokens, which the checkpoint hasn't: the source ends at one of them.
    """
    if jax.tree.leaves(nnx.state(model, nnx.LoRAParam)):
        return None
    info: ModelInfo = model.porter
    rows = text_config(info.config).get("vocab_size", 0)
    if (info.vocabulary or 0) > rows:
        raise ValueError(
            f"the reference is {info.id} as it is stored, which has {rows} tokens of the model's {info.vocabulary}: "
            "the source ends at the first of the others. Save the resized model, and load that"
        )
    return load_model(
        info.path,
        mesh,
        dtype=info.dtype,
        compute_dtype=info.compute_dtype,
        quantization=info.quantization,
        family=info.family,
    )


def tunix_config(family: Family, config: Mapping[str, Any], dtype: Any, compute_dtype: Any = None) -> Any:
    """Tunix's ModelConfig for the contents of a config.json: the family's [fields], and what they can't say."""
    sizes, text = family.sizes(config), {**family.table["defaults"], **text_config(config)}
    fields: dict[str, Any] = {
        name: text.get(source.removeprefix("config.")) if source.startswith("config.") else sizes.get(source)
        for name, source in family.table["fields"].items()
    }
    module = importlib.import_module(family.module + ".model")
    rotary = rope(config)
    if "rope_theta" in fields:
        fields["rope_theta"] = rotary["rope_theta"]
    special = _SPECIAL.get(family.model_class)
    if special is not None:
        fields.update(special(module, sizes, text, rotary))
    known = {field.name for field in dataclasses.fields(module.ModelConfig)}
    if "param_dtype" in known:
        fields["param_dtype"] = dtype
    if "dtype" in known:
        fields["dtype"] = jnp.dtype(compute_dtype if compute_dtype is not None else dtype)
    elif compute_dtype is not None and jnp.dtype(compute_dtype) != dtype:
        warnings.warn(
            f"Tunix's {family.model_class} computes in its weights' dtype, {dtype}: "
            f"compute_dtype={jnp.dtype(compute_dtype)} has no effect; load the weights in it (dtype=) to compute in it",
            stacklevel=3,
        )
    return patches.config_class(module.ModelConfig)(**fields)


def _gemma(module: Any, sizes: Sizes, text: Mapping[str, Any], rotary: Mapping[str, Any]) -> dict[str, Any]:
    second = "attn_logit_softcapping" in text  # gemma2's table has a default for it, Gemma 1 has no such key
    kinds = tuple(_kind(module, kind) for kind in sizes["kinds"])
    fields = {"attention_types": kinds, "use_post_attn_norm": second, "use_post_ffw_norm": second}
    return fields if second else {"final_logit_softcap": None, **fields}


def _gemma3(module: Any, sizes: Sizes, text: Mapping[str, Any], rotary: Mapping[str, Any]) -> dict[str, Any]:
    pattern = module.GEMMA3_ATTENTION_PATTERN
    kinds = [_kind(module, kind) for kind in sizes["kinds"]]
    if kinds != [pattern[i % len(pattern)] for i in range(len(kinds))]:
        raise ValueError(f"Tunix's Gemma3 has five local layers to a global one; this model has {sizes['kinds']}")
    scales = module.QueryPreAttentionNormalisation
    by_scalar = {
        sizes["embed"] // sizes["heads"]: scales.BY_ONE_OVER_SQRT_EMBED_DIM_DIV_NUM_HEADS,
        sizes["head_dim"]: scales.BY_ONE_OVER_SQRT_HEAD_DIM,
    }
    scalar = text["query_pre_attn_scalar"]
    if scalar not in by_scalar:
        raise ValueError(
            f"query_pre_attn_scalar is {scalar}; Tunix's Gemma3 computes {' or '.join(map(str, by_scalar))}"
        )
    return {
        "query_pre_attn_norm": by_scalar[scalar],
        "local_base_frequency": rotary["local"]["rope_theta"],
        "global_base_frequency": rotary["rope_theta"],
        "local_scale_factor": rotary["local"].get("factor", 1.0),
        "global_scale_factor": rotary.get("factor", 1.0),
    }


def _gemma4(module: Any, sizes: Sizes, text: Mapping[str, Any], rotary: Mapping[str, Any]) -> dict[str, Any]:
    kinds, shared = sizes["kinds"], sizes["kv_shared"]
    last = kinds[: len(kinds) - shared][-2:]
    if shared and last != ("local", "global"):
        # Tunix takes the keys and values of these two layers for all that share them, without looking.
        raise ValueError(f"Tunix's Gemma4 wants a local and a global layer before the shared ones; they are {last}")
    proportional = rotary["rope_type"] == "proportional"
    return {
        "attention_pattern": tuple(_kind(module, kind) for kind in kinds),
        # Tunix truncates layers - fraction * layers; half a layer more keeps rounding errors out of it.
        "frac_shared_layers": (shared - 0.5) / len(kinds) if shared else 0.0,
        "override_kv_shared_ffw_hidden": 2 * sizes["hidden"] if sizes["wide_shared"] else None,
        "global_rope_proportion": rotary.get("partial_rotary_factor", 1.0) if proportional else 1.0,
        "local_base_frequency": rotary["local"]["rope_theta"],
        "global_base_frequency": rotary["rope_theta"],
    }


def _llama3(module: Any, sizes: Sizes, text: Mapping[str, Any], rotary: Mapping[str, Any]) -> dict[str, Any]:
    return {"rope_theta": rotary["rope_theta"], "rope_scaling": patches.rope_scaling(rotary)}


_SPECIAL = {"Gemma": _gemma, "Gemma3": _gemma3, "Gemma4": _gemma4, "Llama3": _llama3}


def _make_buffer(model: nnx.Module, path: str) -> None:
    """Turns the parameter at `path` into a Buffer, which PeftTrainer's optimizer passes over."""
    *above, name = path.split("/")
    module: Any = model
    for step in above:
        module = module[int(step)] if step.isdigit() else getattr(module, step)
    setattr(module, name, Buffer(getattr(module, name).get_value()))


def _kind(module: Any, kind: str) -> Any:
    return module.AttentionType.LOCAL_SLIDING if kind == "local" else module.AttentionType.GLOBAL


def _folder(model_id: str | Path, revision: str | None) -> Path:
    local = Path(model_id).expanduser()
    if local.is_dir():
        return local.resolve()
    if local.is_absolute() or str(model_id).startswith((".", "~")) or str(model_id).count("/") > 1:
        raise FileNotFoundError(f"{model_id} is no folder, and no Hub id either")
    from huggingface_hub import snapshot_download

    found = Path(snapshot_download(str(model_id), revision=revision, allow_patterns=["*.safetensors", "*.json"]))
    if any(found.glob("*.safetensors")) or find_spec("torch") is None:
        return found
    return Path(snapshot_download(str(model_id), revision=revision, allow_patterns=[torch_files.PATTERN, "*.json"]))


def _read_config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.exists():
        adapter = (folder / "adapter_config.json").exists()
        hint = "it is a PEFT adapter: load its base model, then rt.load_adapter" if adapter else "it is no model"
        raise FileNotFoundError(f"{folder} has no config.json: {hint}")
    config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    quantised = config.get("quantization_config")
    if quantised:
        method = quantised.get("quant_method", "quantised")
        raise ValueError(f"{folder} holds {method} weights: load the model they were made from, in bfloat16")
    return config


def _checkpoint_dtype(config: Mapping[str, Any], folder: Path) -> Any:
    text = text_config(config)
    for where in (config, text):
        named = where.get("dtype") or where.get("torch_dtype")
        if named:
            return {"float16": "bfloat16"}.get(name := str(named).removeprefix("torch."), name)
    names = {"F32": "float32", "BF16": "bfloat16", "F16": "bfloat16"}
    return names[next(h.dtype for h in weights.read_headers(folder).values() if h.dtype in names)]


def _beside_script(file: str | Path) -> Path:
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    beside = Path(script).resolve().parent / file if script else Path(file)
    return beside if beside.exists() else Path(file)
