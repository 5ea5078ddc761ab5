"""An SFTConfig, whose values are known only when the script runs, as arguments of SFTBatches."""

from __future__ import annotations

from typing import Any

from . import order

# Argument of SFTBatches → field of SFTConfig
SAME = """
    max_steps seed data_seed max_length completion_only_loss assistant_only_loss packing packing_strategy eval_packing
    padding_free shuffle_dataset chat_template_path eos_token pad_token truncation_mode average_tokens_across_devices
    pad_to_multiple_of
""".split()
FIELDS = {name: name for name in SAME} | {
    "epochs": "num_train_epochs",
    "accumulation": "gradient_accumulation_steps",
    "text_field": "dataset_text_field",
    "num_proc": "dataset_num_proc",
    "label_smoothing": "label_smoothing_factor",
    "neftune_noise_alpha": "neftune_noise_alpha",
    "drop_last": "dataloader_drop_last",
    "sampling": "train_sampling_strategy",
}


def arguments_of(training_args: Any) -> dict[str, Any]:
    """All that an SFTConfig, or a TrainingArguments, says of the batches but their size."""
    settings = {name: getattr(training_args, field) for name, field in FIELDS.items() if hasattr(training_args, field)}
    settings["sampling"] = order.sampling_of(training_args)
    return settings | _of_kwargs(getattr(training_args, "dataset_kwargs", None))


def told(**own: Any) -> dict[str, Any]:
    """What a script tells its trainer beside the arguments: None there leaves a setting to these, in all of TRL."""
    return {name: value for name, value in own.items() if value is not None}


def _of_kwargs(dataset_kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """SFTConfig's `dataset_kwargs` as arguments."""
    given = dataset_kwargs or {}
    own = {name: given[name] for name in ("add_special_tokens", "append_concat_token") if name in given}
    return own | {"skip_prepare": bool(given.get("skip_prepare_dataset"))}
