"""What a port's optimizer was made with: by Optax's own functions, or by the runtime's `hf_optimizer`."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from ...runtime.facts.releases.habits import reads_optim_args

NAMES = (
    "adabelief adadelta adafactor adagrad adam adamax adamaxw adamw adan amsgrad lamb lars lion nadam nadamw "
    "novograd radam rmsprop rprop sgd sm3 yogi"
)
OPTIMIZERS = NAMES.split()
# Of hf_optimizer's names; epsilon where Adam's doesn't count, and PyTorch's own arguments at their defaults.
KINDS = ("adamw", "lion", "rmsprop", "sgd", "adagrad", "adafactor")
EPSILON = {"rmsprop": 1e-8, "adagrad": 1e-10, "adafactor": 1e-30}
ARGUMENTS: dict[str, dict[str, float]] = {
    "sgd": {"momentum": 0, "dampening": 0, "nesterov": 0},
    "rmsprop": {"momentum": 0, "alpha": 0.99, "centered": 0},
    "adagrad": {"lr_decay": 0},
}

Told = Callable[[str, dict[str, Any]], None]


def patch_optax(told: Told, clipped: Callable[[float], None]) -> None:
    """Optax's optimizers tell their name and arguments, clipping by the global norm its threshold."""
    import optax

    for name in OPTIMIZERS:
        if hasattr(optax, name):
            setattr(optax, name, telling(name, getattr(optax, name), told))
    clip = optax.clip_by_global_norm

    @functools.wraps(clip)
    def clip_by_global_norm(max_norm: float) -> Any:
        clipped(max_norm)
        return clip(max_norm)

    optax.clip_by_global_norm = clip_by_global_norm


def telling(name: str, original: Any, told: Told) -> Any:
    """`original`, which tells `name` and all its arguments, after what is made inside it."""

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(*args, **kwargs)
        given.apply_defaults()
        made = original(*args, **kwargs)
        told(name, dict(given.arguments))
        return made

    return make


def of_hf_optimizer(given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and arguments of an `hf_optimizer(...)` as PyTorch's optimizer of that name would show them."""
    wanted = str(getattr(given["name"], "value", given["name"]))
    kind = next((kind for kind in KINDS if kind in wanted), wanted)
    release = given.get("transformers")
    own = arguments_of(given.get("args")) if release is None or reads_optim_args(wanted, release) else {}
    defaults = ARGUMENTS.get(kind, {})
    adam = kind in ("adamw", "lion")
    eps = given.get("eps") if kind == "adamw" else EPSILON.get(kind)
    return kind, {
        "learning_rate": given["schedule"],
        "b1": given.get("b1") if adam else None,
        "b2": given.get("b2") if adam else None,
        "eps": number(own["eps"]) if "eps" in own else eps,
        "weight_decay": given.get("weight_decay", 0.0),
        "mask": given.get("mask"),
        "arguments": {key: number(own.get(key, default)) for key, default in defaults.items()},
    }


def arguments_of(text: Any) -> dict[str, Any]:
    """`optim_args`, "key=value,key=value" or a dict, as a dict."""
    if not isinstance(text, str):
        return dict(text or {})
    return {key: value for key, _, value in (pair.partition("=") for pair in text.replace(" ", "").split(",")) if key}


def number(value: Any) -> float:
    """A number from an argument's text; true and false are 1 and 0."""
    text = str(value).lower()
    return {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}[text] if text.isalpha() else float(text)


def decayed(weight_decay: Any, mask: Any, params: Any) -> list[int] | None:
    """[elements of `params` that decay, all its elements]; None when the mask is one that can't be read."""
    import jax

    sizes = [math.prod(leaf.shape) for leaf in jax.tree.leaves(params)]
    if not weight_decay:
        return [0, sum(sizes)]
    flags = jax.tree.leaves(mask(params) if callable(mask) else mask)
    if mask is None:
        flags = [True] * len(sizes)
    if len(flags) != len(sizes):
        return None
    return [sum(size for size, flag in zip(sizes, flags, strict=True) if flag), sum(sizes)]
