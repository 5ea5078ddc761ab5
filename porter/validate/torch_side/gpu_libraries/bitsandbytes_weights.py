"""A torch model with the weights that bitsandbytes would compute with: quantised and dequantised by its formulas.

The source of a comparison runs without bitsandbytes, whose library may be missing and whose int8 products round the
activations too. Its base gets the same values as plain weights, which tests/validate/test_bitsandbytes_weights.py
compares with bitsandbytes' own, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....runtime.facts.field_tables import version_key

BLOCK = 64
HELD = "_porter_held"  # on the model and on each layer that was quantised: its format
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
FP4_MAGNITUDES = (0.0052083334885537624, 1 / 6, 0.25, 1 / 3, 0.5, 2 / 3, 1.0)
FP4 = (*(-value for value in reversed(FP4_MAGNITUDES)), 0.0, *FP4_MAGNITUDES)


def format_of(config: Any) -> str | None:
    """`nf4`, `fp4` or `int8` for a BitsAndBytesConfig; None when the installed transformers doesn't quantise by it.

    From 4.38 on one that asks for neither 4 nor 8 bits is taken for 4 (`AutoHfQuantizer.from_config`).
    """
    import transformers

    if isinstance(config, dict):
        config = transformers.BitsAndBytesConfig(**config)
    if getattr(config, "load_in_8bit", False):
        return "int8"
    asks = getattr(config, "load_in_4bit", None)
    anyway = asks is not None and version_key(transformers.__version__) >= (4, 38)
    return str(config.bnb_4bit_quant_type) if asks or anyway else None


def asked_in(kwargs: dict[str, Any]) -> Any:
    """The quantization config that the keywords of a `from_pretrained` ask for, or None; they are taken out.

    transformers 4 makes one of `load_in_4bit=True` and whatever of its fields stands beside it.
    """
    import transformers

    quantization = kwargs.pop("quantization_config", None)
    bits = {name: kwargs.pop(name) for name in ("load_in_4bit", "load_in_8bit") if name in kwargs}
    if quantization is not None or not any(bits.values()):
        return quantization
    fields = vars(transformers.BitsAndBytesConfig(**bits))
    more = {name: kwargs.pop(name) for name in [*kwargs] if name in fields}
    return transformers.BitsAndBytesConfig(**bits, **more)


def hold(model: Any, config: Any) -> None:
    """Replaces the weight of every layer that transformers would hand to bitsandbytes."""
    import torch

    kind = format_of(config)
    converted = which_converted(model, getattr(config, "llm_int8_skip_modules", None))
    with torch.no_grad():
        for name, module in model.named_modules():
            if kind is not None and isinstance(module, torch.nn.Linear) and converted(name):
                module.weight.copy_(held(module.weight, kind))
                object.__setattr__(module, HELD, kind)
    object.__setattr__(model, HELD, kind)


def held_format(model: Any) -> str | None:
    """The format in which `model`, adapters and all, holds its base; None for plain weights."""
    formats = (module.__dict__[HELD] for module in model.modules() if HELD in module.__dict__)
    return next(formats, None)


def which_converted(model: Any, skip: list[str] | None) -> Callable[[str], bool]:
    """Whether transformers hands the linear layer of that name to bitsandbytes, in the release that is installed."""
    try:
        from transformers.quantizers.base import HfQuantizer
        from transformers.quantizers.quantizers_utils import should_convert_module
    except ImportError:  # before 4.5x
        whole = list(skip) if skip is not None else list(_keys_to_not_convert()(model))
        # A layer of that name, or below a module of that name.
        return lambda name: not any(key == name.split(".")[-1] or key in name for key in whole)
    kept = HfQuantizer.get_modules_to_not_convert(model, skip, model._keep_in_fp32_modules)
    return lambda name: bool(should_convert_module(name, kept))


def _keys_to_not_convert() -> Callable[[Any], list[str]]:
    """transformers' own of before 4.5x."""
    import builtins

    import torch

    builtins.torch = torch  # type: ignore[attr-defined]  # 4.41 annotates with it, and imports it beside bitsandbytes only
    try:
        from transformers.integrations.bitsandbytes import get_keys_to_not_convert
    except ImportError:  # before 4.33
        from transformers.utils.bitsandbytes import get_keys_to_not_convert
    finally:
        del builtins.torch  # type: ignore[attr-defined]
    return get_keys_to_not_convert


def held(weight: Any, kind: str) -> Any:
    """The (out, in) weight after quantising it to `kind` and back, in its own dtype."""
    import torch

    if kind == "int8":
        exact = weight.to(torch.float16).float()
        largest = exact.abs().amax(dim=1, keepdim=True)
        return (torch.round(exact * (127.0 / largest.clamp(min=1e-38))) * (largest / 127.0)).to(weight.dtype)
    book = torch.tensor(NF4 if kind == "nf4" else FP4, dtype=torch.float32)
    flat = weight.float().reshape(-1)
    blocks = torch.nn.functional.pad(flat, (0, -len(flat) % BLOCK)).reshape(-1, BLOCK)
    largest = blocks.abs().amax(dim=1, keepdim=True)
    scaled = blocks * (1.0 / largest.clamp(min=1e-38))
    codes = torch.bucketize(scaled, (book[:-1] + book[1:]) / 2)
    return (book[codes] * largest).reshape(-1)[: len(flat)].reshape(weight.shape).to(weight.dtype)
