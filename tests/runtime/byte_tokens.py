"""A tokenizer of single bytes, so that tests can read what is trained as text."""

from __future__ import annotations

from typing import Any

import numpy as np

CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}"
    "{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIALS = ["<pad>", "</s>", "<|user|>", "<|assistant|>", "<|end|>"]


def byte_tokenizer(template: str | None = CHAT, **tokens: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = models.BPE(vocab={token: i for i, token in enumerate([*SPECIALS, *alphabet])}, merges=[])
    inner = Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(SPECIALS)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **{"pad_token": "<pad>", "eos_token": "</s>", **tokens})
    tokenizer.chat_template = template
    return tokenizer


def trained_text(tokenizer: Any, labels: np.ndarray) -> str:
    """What is trained, `.` for each run of what isn't."""
    text, skipped = "", False
    for label in np.asarray(labels).ravel().tolist():
        if label != -100:
            text += tokenizer.decode([label])
        elif not skipped:
            text += "·"
        skipped = label == -100
    return text
