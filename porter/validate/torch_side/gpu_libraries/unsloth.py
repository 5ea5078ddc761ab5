"""Unsloth without Unsloth: its models are transformers' and PEFT's with Unsloth's defaults.

The kernels compute the same; a 4-bit base is what `bitsandbytes_weights.hold` makes of it. What importing it does to
TRL's classes, and what loading a model does to transformers' Trainer and to a tokenizer, is in `unsloth_parts`, its
helpers for chats in `unsloth_chats`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import Any

from ....runtime.facts.stored_formats import base_name
from . import unsloth_chats as unsloth_chats
from .unknown import Unknown
from .unsloth_parts import counts as unsloth_counts
from .unsloth_parts import padding as unsloth_padding
from .unsloth_parts import trl as unsloth_trl

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TRAINED_WHOLE = ("embed_tokens", "lm_head")
SEED = 3407
LAYERS = (
    *("finetune_vision_layers", "finetune_language_layers", "finetune_attention_modules", "finetune_mlp_modules"),
    "finetune_audio_layers",
)
OWN = (
    *("max_seq_length", "full_finetuning", "fix_tokenizer", "use_gradient_checkpointing", "resize_model_vocab"),
    *("use_exact_model_name", "fast_inference", "gpu_memory_utilization", "float8_kv_cache", "random_state"),
    *("max_lora_rank", "disable_log_stats", "return_logits", "fullgraph", "offload_embedding", "unsloth_tiled_mlp"),
    *("text_only", "whisper_language", "whisper_task", "unsloth_force_compile", "load_in_16bit", "load_in_fp8"),
    *("qat_scheme", "unsloth_vllm_standby", "load_in_4bit", "load_in_8bit", "dtype", "device_map", "token"),
    *("rope_scaling", "auto_model", "tokenizer_name"),
)
MERGED = "save_pretrained_merged"


def modules(note: Callable[[str], None], output: Callable[[Any], str]) -> dict[str, Callable[[], dict[str, Any]]]:
    """Module name → its names. `output` says where what the script saves goes."""
    fast = fast_model(note, output)
    chats = unsloth_chats.names()

    def top() -> dict[str, Any]:
        note("unsloth: transformers and PEFT with Unsloth's defaults computed what its kernels compute")
        unsloth_trl.patch_trl(note)
        return {
            "__version__": unsloth_trl.release(),
            **dict.fromkeys(("FastLanguageModel", "FastModel", "FastTextModel", "FastLlamaModel"), fast),
            "FastVisionModel": Unknown("unsloth.FastVisionModel"),
            **dict.fromkeys(("PatchDPOTrainer", "PatchKTOTrainer", "PatchFastRL", "PatchORPOTrainer"), _nothing),
            **dict.fromkeys(("is_bfloat16_supported", "is_bf16_supported"), lambda *args: True),
            "unsloth_train": lambda trainer, *args, **kwargs: trainer.train(*args, **kwargs),
            "add_new_tokens": add_new_tokens,
            **unsloth_trl.trainers(),
            **chats,
        }

    return {
        "unsloth": top,
        "unsloth.chat_templates": lambda: chats,
        "unsloth.trainer": unsloth_trl.trainers,
        "unsloth.models": lambda: {"FastLanguageModel": fast, "FastModel": fast},
        "unsloth.tokenizer_utils": lambda: {"add_new_tokens": add_new_tokens},
        "unsloth_zoo": lambda: {"__version__": unsloth_trl.release()},
        "unsloth_zoo.dataset_utils": lambda: chats,
    }


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Unsloth patches torch's models and TRL here; neither changes a value."""


