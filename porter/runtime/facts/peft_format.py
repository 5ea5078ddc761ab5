"""An adapter as PEFT names and shapes it, from the arrays that Qwix trains. No JAX: exporting needs no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .family import Family
from .lora_targets import Site, resolve
from .peft_targets import LoraSpec, beyond_text, targets_of


def block_mask(site: Site) -> np.ndarray:
    """(rank, slots) of 0 and 1: which rows of B may feed which slice of a fused weight."""
    mask = np.zeros((site.rank, site.slots), np.float32)
    for block in site.blocks:
        mask[block.start : block.start + block.rank, block.slot] = 1
    return mask


def mixes(site: Site, b: np.ndarray) -> bool:
    """Whether B of a fused weight has values outside the blocks of `site`: its linears were trained together."""
    if not site.fused:
        return False
    mask = block_mask(site)
    return bool(np.any(b * (1 - mask.reshape(mask.shape + (1,) * (b.ndim - 2)))))


def peft_tensors(site: Site, a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """PEFT's tensors of one adapted weight: for each linear in it lora_A.weight (r, in) and lora_B.weight (out, r).

    `a` (in..., rank) and `b` (rank, [slots,] out...) as Qwix holds them. Values outside the blocks are not looked at.
    """
    tensors = {}
    for block in site.blocks:
        name, rows = f"base_model.model.{block.hf}", slice(block.start, block.start + block.rank)
        own = b[rows, block.slot] if site.fused else b[rows]
        tensors[f"{name}.lora_A.weight"] = np.ascontiguousarray(a[..., rows].reshape(-1, block.rank).T)
        tensors[f"{name}.lora_B.weight"] = np.ascontiguousarray(own.reshape(block.rank, -1).T)
    return tensors


def peft_config(
    family: Family, config: Mapping[str, Any], base: str, spec: LoraSpec, sites: Sequence[Site]
) -> dict[str, Any]:
    """The adapter_config.json of these adapters (peft/tuners/lora/config.py, 0.21; the rest is default).

    target_modules are the source's own; those that PEFT spells out on saving ("all-linear", its default for an
    architecture), or that would cover a vision tower too, are listed as PEFT would match them here. `base` is the
    model's Hub id or folder, `config` its config.json.
    """
    targets = spec.target_modules
    if targets is None:
        targets = targets_of(family, config, spec)
    if beyond_text(family, config, spec) or (isinstance(targets, str) and targets.lower() == "all-linear"):
        names = sorted(block.hf for site in sites for block in site.blocks)
        leaves = sorted({name.rpartition(".")[2] for name in names})
        plain = replace(spec, target_modules=leaves)
        same = not beyond_text(family, config, plain) and names == sorted(
            block.hf for site in resolve(family, config, plain) for block in site.blocks
        )
        targets = leaves if same else names
    return {
        "base_model_name_or_path": base,
        "bias": "none",
        "exclude_modules": _listed(spec.exclude_modules),
        "inference_mode": True,
        "init_lora_weights": spec.init_lora_weights,
        "layers_pattern": _listed(spec.layers_pattern),
        "layers_to_transform": _listed(spec.layers_to_transform),
        "lora_alpha": int(spec.lora_alpha) if spec.lora_alpha == int(spec.lora_alpha) else spec.lora_alpha,
        "lora_dropout": spec.lora_dropout,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": spec.r,
        "rank_pattern": dict(spec.rank_pattern),
        "alpha_pattern": dict(spec.alpha_pattern),
        "target_modules": _listed(targets),
        "task_type": "CAUSAL_LM",
        "use_dora": False,
        "use_rslora": spec.use_rslora,
    }


def _listed(value: Any) -> Any:
    return sorted(value) if isinstance(value, (list, tuple, set, frozenset)) else value
