"""Optimizers that want a GPU, by ones that compute the same on a CPU: their 8-bit state is what is not compared."""

from __future__ import annotations

import functools
import re
from typing import Any

IN_TORCH = {
    r"(paged_)?adamw_(bnb_|torch_)?(8bit|4bit|32bit)|adamw_torch_(xla|npu_fused)": "adamw_torch",
    r"rmsprop_bnb(_8bit|_32bit)?": "rmsprop",
}
LION = r"(paged_)?lion_(8bit|32bit)"  # bitsandbytes' alone, so that `patch_lion` has to bring one
NEEDS_GPU = r"8bit|4bit|paged|bnb|ademamix"


def on_cpu(name: str) -> str:
    """What `optim=name` becomes here. ValueError when no optimizer of this machine computes the same."""
    for pattern, plain in IN_TORCH.items():
        if re.fullmatch(pattern, name):
            return plain
    if re.search(NEEDS_GPU, name) and not re.fullmatch(LION, name):
        raise ValueError(
            f"optim={name!r} needs a GPU and has no counterpart on the CPU: this source can't be run here, so it "
            "can't be compared; give it another optimizer for the comparison, and the port the same"
        )
    return name


def patch_lion() -> None:
    """transformers takes Lion from bitsandbytes, which has no CPU; here it gets the published update rule."""
    import transformers

    original = transformers.Trainer.get_optimizer_cls_and_kwargs

    @functools.wraps(original)
    def choose(args: Any, *model: Any) -> Any:  # before transformers 4.39 it is asked without the model
        if re.fullmatch(LION, str(getattr(args.optim, "value", args.optim))):
            return lion(), {"lr": args.learning_rate, "betas": (args.adam_beta1, args.adam_beta2)}
        return original(args, *model)

    transformers.Trainer.get_optimizer_cls_and_kwargs = staticmethod(choose)


def lion() -> Any:
    """Lion (Chen et al. 2023, algorithm 2) as a torch optimizer: the sign of a momentum, decay apart from it."""
    import torch

    class Lion(torch.optim.Optimizer):
        def __init__(self, params: Any, lr: float, betas: tuple[float, float], weight_decay: float = 0.0) -> None:
            super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                b1, b2 = group["betas"]
                for weight in group["params"]:
                    if weight.grad is None:
                        continue
                    momentum = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.add_(torch.lerp(weight.grad, momentum, b1).sign_(), alpha=-group["lr"])
                    momentum.lerp_(weight.grad, 1 - b2)

    return Lion
