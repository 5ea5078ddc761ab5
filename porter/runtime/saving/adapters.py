"""Adapters under PEFT's names and in PEFT's shapes: out of a Tunix model, into one, and on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from ..facts.files import read_tensors, to_host, write_json, write_tensors
from ..facts.lora_targets import Block, Site
from ..facts.peft_format import mixes, peft_config, peft_tensors
from ..facts.peft_targets import LoraSpec
from ..hosts import processes as hosts
from ..lora.apply_lora import adapters, apply_peft
from ..models import torch_files


def adapter_state(model: nnx.Module) -> dict[str, np.ndarray]:
    """The adapters under PEFT's tensor names, float32: lora_A.weight (r, in), lora_B.weight (out, r).

    What get_peft_model_state_dict gives. ValueError when linears of a fused weight were trained together (without
    `rt.separate_kv`), which no PEFT adapter can express.
    """
    held = {(path, weight): (a, b) for path, weight, a, b in adapters(model)}
    state = {}
    for site in _sites(model):
        a, b = (to_host(adapter.get_value()) for adapter in held[site.path, site.weight])
        if mixes(site, b):
            raise ValueError(
                f"{site.path}: B mixes {', '.join(block.hf for block in site.blocks)}; put rt.separate_kv(model) first "
                "in the optimizer's chain"
            )
        state.update(peft_tensors(site, a, b))
    return state


def apply_adapter(
    model: nnx.Module,
    adapter: str | Path,
    mesh: jax.sharding.Mesh,
    *,
    seed: int = 42,
    subfolder: str = "",
    revision: str | None = None,
    dropout: bool = True,
) -> nnx.Module:
    """A copy of `model` with the adapters of a PEFT folder or Hub id, to train on: PeftModel.from_pretrained with
    is_trainable=True.

    Rank, scale, targets and dropout come from its adapter_config.json, the weights (float32) from its
    adapter_model.safetensors. `dropout` False leaves its lora_dropout out, as trainers do that disable dropout. Call it
    before `rt.remat`. ValueError for a configuration that has no counterpart, and for weights that don't fit.
    """
    folder = _fetched(adapter, subfolder, revision)
    file = folder / "adapter_config.json"
    if not file.exists():
        raise FileNotFoundError(f"{folder} holds no adapter_config.json: it is no PEFT adapter")
    config = json.loads(file.read_text(encoding="utf-8"))
    return load_adapter(apply_peft(model, config, mesh, seed=seed, dropout=dropout), folder)


def load_adapter(model: nnx.Module, adapter: str | Path | Mapping[str, Any]) -> nnx.Module:
    """Fills the model's adapters from a PEFT adapter: its folder, or tensors under PEFT's names. Returns the model.

    The model must have its adapters (`rt.apply_lora`). ValueError names tensors that are missing or have no place,
    wrong ranks, and (from a folder) a scale alpha/r that is not the model's. Tensors of a vision tower are skipped.
    """
    sites = _sites(model)
    if isinstance(adapter, Mapping):
        where, given = "the adapter", adapter
    else:
        where, given = str(adapter), _read(Path(adapter), sites)
    tensors = {_short(name): np.asarray(value, np.float32) for name, value in given.items() if not _BESIDE.search(name)}
    expected = {f"{_short(b.hf)}.lora_{x}.weight" for site in sites for b in site.blocks for x in "AB"}
    problems = [f"{name} is missing" for name in sorted(expected - set(tensors))]
    problems += [f"{name} has no adapter in the model" for name in sorted(set(tensors) - expected)]
    values: list[tuple[nnx.LoRAParam, np.ndarray]] = []
    held = {(path, weight): (a, b) for path, weight, a, b in adapters(model)}
    for site in sites if not problems else ():
        a, b = held[site.path, site.weight]
        new_a, new_b = (np.zeros(adapter.get_value().shape, np.float32) for adapter in (a, b))
        for block in site.blocks:
            part_a, part_b = (tensors[f"{_short(block.hf)}.lora_{x}.weight"] for x in "AB")
            rows = slice(block.start, block.start + block.rank)
            goal = new_b[rows, block.slot] if site.fused else new_b[rows]
            wanted = (block.rank, new_a[..., 0].size), (goal[0].size, block.rank)
            if (part_a.shape, part_b.shape) != wanted:
                problems.append(f"{block.hf} has A {part_a.shape} and B {part_b.shape}, the model {wanted}")
                continue
            new_a[..., rows] = part_a.T.reshape(*new_a.shape[:-1], block.rank)
            goal[...] = part_b.T.reshape(goal.shape)
        values += [(a, new_a), (b, new_b)]
    if problems:
        more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise ValueError(f"{where} does not fit the model's adapters:\n  " + "\n  ".join(problems[:20]) + more)
    for parameter, value in values:
        parameter.set_value(jax.device_put(value, parameter.get_value().sharding))
    return model


def save_adapter(model: nnx.Module, path: str | Path, tokenizer: Any = None) -> None:
    """Writes the adapters as PEFT does: folder `path` with adapter_model.safetensors (float32) and its config.

    `tokenizer` is saved beside it. All processes must call it; the first one writes.
    """
    hosts.together("rt.save_adapter")
    state = adapter_state(model)
    if jax.process_index() == 0:
        # The config last: a folder without it is no adapter.
        write_tensors(Path(path) / "adapter_model.safetensors", state)
        write_json(Path(path) / "adapter_config.json", adapter_config(model))
        if tokenizer is not None:
            tokenizer.save_pretrained(path)


def adapter_config(model: nnx.Module) -> dict[str, Any]:
    """The adapter_config.json of the model's adapters."""
    sites, info = _sites(model), model.porter
    return peft_config(info.family, info.config, info.id, model.lora.spec, sites)


