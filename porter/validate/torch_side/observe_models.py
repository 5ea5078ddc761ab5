"""Models on the CPU: the substitute's weights in the precision compared, adapters without dropout, bases as held."""

from __future__ import annotations

import functools
from typing import Any

from ...runtime.facts.field_tables import version_key
from ..comparing.configuration import dtype_class
from ..observing.settings import Settings
from ..stand_ins.loading import AUTO_MODELS, patch_adapters, patch_from_pretrained, patch_save_pretrained
from ..stand_ins.substitutes import Substitutes
from . import left_padding
from .causal_masks import cut_causal_masks
from .gpu_libraries.bitsandbytes_weights import asked_in, format_of, hold
from .gpu_libraries.flash_attention import is_asked_for, without_kernels
from .multimodal_means import mean_as_multimodal
from .new_rows import average_new_rows
from .observer_torch import Observer

CPU_ATTENTION = (None, "eager", "sdpa")


def patch_models(settings: Settings, substitutes: Substitutes, observer: Observer) -> None:
    """Models load the substitute, in float32 unless bf16 is compared, on the CPU and with dropout 0.

    A base that bitsandbytes would quantise gets the weights that it would compute with.
    """
    import torch
    import transformers

    pending: list[Any] = []
    dtype_keyword = "dtype" if version_key(transformers.__version__) >= (4, 56, 0) else "torch_dtype"
    depth = 0  # an Auto class loads through its model's own

    def finish(model: Any) -> None:
        nonlocal depth
        depth -= 1
        seeing.loaded(model)
        cut_causal_masks(model)
        mean_as_multimodal(model)
        config = pending.pop() if pending else None
        kind = format_of(config) if config is not None else None
        if kind is None:
            return
        hold(model, config)
        substitutes.note(f"the base is held in {kind} on both sides, the source's by bitsandbytes' formula")
        if kind == "int8":
            substitutes.note("LLM.int8()'s rounding of activations was left out on both sides")
        elif getattr(config, "bnb_4bit_use_double_quant", False):
            substitutes.note("the scales were not quantised again on either side")

    def eager(attention: Any) -> str:
        substitutes.note(f"attention {attention!r} needs a GPU: 'eager' computes the same on the CPU")
        return "eager"

    def adjust(kwargs: dict[str, Any]) -> dict[str, Any]:
        observer.flash |= is_asked_for(kwargs)
        without_kernels(kwargs, substitutes.note)
        nonlocal depth
        depth += 1
        asked = kwargs.get("dtype") or kwargs.get("torch_dtype")  # as transformers prefers them
        if depth == 1:
            release = int(transformers.__version__.split(".")[0])
            observer.loads.append(dtype_class(asked, "checkpoint" if release >= 5 else "float32"))
        quantization = asked_in(kwargs)
        if quantization is not None:
            observer.loads.append("quantised")
            pending[:] = [quantization]
        if kwargs.pop("device_map", None) is not None:
            kwargs["device_map"] = None
        if (attention := kwargs.get("attn_implementation")) not in CPU_ATTENTION:
            kwargs["attn_implementation"] = eager(attention)
        # An Auto class has a from_pretrained of its own, which hands the choice over in the config.
        config: Any = kwargs.get("config")
        if (attention := getattr(config, "_attn_implementation", None)) not in CPU_ATTENTION:
            config._attn_implementation = eager(attention)
        if settings.dtype == "float32":
            older, asked = kwargs.pop("torch_dtype", None), kwargs.pop("dtype", None)
            asked = asked or older
            if asked not in (None, "float32", torch.float32):
                substitutes.note(f"model weights in float32 instead of {str(asked).removeprefix('torch.')}")
            kwargs[dtype_keyword] = torch.float32
        return kwargs

    on_cpu = left_padding.trains_on_cpu(settings.sources[0] if settings.sources else "")
    seeing = left_padding.Seeing(substitutes.note, on_cpu=on_cpu)
    average_new_rows(transformers.PreTrainedModel, substitutes.note)
    patch_from_pretrained(transformers.PreTrainedModel, substitutes, adjust, finish)
    for name in AUTO_MODELS:
        if hasattr(transformers, name):
            patch_from_pretrained(getattr(transformers, name), substitutes, adjust, finish)
    patch_save_pretrained(transformers.PreTrainedModel, substitutes)

    try:
        import peft
    except ImportError:
        return
    patch_save_pretrained(peft.PeftModel, substitutes)
    patch_adapters(peft.PeftModel, substitutes)
    if settings.chance is None:
        without_dropout(peft.LoraConfig, substitutes)
    else:
        own_chance(peft.tuners.lora.layer.LoraLayer, settings.chance)


def own_chance(cls: Any, seed: int) -> None:
    """Adapters start as this seed has it, whatever the script's, and so do all masks that are drawn behind them."""
    import torch

    original, count = cls.reset_lora_parameters, 0

    @functools.wraps(original)
    def reset_lora_parameters(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        with torch.random.fork_rng():
            torch.manual_seed(1_000_003 * seed + count)
            return original(self, *args, **kwargs)

    cls.reset_lora_parameters = reset_lora_parameters


def without_dropout(cls: Any, substitutes: Substitutes) -> None:
    """LoRA configs are made with dropout 0, and remember theirs: two libraries never draw the same masks."""
    original = cls.__post_init__

    @functools.wraps(original)
    def post_init(self: Any) -> None:
        self._porter_dropout = self.lora_dropout
        if self.lora_dropout:
            substitutes.note(f"LoRA dropout 0 instead of {self.lora_dropout} on both sides")
            self.lora_dropout = 0.0
        original(self)

    cls.__post_init__ = post_init
