"""bitsandbytes without bitsandbytes: its layers' classes for `isinstance`, its optimizers, a model's flags."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

from ....runtime.facts.field_tables import version_key
from ...observing.callers import asked_by_script
from .bitsandbytes_weights import HELD
from .optimizers import of_bitsandbytes

FOUR_BITS = ("nf4", "fp4")
# PEFT's, which lets gradients through the embedding and checkpoints activations where the base is quantised.
PREPARING = ("prepare_model_for_kbit_training", "prepare_model_for_int8_training")


def modules() -> dict[str, Callable[[], dict[str, Any]]]:
    return {
        "bitsandbytes": top,
        "bitsandbytes.nn": layers,
        "bitsandbytes.nn.modules": layers,
        "bitsandbytes.optim": of_bitsandbytes,
    }


def top() -> dict[str, Any]:
    found = {"__version__": "0.46.1"}
    return found


def layers() -> dict[str, Any]:
    """Classes whose instances are the layers that `bitsandbytes_weights.hold` has quantised."""
    import torch

    def layer(name: str, kinds: tuple[str, ...]) -> Any:
        class Held(type(torch.nn.Linear)):  # type: ignore[misc]
            def __instancecheck__(cls, instance: Any) -> bool:
                return issubclass(type(instance), torch.nn.Linear) and getattr(instance, HELD, None) in kinds

        return Held(name, (torch.nn.Linear,), {"__doc__": f"A layer that is held in {' or '.join(kinds)}."})

    def parameter(name: str) -> Any:
        return type(name, (torch.nn.Parameter,), {})

    return {
        "Linear4bit": layer("Linear4bit", FOUR_BITS),
        "LinearNF4": layer("LinearNF4", ("nf4",)),
        "LinearFP4": layer("LinearFP4", ("fp4",)),
        "Linear8bitLt": layer("Linear8bitLt", ("int8",)),
        "Params4bit": parameter("Params4bit"),
        "Int8Params": parameter("Int8Params"),
        "StableEmbedding": torch.nn.Embedding,
        "Embedding": torch.nn.Embedding,
    }


def patch_flags() -> None:
    """`model.is_loaded_in_4bit` and `_8bit` tell the script what its base is held in, and PEFT when it prepares it.

    So they do a trainer of TRL before 0.26, which prepares the base by them. Other code of the libraries doesn't see
    them: later releases would cast the adapters to bf16, which the comparison's precision is not.
    """
    import transformers

    prepares = _casts_by_bf16_alone()

    for name, kinds in (("is_loaded_in_4bit", FOUR_BITS), ("is_loaded_in_8bit", ("int8",))):

        def held(self: Any, kinds: tuple[str, ...] = kinds) -> bool:
            frame = sys._getframe(1)
            preparing = frame.f_code.co_name in PREPARING
            preparing |= prepares and str(frame.f_globals.get("__name__", "")).startswith("trl.trainer.")
            return (preparing or asked_by_script()) and self.__dict__.get(HELD) in kinds

        def ignored(self: Any, value: Any) -> None:
            """transformers writes it; what was held says it here."""

        setattr(transformers.PreTrainedModel, name, property(held, ignored))


def _casts_by_bf16_alone() -> bool:
    """Whether TRL casts no adapters but where `args.bf16` is on, which a comparison in float32 switches off."""
    try:
        release = metadata.version("trl")
    except metadata.PackageNotFoundError:
        return False
    return version_key(release) < version_key("0.26")


def patch_availability() -> None:
    """`is_bitsandbytes_available()` is true to the script."""
    import transformers

    for owner in (transformers.utils, transformers.utils.import_utils):
        original = getattr(owner, "is_bitsandbytes_available", None)
        if original is None:
            continue

        @functools.wraps(original)
        def available(*args: Any, original: Any = original, **kwargs: Any) -> bool:
            return asked_by_script() or bool(original(*args, **kwargs))

        owner.is_bitsandbytes_available = available