def _sites(model: nnx.Module) -> tuple[Site, ...]:
    info = getattr(model, "lora", None)
    if info is None:
        raise ValueError("this model has no adapters: call rt.apply_lora first")
    return tuple(info.sites)


# Parts of multimodal models that Tunix's text models don't have, whose adapters text never trains; and the frozen head
# that PEFT saves beside an adapter on lm_head.
_BESIDE = re.compile(r"vision_tower|audio_tower|multi_modal_projector|embed_vision|embed_audio|\.base_layer\.")


def _short(name: str) -> str:
    """A PEFT tensor or module name without what differs between wrappings of the same text model."""
    name = name.removeprefix("base_model.model.").replace(".default.weight", ".weight")
    return re.sub(r"^(?:model\.|language_model\.)+", "", name)


def _fetched(adapter: str | Path, subfolder: str, revision: str | None) -> Path:
    """The folder of an adapter; one on the Hub is downloaded."""
    local = Path(adapter).expanduser()
    if local.is_dir():
        return local / subfolder
    if local.is_absolute() or str(adapter).startswith((".", "~")) or str(adapter).count("/") > 1:
        raise FileNotFoundError(f"{adapter} is no folder, and no Hub id either")
    from huggingface_hub import snapshot_download

    patterns = [f"{subfolder}/adapter_*" if subfolder else "adapter_*"]
    return Path(snapshot_download(str(adapter), revision=revision, allow_patterns=patterns)) / subfolder


def _read(folder: Path, sites: tuple[Site, ...]) -> dict[str, Any]:
    """The tensors of an adapter folder, after its scales were compared with the model's."""
    file = folder / "adapter_model.safetensors"
    torchs = file.with_suffix(".bin")  # of PEFT before 0.6
    if not file.exists() and not torchs.exists():
        raise FileNotFoundError(f"{folder} holds no adapter_model.safetensors")
    config = folder / "adapter_config.json"
    if config.exists():
        spec = LoraSpec.read(json.loads(config.read_text(encoding="utf-8")))
        for site in sites:
            for block in site.blocks:
                _same_scale(folder, spec, site, block)
    if file.exists():
        return dict(read_tensors(file))
    return {name: torch_files.as_numpy(tensor) for name, tensor in torch_files.tensors_in(torchs).items()}


def _same_scale(folder: Path, spec: LoraSpec, site: Site, block: Block) -> None:
    rank, scale = spec.rank_and_scale(block.hf)
    model = site.alpha / site.rank
    if rank == block.rank and not np.isclose(scale, model, rtol=1e-6):
        raise ValueError(f"{folder}: {block.hf} is scaled by {scale:g} (alpha/r), in the model by {model:g}")
