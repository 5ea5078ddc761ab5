"""A tiny model of a family: random weights, the family's special tokens and its chat template.

What a stand-in keeps of the family is what a port can get wrong: layer names, fused and grouped heads, local and
global layers, rotary parameters, tied embeddings, special tokens. Sizes are chosen so that a training step takes
milliseconds and every mesh of up to eight devices divides the heads.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from .columns import WORDS

VOCABULARY = 512
SMALL = re.compile(r"(0\.5b|0\.6b|1\.5b|1\.7b|1b|3b|4b)(\b|-)", re.IGNORECASE)

# Beginning of text, end of text, padding, and what else the chat template writes.
SPECIAL_TOKENS: dict[str, tuple[str | None, str, str | None, tuple[str, ...]]] = {
    "qwen2": (None, "<|im_end|>", "<|endoftext|>", ("<|im_start|>",)),
    "qwen3": (None, "<|im_end|>", "<|endoftext|>", ("<|im_start|>", "<think>", "</think>")),
    "llama3": ("<|begin_of_text|>", "<|eot_id|>", None, ("<|start_header_id|>", "<|end_header_id|>")),
    "mistral": ("<s>", "</s>", None, ("[INST]", "[/INST]")),
    "gemma": ("<bos>", "<eos>", "<pad>", ("<start_of_turn>", "<end_of_turn>")),
    "gemma2": ("<bos>", "<eos>", "<pad>", ("<start_of_turn>", "<end_of_turn>")),
    "gemma3": ("<bos>", "<eos>", "<pad>", ("<start_of_turn>", "<end_of_turn>")),
    "gemma4": ("<bos>", "<eos>", "<pad>", ("<|turn>", "<turn|>", "<|channel>", "<channel|>")),
}
FAMILIES = tuple(SPECIAL_TOKENS)

# Mistral's turns; TRL carries no template of theirs.
MISTRAL = """{{ bos_token }}
{%- for message in messages %}
    {%- set answer = message['role'] == 'assistant' %}
    {{- message['content'] + eos_token if answer else '[INST] ' + message['content'] + ' [/INST]' }}
{%- endfor %}"""


def make_stand_in(folder: str | Path, model_id: str, family: str, *, kv_heads: int = 4, seed: int = 0) -> Path:
    """Write a tiny model and tokenizer of `family` into `folder` and return it; a finished folder is left as it is.

    `model_id` picks what differs within a family (tied embeddings, rotary scaling, shared keys and values).
    `kv_heads` key and value heads and twice as many query heads. Imports torch and transformers.
    ValueError for a family without a stand-in.
    """
    folder = Path(folder)
    if (folder / "finished").exists():
        return folder
    if family not in FAMILIES:
        raise ValueError(f"there is no stand-in for family {family!r}: give a small model of it with --model PATH")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(family, model_id)
    tokenizer.save_pretrained(folder)
    make_model(family, model_id, tokenizer, kv_heads=kv_heads, seed=seed).save_pretrained(folder)
    (folder / "finished").touch()
    return folder


def make_tokenizer(family: str, model_id: str = "") -> Any:
    """A byte-level BPE tokenizer of 512 entries with the family's special tokens and chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    begin, end, pad, others = SPECIAL_TOKENS[family]
    special = [token for token in (pad, end, begin, *others) if token]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(WORDS), "user assistant system model " * 4], trainer)
    if begin:
        pair = (begin, tokenizer.token_to_id(begin))
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{begin} $A", special_tokens=[pair])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=begin,
        eos_token=end,
        pad_token=pad,
        additional_special_tokens=list(others),
        model_max_length=131072,
    )
    fast.chat_template = chat_template(family, model_id)
    return fast


def chat_template(family: str, model_id: str = "") -> str:
    """The family's chat template as TRL carries it: TRL knows its training variant only by the exact text."""
    import trl

    if family == "mistral":
        return MISTRAL
    name = model_id.lower()
    file = {"qwen2": "qwen2_5", "gemma2": "gemma"}.get(family, family)
    if family == "qwen3" and "2507" in name:
        file = "qwen3_instruct_2507"
    if family == "llama3":
        file = "llama3_2" if "3.2" in name else "llama3_1" if "3.1" in name else "llama3"
    path = Path(trl.__file__).parent / "chat_templates" / f"{file}.jinja"
    if not path.exists():
        raise FileNotFoundError(f"this trl has no chat template {file}.jinja: upgrade it, or give --model PATH")
    return path.read_text(encoding="utf-8")