def fast_model(note: Callable[[str], None], output: Callable[[Any], str]) -> Any:
    """unsloth.FastLanguageModel."""

    class FastLanguageModel:
        @staticmethod
        def from_pretrained(model_name: str = "unsloth/Llama-3.2-1B-Instruct", *args: Any, **kwargs: Any) -> Any:
            return _load(model_name, note, output, *args, **kwargs)

        @staticmethod
        def get_peft_model(model: Any, *args: Any, **kwargs: Any) -> Any:
            return with_methods(_padding(_adapted(model, *args, **kwargs), "right"), note, output)

        @staticmethod
        def for_inference(model: Any, *args: Any, **kwargs: Any) -> Any:
            return _padding(model, "left").eval()

        @staticmethod
        def for_training(model: Any, *args: Any, **kwargs: Any) -> Any:
            return _padding(model, "right").train()

        @staticmethod
        def patch_peft_model(model: Any, *args: Any, **kwargs: Any) -> Any:
            return with_methods(model, note, output)

    return FastLanguageModel


def _load(
    name: str,
    note: Callable[[str], None],
    output: Callable[[Any], str],
    max_seq_length: int | None = 2048,
    dtype: Any = None,
    load_in_4bit: bool = True,
    load_in_8bit: bool = False,
    load_in_16bit: bool = False,
    full_finetuning: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    import transformers

    if unsloth_trl.counts_tokens():
        unsloth_counts.count_in_trainer(unsloth_trl.release())
    if kwargs.get("fast_inference"):
        note("unsloth's fast_inference is vLLM: the trainer sampled its completions itself")
    if kwargs.get("load_in_fp8"):
        raise ValueError("load_in_fp8 has no counterpart on the CPU: this source can't be compared; load in 16 bits")
    for_models = {key: value for key, value in kwargs.items() if key not in OWN}
    whole = full_finetuning or load_in_16bit
    if load_in_8bit or (load_in_4bit and not whole):
        for_models["quantization_config"] = quantisation(load_in_8bit)
    written = Path(output(name))
    folder = written if (written / "adapter_config.json").is_file() else Path(name)
    saved = folder / "adapter_config.json"
    base = _base_of(saved) if saved.is_file() else name
    model = transformers.AutoModelForCausalLM.from_pretrained(base_name(base), **for_models)
    of = name if not saved.is_file() or (folder / "tokenizer_config.json").is_file() else base
    tokenizer = transformers.AutoTokenizer.from_pretrained(of)
    if saved.is_file():
        import peft

        model = peft.PeftModel.from_pretrained(model, str(folder), is_trainable=True)
    if max_seq_length is None:
        max_seq_length = getattr(model.config, "max_position_embeddings", 2048)
    if kwargs.get("resize_model_vocab"):
        model.resize_token_embeddings(kwargs["resize_model_vocab"])
    model.max_seq_length = max_seq_length
    unsloth_padding.set_padding(tokenizer, model, unsloth_trl.release())
    model._saved_temp_tokenizer = tokenizer
    return with_methods(_padding(model, "left"), note, output), tokenizer


def _padding(model: Any, side: str) -> Any:
    """The model, whose tokenizer pads on this side from here on."""
    if (tokenizer := getattr(model, "_saved_temp_tokenizer", None)) is not None:
        tokenizer.padding_side = side
    return model


def quantisation(eight: bool) -> Any:
    """What Unsloth asks of bitsandbytes."""
    import torch
    import transformers

    if eight:
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def _base_of(file: Path) -> str:
    import json

    return str(json.loads(file.read_text(encoding="utf-8"))["base_model_name_or_path"])


def _adapted(
    model: Any,
    r: int = 16,
    target_modules: Any = None,
    lora_alpha: int = 16,
    lora_dropout: float = 0.0,
    bias: str = "none",
    layers_to_transform: Any = None,
    layers_pattern: Any = None,
    use_gradient_checkpointing: Any = "unsloth",
    random_state: int = SEED,
    max_seq_length: int = 2048,
    use_rslora: bool = False,
    modules_to_save: Any = None,
    init_lora_weights: Any = True,
    loftq_config: Any = None,
    temporary_location: Any = None,
    **kwargs: Any,
) -> Any:
    import peft
    import transformers

    if hasattr(model, "peft_config"):
        return model  # loaded with its adapter, which goes on
    for name in LAYERS:
        if kwargs.pop(name, True) is False and name in LAYERS[1:4]:
            raise ValueError(f"{name}=False is not compared: name the layers in target_modules")
    kwargs.pop("qat_scheme", None)
    kwargs.pop("ensure_weight_tying", None)
    asked = LINEAR if target_modules is None or target_modules == "all-linear" else target_modules
    if not isinstance(asked, str):
        saved = [*(modules_to_save or []), *(name for name in asked if name in TRAINED_WHOLE)]
        modules_to_save = list(dict.fromkeys(saved)) or None
        asked = [name for name in asked if name not in TRAINED_WHOLE]
    transformers.set_seed(random_state)
    config = peft.LoraConfig(
        r=r,
        target_modules=asked,
        lora_alpha=lora_alpha,
        lora_dropout=lora_dropout,
        bias=bias,
        layers_to_transform=layers_to_transform,
        layers_pattern=layers_pattern,
        use_rslora=use_rslora,
        modules_to_save=modules_to_save,
        init_lora_weights=init_lora_weights,
        **{"task_type": "CAUSAL_LM", **kwargs},
    )
    length = getattr(model, "max_seq_length", max_seq_length)
    made = peft.get_peft_model(model, config)
    made.max_seq_length = length
    return made


def add_new_tokens(model: Any, tokenizer: Any, new_tokens: Any = (), *args: Any, **kwargs: Any) -> None:
    """New tokens and their rows; drawn at random, so that the two sides differ there."""
    tokenizer.add_tokens(list(new_tokens))
    model.resize_token_embeddings(len(tokenizer))


def with_methods(model: Any, note: Callable[[str], None], output: Callable[[Any], str]) -> Any:
    """The model with the methods that Unsloth gives it: merged saving, uploads, modes; and with what its trainers give
    a model of transformers 5, which TRL before 1.0 notes its warnings in."""
    if getattr(model, "warnings_issued", None) is None:
        model.warnings_issued = {}

    def merged(self: Any, folder: Any, tokenizer: Any = None, save_method: str = "merged_16bit", **kwargs: Any) -> None:
        whole = copy.deepcopy(self)
        if save_method != "lora" and hasattr(whole, "merge_and_unload"):
            whole = whole.merge_and_unload()
        whole.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)

    def gguf(self: Any, folder: Any, tokenizer: Any = None, *args: Any, **kwargs: Any) -> None:
        merged(self, folder, tokenizer)
        note("no GGUF was written")

    def pushed(self: Any, repo_id: Any = None, tokenizer: Any = None, *args: Any, **kwargs: Any) -> None:
        """As two uploads of transformers', which an observer sees; nothing leaves this machine."""
        note("nothing was pushed to the Hub")
        for part in (self, tokenizer):
            if hasattr(part, "push_to_hub"):
                part.push_to_hub(repo_id)

    def generated(self: Any, *args: Any, **kwargs: Any) -> Any:
        return Unknown("unsloth's fast_generate (vLLM)")(*args, **kwargs)

    methods: dict[str, Callable[..., Any]] = {
        MERGED: merged,
        "save_pretrained_gguf": gguf,
        "save_pretrained_ggml": gguf,
        "push_to_hub_merged": pushed,
        "push_to_hub_gguf": lambda self, *args, **kwargs: note("no GGUF was pushed to the Hub"),
        "save_lora": lambda self, folder, *args, **kwargs: self.save_pretrained(folder),
        "load_lora": lambda self, *args, **kwargs: None,
        "fast_generate": generated,
        "for_training": lambda self, *args, **kwargs: _padding(self, "right").train(),
        "for_inference": lambda self, *args, **kwargs: _padding(self, "left").eval(),
    }
    for name, method in methods.items():
        # A class attribute would be there for models that Unsloth hasn't loaded, too.
        object.__setattr__(model, name, MethodType(method, model))
    return model
