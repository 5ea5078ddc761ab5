"""apex: its fused layers and optimizers are torch's, and its mixed precision is none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from .optimizers import adamw, sgd


def modules() -> dict[str, Callable[[], dict[str, Any]]]:
    return {
        "apex.amp": lambda: {"initialize": initialize, "scale_loss": scale_loss, "master_params": master_params},
        "apex.optimizers": lambda: {"FusedAdam": adamw("FusedAdam", 0.0), "FusedSGD": sgd("FusedSGD")},
        "apex.normalization": normalization,
        "apex.parallel": lambda: {"DistributedDataParallel": lambda module, *args, **kwargs: module},
    }


def initialize(models: Any, optimizers: Any = None, *args: Any, **kwargs: Any) -> Any:
    return models if optimizers is None else (models, optimizers)


@contextlib.contextmanager
def scale_loss(loss: Any, optimizers: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
    yield loss


def master_params(optimizer: Any) -> Iterator[Any]:
    return (weight for group in optimizer.param_groups for weight in group["params"])


def normalization() -> dict[str, Any]:
    import torch

    found = {"FusedLayerNorm": torch.nn.LayerNorm}
    if hasattr(torch.nn, "RMSNorm"):  # torch 2.4
        found["FusedRMSNorm"] = torch.nn.RMSNorm
    return found
