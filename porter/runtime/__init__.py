"""What ported scripts import: the parts of a GPU recipe that Tunix, Qwix and Optax have no exact counterpart for.

Each name comes from the module that is named after it and is loaded when it is first used, so that a script's
parser answers `--help` without JAX. The package imports nothing else of tpu-port: `--vendor` copies it beside a port.
On a TPU slice of several hosts the import joins the script's processes, see `hosts.processes.connect`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .hosts.processes import connect

_HOMES = {
    "saving.adapters": ("adapter_state", "apply_adapter", "load_adapter", "save_adapter"),
    "batches.sft_batches": ("SFTBatches",),
    "callbacks": ("KeepBest", "load_best"),
    "saving.saving_policy": ("SaveOnlyEvery",),
    "saving.checkpoints": ("fresh_dir", "get_last_checkpoint", "resume_dir"),
    "generation.chat_format": ("setup_chat_format",),
    "generation.completions": ("generate", "manual_seed"),
    "generation.generation_config": ("generation_config", "model_config"),
    "generation.outputs": ("causal_lm_output",),
    "distillation.distillation_batches": ("GKDBatches",),
    "distillation.distillation_trainer": ("DistillationTrainer",),
    "losses.dpo_losses": ("dpo_loss",),
    "training.epochs": ("EvaluationLosses", "train_epoch"),
    "training.hooks": ("log_every",),
    "settings.intervals": ("interval",),
    "models.loading": ("load_arguments", "weight_types"),
    "saving.load_trained": ("load_trained",),
    "rollouts.leave_one_out": ("RLOOBatches",),
    "lora.apply_lora": (
        "apply_lora",
        "apply_peft",
        "count_parameters",
        "lora_rules",
        "memory_footprint",
        "print_trainable_parameters",
        "renew_adapters",
        "separate_kv",
    ),
    "rows.end_tokens": ("bos_eos",),
    "rows.tokenizer_setup": ("special_tokens_map",),
    "rows.tokenizers_of_4": ("as_transformers_4", "as_transformers_5_0", "as_transformers_5_3"),
    "lora.disabled": ("disable_adapter",),
    "lora.lora_provider": ("PEFT_INIT", "LoraProvider"),
    "losses.token_loss": ("chunked_token_loss", "model_inputs", "token_loss"),
    "saving.gguf": ("save_gguf",),
    "saving.main_process": ("main_print",),
    "saving.merging": ("merge_adapter", "merge_and_unload"),
    "saving.metrics_files": ("log_metrics", "save_metrics"),
    "training.metrics_trainer": ("MetricsTrainer",),
    "facts.releases.mistral_means": ("mean_over", "undivided"),
    "settings.mixtures": ("get_dataset",),
    "models.load_model": ("load_model", "load_reference"),
    "training.optimizers": (
        "adamw_hf",
        "fused",
        "clip_by_global_norm",
        "decay_mask",
        "decay_mask_but",
        "hf_optimizer",
        "older_decay_mask",
    ),
    "losses.policy_loss": ("PolicyLoss",),
    "preferences.kto_batches": ("KTOBatches",),
    "preferences.preference_batches": ("PreferenceBatches",),
    "losses.preference_losses": ("cpo_loss", "kto_loss", "orpo_loss"),
    "preferences.preference_trainer": ("PreferenceTrainer", "preference_loss"),
    "preferences.text_pair_batches": ("CPOBatches", "ORPOBatches"),
    "models.attention_blocks": ("attend_in_blocks",),
    "models.rematerialize": ("remat",),
    "rows.stacking": ("stack_rows",),
    "rows.response_masks": ("CompletionOnly", "IgnorePadding", "OwnLabels", "ResponsesOnly"),
    "training.start_anew": ("start_anew",),
    "training.train_result": ("train_result",),
    "rollouts.grpo_batches": ("GRPOBatches",),
    "saving.save_model": ("save_model",),
    "saving.uploads": ("push_to_hub",),
    "training.schedules": ("hf_schedule",),
    "generation.text_generation": ("TextGenerationPipeline",),
    "batches.trainer_batches": ("TrainerBatches",),
    "rows.unsloth_data": ("standardize_data_formats",),
    "rows.unsloth_padding": ("pad_as_unsloth",),
    "rows.unsloth_templates": ("get_chat_template",),
    "models.vocabulary": ("average_new_rows", "check_vocabulary", "resize_vocabulary"),
    "training.training_settings": ("evaluate", "metrics_options", "training_config", "training_hooks"),
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
