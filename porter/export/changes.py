"""What is made of the base's tensors: adapters added to them, or a whole model's trained values in their place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import InputError
from ..runtime.facts.family import Tensor
from ..runtime.models import torch_files, weights
from .base import Base
from .checkpoint import Checkpoint
from .layout import Make
from .merging import Retained, merge, narrowed
from .trained import Adapters
from .writing import Change

_DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


class Added:
    """A linear's weight plus its adapter's product."""

    reads_base = True

    def __init__(self, b: np.ndarray, a: np.ndarray) -> None:
        self._b, self._a = b, a

    def rows(self, piece: Make, stored: np.ndarray) -> tuple[np.ndarray, Retained]:
        return merge(stored, piece.stored.dtype, piece.goal, self._b[piece.first : piece.last], self._a)


class Replaced:
    """A tensor's values as the checkpoint has them."""

    reads_base = False

    def __init__(self, checkpoint: Checkpoint, tensor: Tensor) -> None:
        self._checkpoint, self._tensor = checkpoint, tensor

    def rows(self, piece: Make, stored: np.ndarray) -> tuple[np.ndarray, Retained]:
        if len(piece.stored.shape) > 1:
            values = _hf_rows(self._checkpoint, self._tensor, piece.first, piece.last)
        else:
            values = self._checkpoint.read(self._tensor.tunix)[np.newaxis]
        flat = np.ascontiguousarray(values.reshape(len(values), -1), np.float32)
        return narrowed(flat, piece.goal), Retained()


def added(base: Base, adapters: Adapters) -> tuple[dict[str, str], Callable[[str], Change]]:
    """Tensor of the base → the linear whose adapter it gets; and the changes by that name.

    InputError unless every adapted linear has its tensor in the base, of the right shape.
    """
    names = {tensor.hf.removesuffix(".weight"): name for name, tensor in fitting(base).tensors.items()}
    missing = sorted(set(adapters.linears) - set(names))
    if missing:
        raise InputError(f"the base has no weight for {', '.join(missing[:8])}", base.path, fix="give the whole model")
    return {names[linear]: linear for linear in adapters.linears}, lru_cache(16)(
        lambda linear: Added(*adapters.delta(linear))
    )


def replaced(base: Base, checkpoint: Checkpoint) -> tuple[dict[str, str], Callable[[str], Change], str]:
    """The base's tensors that a whole model replaces, the changes by name, and the dtype it was trained in.

    InputError unless the checkpoint has every tensor of the base's text model, of the right shape, and no others.
    """
    plan = fitting(base)
    tensors = dict(plan.tensors)
    tied = next((t for t in tensors.values() if t.tunix.endswith("embedder/input_embedding")), None)
    if tied is not None and "lm_head.weight" in plan.other:
        tensors["lm_head.weight"] = tied  # a tied head that the base repeats
    held = set(checkpoint.names)
    missing = sorted({t.tunix for t in tensors.values()} - held)
    if missing:
        raise InputError(
            f"it lacks {', '.join(missing[:8])}{f' and {len(missing) - 8} more' if len(missing) > 8 else ''}",
            checkpoint.path, fix="give the model that was trained as --base",
        )  # fmt: skip
    known = {t.tunix for t in tensors.values()} | {t.tunix for t in plan.absent}
    strangers = sorted(name for name in held - known if "rngs" not in name.split("/"))
    if strangers:
        raise InputError(
            f"{', '.join(strangers[:8])} has no place in the --base model ({base.family.name})", checkpoint.path,
            fix="give the model that was trained as --base",
        )  # fmt: skip
    for tensor in tensors.values():
        if checkpoint.shape(tensor.tunix) != tensor.shape_tunix:
            less = math.prod(checkpoint.shape(tensor.tunix)) < math.prod(tensor.shape_tunix)
            raise InputError(
                f"{tensor.tunix} is {checkpoint.shape(tensor.tunix)}, the base model wants {tensor.shape_tunix}",
                checkpoint.path,
                fix="rows were taken away in training (rt.resize_vocabulary): write it there with rt.save_model"
                if less and "vocab" in tensor.axes
                else "give the model that was trained as --base",
            )
    dtypes = {str(checkpoint.dtype(tensor.tunix)) for tensor in tensors.values()}
    dtype = dtypes.pop() if len(dtypes) == 1 else "float32"
    if dtype not in _DTYPES:
        raise InputError(
            f"its weights are {dtype}", checkpoint.path, fix="only float32, bfloat16 and float16 can be exported"
        )
    changes = {name: name for name in tensors}
    return changes, lambda name: Replaced(checkpoint, tensors[name]), _DTYPES[dtype]


def fitting(base: Base) -> weights.Plan:
    """Which of the base's tensors are which of Tunix's; InputError when they aren't those of its config.json."""
    if not base.shards:
        torchs = any(base.path.glob(torch_files.PATTERN))
        fix = torch_files.WRITE_ANEW if torchs else "give the folder of the whole model"
        raise InputError("holds no *.safetensors", base.path, fix=fix)
    headers: Mapping[str, Any] = {
        tensor.name: weights.Header(tensor.dtype, tensor.shape, shard.name)
        for shard in base.shards
        for tensor in shard.tensors
    }
    try:
        return weights.plan(base.family, base.config, headers, str(base.path))
    except ValueError as error:
        raise InputError(str(error), fix="download the model again, or give the one that was trained") from error


def _hf_rows(checkpoint: Checkpoint, tensor: Tensor, first: int, last: int) -> np.ndarray:
    """Rows `first : last` of the Hugging Face tensor, of the rest of the array no more than its axes need."""
    outer = tensor.split[0]
    per = tensor.shape_hf[0] // outer  # rows of one index of the first factor
    low, high = first // per, math.ceil(last / per)
    where: list[Any] = [slice(None)] * len(tensor.order)
    where[tensor.order.index(0)] = slice(low, high)
    part = checkpoint.read(tensor.tunix, tuple([tensor.slot] * (tensor.slots > 1) + where))
    turned = part.transpose(tuple(np.argsort(tensor.order)))
    rows = turned.reshape((high - low) * per, *tensor.shape_hf[1:])
    return rows[first - low * per : last - low * per]
