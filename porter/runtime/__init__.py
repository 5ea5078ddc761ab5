"""What ported scripts import: the parts of a GPU recipe that Tunix, Qwix and Optax have no exact counterpart for.

Each name comes from the module that is named after it and is loaded when it is first used, so that a script's
parser answers `--help` without JAX. The package imports nothing else of tpu-port: `--vendor` copies it beside a port.
On a TPU slice of several hosts the import joins the script's processes, see `hosts.connect`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .hosts import connect

_HOMES = {
    "adapters": ("adapter_state", "apply_adapter", "load_adapter", "save_adapter"),
    "batches": ("SFTBatches",),
    "callbacks": ("KeepBest", "load_best"),
    "saving_policy": ("SaveOnlyEvery",),
    "checkpoints": ("fresh_dir", "get_last_checkpoint", "resume_dir"),
    "completions": ("generate",),
    "distillation_batches": ("GKDBatches",),
    "distillation_trainer": ("DistillationTrainer",),
    "dpo_losses": ("dpo_loss",),
    "hooks": ("log_every",),
    "loading": ("load_arguments",),
    "trained": ("load_trained",),
    "leave_one_out": ("RLOOBatches",),
    "lora": (
        "apply_lora",
        "apply_peft",
        "count_parameters",
        "lora_rules",
        "memory_footprint",
        "print_trainable_parameters",
        "separate_kv",
    ),
    "end_tokens": ("bos_eos",),
    "lora_provider": ("PEFT_INIT", "LoraProvider"),
    "loss": ("chunked_token_loss", "model_inputs", "token_loss"),
    "main_process": ("main_print", "push_to_hub"),
    "merging": ("merge_adapter", "merge_and_unload"),
    "metrics_trainer": ("MetricsTrainer",),
    "mixtures": ("get_dataset",),
    "models": ("load_model",),
    "optimizers": ("clip_by_global_norm", "decay_mask", "hf_optimizer", "older_decay_mask"),
    "policy_loss": ("PolicyLoss",),
    "preference_batches": ("CPOBatches", "KTOBatches", "ORPOBatches", "PreferenceBatches"),
    "preference_losses": ("cpo_loss", "kto_loss", "orpo_loss"),
    "preference_trainer": ("PreferenceTrainer", "preference_loss"),
    "attention_blocks": ("attend_in_blocks",),
    "rematerialize": ("remat",),
    "response_masks": ("CompletionOnly", "IgnorePadding", "ResponsesOnly"),
    "results": ("train_result",),
    "rollouts": ("GRPOBatches",),
    "saving": ("save_model",),
    "schedules": ("hf_schedule",),
    "text_generation": ("TextGenerationPipeline",),
    "trainer_batches": ("TrainerBatches",),
    "unsloth_data": ("standardize_data_formats",),
    "unsloth_templates": ("get_chat_template",),
    "vocabulary": ("average_new_rows", "check_vocabulary", "resize_vocabulary", "setup_chat_format"),
    "training_settings": ("evaluate", "metrics_options", "training_config", "training_hooks"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__


connect()