def make_model(family: str, model_id: str, tokenizer: Any, *, kv_heads: int = 4, seed: int = 0) -> Any:
    """A float32 model of the family with random weights, norms and biases included."""
    import torch
    import transformers

    config = make_config(family, model_id, kv_heads=kv_heads)
    config.bos_token_id, config.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if "layer_scalar" in name:
                buffer.add_(0.1 * torch.randn_like(buffer))
    return model


def make_config(family: str, model_id: str = "", *, kv_heads: int = 4) -> Any:
    """The transformers config of the family's stand-in."""
    import transformers

    name = model_id.lower()
    heads, width = 2 * kv_heads, 16
    shared: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": heads * width if family == "qwen2" else 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": width,
        "max_position_embeddings": 131072,
        "initializer_range": 0.1,
        "dtype": "float32",
    }
    tied = bool(SMALL.search(name))
    if family == "qwen3":
        theta = 5e6 if "2507" in name else 1e6
        rotary = {"rope_type": "default", "rope_theta": theta}
        return transformers.Qwen3Config(**shared, tie_word_embeddings=tied, rope_parameters=rotary)
    if family == "qwen2":
        del shared["head_dim"]
        rotary = {"rope_type": "default", "rope_theta": 1e6}
        return transformers.Qwen2Config(**shared, tie_word_embeddings=tied, rope_parameters=rotary)
    if family == "llama3":
        rotary = {"rope_type": "default", "rope_theta": 500000.0}
        if "3.1" in name or "3.2" in name or "3.3" in name:
            rotary |= {
                "rope_type": "llama3",
                "factor": 32.0 if "3.2" in name else 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            }
        if "deepseek-coder" in name:
            rotary = {"rope_type": "linear", "rope_theta": 1e5, "factor": 4.0}
        tied = tied and "3.2" in name
        return transformers.LlamaConfig(**shared, rms_norm_eps=1e-5, tie_word_embeddings=tied, rope_parameters=rotary)
    if family == "mistral":
        # The first release has a window, here a short one, the later ones none.
        window, theta = (32, 1e4) if "v0.1" in name or "zephyr" in name else (None, 1e6)
        rotary = {"rope_type": "default", "rope_theta": theta}
        return transformers.MistralConfig(**shared, rms_norm_eps=1e-5, sliding_window=window, rope_parameters=rotary)
    if family == "gemma":
        return transformers.GemmaConfig(**shared, hidden_act="gelu_pytorch_tanh")
    if family == "gemma2":
        # The published window: Tunix masks packed rows by position, which differs once a row is longer than it.
        return transformers.Gemma2Config(
            **shared | {"num_hidden_layers": 4},
            query_pre_attn_scalar=width,
            sliding_window=4096,
            final_logit_softcapping=30.0,
            attn_logit_softcapping=50.0,
        )
    if family == "gemma3":
        return transformers.Gemma3TextConfig(
            **shared | {"num_hidden_layers": 7}, query_pre_attn_scalar=width, sliding_window=32
        )
    return _gemma4(shared, name)


def _gemma4(shared: dict[str, Any], name: str) -> Any:
    import transformers

    width = shared["head_dim"]
    own: dict[str, Any] = {
        "num_hidden_layers": 6,
        "sliding_window": 32,
        "global_head_dim": 2 * width,
        "final_logit_softcapping": 30.0,
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": VOCABULARY,
    }
    if "e2b" in name or "e4b" in name:
        own |= {"num_hidden_layers": 10, "hidden_size_per_layer_input": 16, "num_kv_shared_layers": 5}
        own["use_double_wide_mlp"] = True
        own["layer_types"] = (["sliding_attention"] * 4 + ["full_attention"]) * 2
    else:
        own |= {"attention_k_eq_v": True, "num_global_key_value_heads": shared["num_key_value_heads"]}
    return transformers.Gemma4TextConfig(**shared | own)


def main() -> None:
    """Build one stand-in in a process of its own: the port's process must not import torch."""
    parser = argparse.ArgumentParser(prog="python -m porter.validate.stand_in")
    parser.add_argument("folder")
    parser.add_argument("model_id")
    parser.add_argument("family")
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    make_stand_in(given.folder, given.model_id, given.family, kv_heads=given.kv_heads, seed=given.seed)


if __name__ == "__main__":
    main()
