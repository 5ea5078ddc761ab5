"""Fused, paged and 8-bit optimizers as torch's of the same formula; their 8-bit state is what is not compared."""

from __future__ import annotations

from typing import Any

from .torch_optimizers import lion
from .unknown import Unknown


def adamw(name: str, weight_decay: float) -> Any:
    """torch's AdamW under the name of a library's Adam whose decay stands apart from the gradient.

    `weight_decay` is that library's default. Settings of its own (bits, paging, percentile clipping) are taken.
    """
    import torch

    class Adam(torch.optim.AdamW):
        def __init__(
            self,
            params: Any,
            lr: float = 1e-3,
            betas: tuple[float, float] = (0.9, 0.999),
            eps: float = 1e-8,
            weight_decay: float = weight_decay,
            *args: Any,
            **kwargs: Any,
        ) -> None:
            if weight_decay and not kwargs.get("adam_w_mode", kwargs.get("adamw_mode", True)):
                raise NotImplementedError(
                    f"{name} with a decay inside the gradient is not compared: set adam_w_mode=True"
                )
            super().__init__(params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay)

    Adam.__name__ = Adam.__qualname__ = name
    return Adam


def sgd(name: str) -> Any:
    """torch's SGD."""
    import torch

    class Sgd(torch.optim.SGD):
        def __init__(
            self,
            params: Any,
            lr: float,
            momentum: float = 0.0,
            dampening: float = 0.0,
            weight_decay: float = 0.0,
            nesterov: bool = False,
            *args: Any,
            **kwargs: Any,
        ) -> None:
            super().__init__(
                params, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov
            )

    Sgd.__name__ = Sgd.__qualname__ = name
    return Sgd


def of_bitsandbytes() -> dict[str, Any]:
    """The names of `bitsandbytes.optim`."""
    published = lion()

    class Lion(published):  # type: ignore[misc, valid-type]
        def __init__(
            self,
            params: Any,
            lr: float = 1e-4,
            betas: tuple[float, float] = (0.9, 0.99),
            weight_decay: float = 0.0,
            *args: Any,
            **kwargs: Any,
        ) -> None:
            super().__init__(params, lr=lr, betas=tuple(betas), weight_decay=weight_decay)

    found: dict[str, Any] = {"GlobalOptimManager": GlobalOptimManager}
    for paged in ("", "Paged"):
        for bits in ("", "8bit", "32bit"):
            found[f"{paged}Adam{bits}"] = adamw(f"{paged}Adam{bits}", 0.0)
            found[f"{paged}AdamW{bits}"] = adamw(f"{paged}AdamW{bits}", 1e-2)
            found[f"{paged}Lion{bits}"] = Lion
            found[f"{paged}SGD{bits}"] = sgd(f"{paged}SGD{bits}")
            for name in ("RMSprop", "Adagrad", "LAMB", "LARS", "AdEMAMix"):
                found[f"{paged}{name}{bits}"] = Unknown(f"bitsandbytes.optim.{paged}{name}{bits}")
    return found


class GlobalOptimManager:
    """Which weights keep 32-bit state: all do here."""

    @classmethod
    def get_instance(cls) -> GlobalOptimManager:
        return cls()

    def register_parameters(self, *args: Any, **kwargs: Any) -> None: ...

    def override_config(self, *args: Any, **kwargs: Any) -> None: ...

    def register_module_override(self, *args: Any, **kwargs: Any) -> None: ...
