"""Tiny random models and tokenizers of every family, saved as transformers saves real ones.

    save("qwen3", folder)        a checkpoint and a tokenizer with the family's special tokens and chat template
    tokenizer("qwen3")           the tokenizer alone
    hf_config("qwen3")           the transformers config alone

Sizes are chosen so that the meshes (1,1) to (8,1), (2,4) and (4,2) fit every family; `gemma`, `gemma4_ple` and
`qwen3_mha` fit (1,8) too. Norms and biases are random, so that a norm in the wrong place shows in the logits.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

VOCAB = 512
_SHARED = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "max_position_embeddings": 2048,
    "initializer_range": 0.1,
}
_GEMMA = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}
_LLAMA = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": None}
_QWEN = {"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}
_GEMMA4 = {
    "global_head_dim": 32,
    "sliding_window": 8,
    "final_logit_softcapping": 30.0,
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],  # transformers makes the last one full
}
_NO_PLE = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": VOCAB}
LLAMA_SCALING = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}

# name -> (transformers config class, family of its tokenizer, settings)
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gemma": ("GemmaConfig", "gemma", {**_GEMMA, "num_key_value_heads": 8}),  # q, k, v in one einsum, like the 7B
    "gemma_mqa": ("GemmaConfig", "gemma", {**_GEMMA, "num_key_value_heads": 1}),  # one K/V head, like the 2B
    "gemma2": ("Gemma2Config", "gemma2", {**_GEMMA, "query_pre_attn_scalar": 16, "sliding_window": 8}),
    # Five local layers, a global one, and a local one again.
    "gemma3": (
        "Gemma3TextConfig",
        "gemma3",
        {**_GEMMA, "query_pre_attn_scalar": 16, "sliding_window": 8, "num_hidden_layers": 7},
    ),
    "gemma4": ("Gemma4TextConfig", "gemma4", {**_GEMMA, **_GEMMA4, **_NO_PLE}),
    # Like the 31B: global layers have no v_proj and other heads.
    "gemma4_keqv": (
        "Gemma4TextConfig",
        "gemma4",
        {**_GEMMA, **_GEMMA4, **_NO_PLE, "attention_k_eq_v": True, "num_global_key_value_heads": 4},
    ),
    # Like the E2B: per-layer inputs, the last layers share keys and values and have a wider MLP, one K/V head.
    "gemma4_ple": (
        "Gemma4TextConfig",
        "gemma4",
        {
            **_GEMMA,
            **_GEMMA4,
            "num_key_value_heads": 1,
            "hidden_size_per_layer_input": 16,
            "vocab_size_per_layer_input": VOCAB,
            "num_hidden_layers": 4,
            "num_kv_shared_layers": 2,
            "use_double_wide_mlp": True,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
        },
    ),
    # Like Llama 3.1 and 3.2: scaled rotary embedding; an untied head, like the 8B.
    "llama3": ("LlamaConfig", "llama3", {**_LLAMA, "rms_norm_eps": 1e-5, "rope_parameters": LLAMA_SCALING}),
    "llama3_tied": (
        "LlamaConfig",
        "llama3",
        {
            **_LLAMA,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
        },
    ),
    # Like Mistral 7B v0.1, a sliding window; like Nemo, a head_dim that is not hidden_size / heads.
    "mistral": ("MistralConfig", "llama3", {**_LLAMA, "rms_norm_eps": 1e-5, "sliding_window": 8}),
    "qwen2": (
        "Qwen2Config",
        "qwen2",
        {**_QWEN, "hidden_size": 128, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    ),
    # Like Qwen3-4B-Instruct-2507: a rotary base of 5e6.
    "qwen3": (
        "Qwen3Config",
        "qwen3",
        {**_QWEN, "tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 5e6}},
    ),
    "qwen3_mha": (
        "Qwen3Config",
        "qwen3",
        {**_QWEN, "num_key_value_heads": 8, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    ),
}

# special tokens (ids from 0), bos, eos, pad, chat template as TRL ships it
_TOKENIZERS: dict[str, tuple[list[str], str | None, str, str | None, str]] = {
    "gemma": (
        ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"],
        "<bos>",
        "<eos>",
        "<pad>",
        "gemma",
    ),
    "gemma4": (["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"], "<bos>", "<eos>", "<pad>", "gemma4"),
    "llama3": (
        ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"],
        "<|begin_of_text|>",
        "<|eot_id|>",
        None,
        "llama3",
    ),
    "qwen2": (["<|endoftext|>", "<|im_end|>", "<|im_start|>"], None, "<|im_end|>", "<|endoftext|>", "qwen2_5"),
    "qwen3": (
        ["<|endoftext|>", "<|im_end|>", "<|im_start|>", "<think>", "</think>"],
        None,
        "<|im_end|>",
        "<|endoftext|>",
        "qwen3",
    ),
}
_TOKENIZERS["gemma2"] = _TOKENIZERS["gemma"]
_TOKENIZERS["gemma3"] = (*_TOKENIZERS["gemma"][:4], "gemma3")

# What the byte-level BPE learns its merges from: enough for words of several tokens and of one.
_CORPUS = [
    "user system assistant model the capital of France is Paris and the capital of Italy is Rome",
    "What is the answer to this question? The answer is four, because two and two are four.",
    "Write a short poem about the sea. The sea is wide, the sea is deep, and all the ships are fast asleep.",
    "Translate to French: good morning, good night. Count to three: one, two, three.",
]


@cache
def _bpe(specials: tuple[str, ...]) -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - 16,
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(_CORPUS, trainer)
    return str(bpe.to_str())


def tokenizer(family: str) -> Any:
    """A byte-level tokenizer with the family's special tokens, BOS rule and the chat template that TRL ships."""
    from importlib.resources import files

    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    specials, bos, eos, pad, template = _TOKENIZERS[family]
    bpe = Tokenizer.from_str(_bpe(tuple(specials)))
    if bos is not None:
        bpe.post_processor = TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, specials.index(bos))]
        )
    made = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=bos,
        eos_token=eos,
        pad_token=pad,
        extra_special_tokens=[t for t in specials if t not in ("<think>", "</think>")],
        model_max_length=2048,
    )
    made.chat_template = (files("trl") / "chat_templates" / f"{template}.jinja").read_text(encoding="utf-8")
    return made


