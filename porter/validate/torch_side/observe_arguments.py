"""Training arguments for this machine: on the CPU, in the precision compared, without reports."""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

from ..observing.settings import Settings
from ..stand_ins.substitutes import Substitutes
from .asked_for import ASKED, keep_asked, keep_turned_off, named_folder, taken_folder
from .cuda.cuda import APPLE
from .gpu_libraries.deepspeed import take_deepspeed
from .gpu_libraries.generation import without_gpu_settings
from .gpu_libraries.torch_optimizers import LION, on_cpu

# What of the arguments a CPU doesn't do, or does without a difference.
ON_A_GPU = (
    *("tf32", "fsdp", "fsdp_config", "fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap", "deepspeed"),
    *("torch_compile", "torch_compile_backend", "torch_compile_mode", "torchdynamo", "use_liger_kernel", "use_ipex"),
    "use_mps_device",
    *("dataloader_num_workers", "dataloader_prefetch_factor", "dataloader_persistent_workers", "sharded_ddp"),
)


def patch_arguments(settings: Settings, substitutes: Substitutes) -> None:
    """Training arguments for this machine: CPU, the precision compared, no reports, outputs below the work folder."""
    import transformers

    original = transformers.TrainingArguments.__post_init__
    known = fields(transformers.TrainingArguments)
    defaults = {each.name: None if each.default is MISSING else each.default for each in known}

    @functools.wraps(original)
    def post_init(self: Any) -> None:
        half = bool(self.bf16 or self.fp16)
        if settings.dtype == "float32":
            if self.bf16 or self.fp16:
                substitutes.note(f"float32 instead of {'bf16' if self.bf16 else 'fp16'} on both sides")
            self.bf16 = self.fp16 = False
            self.bf16_full_eval = self.fp16_full_eval = False
            if "half_precision_backend" in defaults:
                self.half_precision_backend = "auto"
        if getattr(self, "neftune_noise_alpha", None):
            substitutes.note(no_noise(self.neftune_noise_alpha))
            self.neftune_noise_alpha = None
        setattr(self, "use_cpu" if "use_cpu" in defaults else "no_cuda", True)
        self.ddp_backend = "gloo" if "RANK" in os.environ else None
        take_deepspeed(self, substitutes.note, half=half)
        without_gpu_settings(self, substitutes.note)
        if getattr(self, "use_mps_device", False):
            substitutes.note(APPLE)
        for name in ON_A_GPU:
            if name in defaults:
                setattr(self, name, defaults[name])
        keep_asked(self, half=half)
        named = named_folder(self.output_dir)
        self.output_dir = taken_folder(named, substitutes.output(named))
        ASKED[str(self.output_dir)] = self._porter_asked  # a trainer may make its own arguments of these
        self.report_to = "none"
        self.save_strategy = "no"
        if "overwrite_output_dir" in defaults:
            self.overwrite_output_dir = True
        if self.load_best_model_at_end and self.metric_for_best_model is None:
            self.metric_for_best_model = "loss"  # what early stopping compares
        self.load_best_model_at_end = False
        self.dataloader_pin_memory = False
        self.disable_tqdm = True
        self.resume_from_checkpoint = None
        optimizer = str(getattr(self.optim, "value", self.optim))
        plain = on_cpu(optimizer)
        if plain != optimizer:
            substitutes.note(f"optimizer {plain} instead of {optimizer}, which needs a GPU")
            self.optim = plain
        elif re.fullmatch(LION, optimizer):
            substitutes.note(f"Lion with float32 state instead of {optimizer}, which needs a GPU")
        if hasattr(self, "dataset_num_proc"):
            self.dataset_num_proc = None
        averages = getattr(self, "average_tokens_across_devices", None)
        original(self)
        if averages is not None:  # transformers 4.46 to 4.56 turn it off in one process, which a folded source is
            self.average_tokens_across_devices = averages
        keep_turned_off(self)
        self._porter_counts = True  # what follows is a config's own, see `count_folded`

    transformers.TrainingArguments.__post_init__ = post_init
    count_folded(settings.fold)


def count_folded(fold: int) -> None:
    """Configs of trainers that sample divide a step's completions by the `fold` processes that one stands for."""
    import transformers

    alone = transformers.TrainingArguments.world_size.fget
    for kind in ("grpo", "rloo") if fold > 1 else ():
        try:
            config = getattr(importlib.import_module(f"trl.trainer.{kind}_config"), f"{kind.upper()}Config")
        except (ImportError, AttributeError, RuntimeError):
            continue
        if "generation_batch_size" in {each.name for each in fields(config)}:
            config.world_size = property(lambda self: fold if vars(self).get("_porter_counts") else alone(self))
            config.__post_init__ = _counting(config.__post_init__)


def _counting(original: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(original)
    def post_init(self: Any) -> None:
        original(self)
        self._porter_counts, self._porter_counted = False, True

    return post_init


def no_noise(alpha: float) -> str:
    return f"no NEFTune noise instead of neftune_noise_alpha={alpha} on both sides"
