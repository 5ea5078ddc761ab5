"""Gradient checkpointing: recompute each decoder layer in the backward pass instead of keeping its activations."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from flax import nnx


def remat(model: nnx.Module) -> nnx.Module:
    """Turn on Tunix's remat per decoder layer (RematConfig.DECODER), after LoRA is in. Returns the model.

    What transformers' gradient_checkpointing does: one checkpoint a decoder layer. Call it after `rt.apply_lora`:
    gemma4's remat drops what a forward pass creates, so adapters made with remat on do not exist, and the other
    families' adapters would land on one device. Every module gets a config of its own, so a reference model that
    shares the old one keeps its own setting (and llama3's is frozen).
    """
    old: Any = model.config
    enum = importlib.import_module(module_of(type(old))).RematConfig
    new = dataclasses.replace(old, remat_config=enum.DECODER)
    for _, module in model.iter_modules():
        if getattr(module, "config", None) is old:
            module.config = new
    return model


def module_of(kind: type) -> str:
    """The Tunix module of a model's class or its ModelConfig's, or of the one that it extends."""
    return next(c.__module__ for c in kind.__mro__ if c.__module__.startswith("tunix."))