def hf_config(name: str, **settings: Any) -> Any:
    """The transformers config of a tiny model; `settings` override its fields."""
    import transformers

    config_class, _, own = MODELS[name]
    values = {**_SHARED, **own, **settings}
    if config_class == "Qwen2Config":
        values.pop("head_dim", None)  # Qwen2 has none: hidden_size / heads
    if "layer_types" in values:  # fewer layers than the tiny model has: its last ones, the full attention among them
        values["layer_types"] = values["layer_types"][-values["num_hidden_layers"] :]
    return getattr(transformers, config_class)(**values)


def hf_model(name: str, *, seed: int = 0, dtype: str = "float32", **settings: Any) -> Any:
    """A tiny torch model with random weights, norms and biases included."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(hf_config(name, **settings), attn_implementation="eager")
    with torch.no_grad():
        for key, parameter in [*model.named_parameters(), *model.named_buffers()]:
            if parameter.ndim == 1 and ("norm" in key or key.endswith("bias") or "layer_scalar" in key):
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.to(getattr(torch, dtype)).eval()


def save(name: str, folder: Path, *, seed: int = 0, dtype: str = "float32", **settings: Any) -> Path:
    """Write a tiny model and its tokenizer into `folder`, as transformers' save_pretrained does. Returns `folder`."""
    hf_model(name, seed=seed, dtype=dtype, **settings).save_pretrained(folder)
    tokenizer(MODELS[name][1]).save_pretrained(folder)
    return folder
