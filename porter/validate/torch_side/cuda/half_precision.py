"""What a script casts to 16 bits itself stays float32 where float32 is compared.

`if isinstance(module, LoraLayer): module.to(torch.bfloat16)` is written for autocast, which is off then: its layers
could not be given the float32 of those before them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

LEFT_OUT = "float32 instead of the script's own casts to 16 bits"


def keep_float32(note: Callable[[str], None]) -> None:
    """Modules of this process are moved, but neither cast to 16 bits nor made in them; `note` hears of it."""
    import torch

    half = (torch.float16, torch.bfloat16)
    module: Any = torch.nn.Module
    original = module.to

    @functools.wraps(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        kept = tuple(arg for arg in args if not (isinstance(arg, torch.dtype) and arg in half))
        named = {name: value for name, value in kwargs.items() if name != "dtype" or value not in half}
        if len(kept) + len(named) == len(args) + len(kwargs):
            return original(self, *args, **kwargs)
        note(LEFT_OUT)
        return original(self, *kept, **named) if kept or "device" in named else self

    def same(self: Any) -> Any:
        note(LEFT_OUT)
        return self

    module.to, module.half, module.bfloat16 = to, same, same
    for made in {id(cls): cls for cls in vars(torch.nn).values() if isinstance(cls, type)}.values():
        if "__init__" in vars(made) and "dtype" in inspect.signature(made.__init__).parameters:  # type: ignore[misc]
            _make_in_float32(made, half, note)


def _make_in_float32(cls: Any, half: tuple[Any, ...], note: Callable[[str], None]) -> None:
    """`torch.nn.Linear(8, 1, dtype=torch.bfloat16)`, a scorer's head, is given the float32 of its model."""
    original = cls.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("dtype") in half:
            note(LEFT_OUT)
            del kwargs["dtype"]
        original(self, *args, **kwargs)

    cls.__init__ = __init__


def float32_again(model: Any, note: Callable[[str], None]) -> None:
    """Weights of a torch module that a script cast one by one (`parameter.data = parameter.data.half()`) in float32."""
    import torch

    for parameter in model.parameters():
        if parameter.dtype in (torch.float16, torch.bfloat16):
            parameter.data = parameter.data.float()
            note(LEFT_OUT)
