"""The size of a model's vocabulary, which Tunix can't change: what `resize_token_embeddings` is answered with."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


def check_vocabulary(
    model: nnx.Module, size: int | None = None, pad_to_multiple_of: int | None = None, **_: Any
) -> int:
    """The rows of the model's embedding, which stay as they are. ValueError when `size` tokens need more of them.

    transformers would give the embedding exactly `size` rows (rounded up to `pad_to_multiple_of`). Most checkpoints
    have more rows than their tokenizer has tokens, so that a pad token of one's own fits.
    """
    config = model.porter.config
    rows = int(config["vocab_size"] if "vocab_size" in config else config["text_config"]["vocab_size"])
    if size is not None and size > rows:
        raise ValueError(
            f"{size} tokens don't fit the {rows} rows of the model's embedding, which Tunix can't grow: use tokens "
            "that the tokenizer has (as pad_token its eos_token), or resize with transformers, save, and load that"
        )
    return rows


def average_new_rows(model: nnx.Module, size: int, new: int) -> None:
    """The embedding's last `new` of `size` rows, and the untied head's, become the mean of those before them.

    What Alpaca's `smart_tokenizer_and_embedding_resize` does with the tokens that it adds; rows that the checkpoint has
    beyond `size` stay as they are.
    """
    head = getattr(model, "lm_head", None)
    weights = [model.embedder.input_embedding, *([head.w] if head is not None else [])]
    rows = check_vocabulary(model, size)
    for weight in weights if new > 0 else ():
        value = weight.get_value()
        axis = value.shape.index(rows)
        known = jax.lax.slice_in_dim(value, 0, size - new, axis=axis).astype(jnp.float32)
        mean = known.mean(axis, keepdims=True).astype(value.dtype)
        at = (slice(None),) * axis + (slice(size - new, size),)
        weight.set_value(value.at[at].set(mean))


CHATML = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def setup_chat_format(
    model: nnx.Module, tokenizer: Any, format: str = "chatml", resize_to_multiple_of: int | None = None
) -> tuple[nnx.Module, Any]:
    """TRL's function of that name (until 0.25): ChatML's template and tokens for a tokenizer without a template.

    TRL also gives the embedding rows for them. Here they have to fit the rows that it has, as those of Qwen's and
    SmolLM's models do, which know the tokens: ValueError otherwise, and where TRL refuses.
    """
    if tokenizer.chat_template is not None:
        raise ValueError("the tokenizer has a chat template already: set tokenizer.chat_template to None to replace it")
    if format != "chatml":
        raise ValueError(f"format={format!r}: it is 'chatml'")
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"
    tokenizer.bos_token = "<|im_start|>"
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = CHATML
    check_vocabulary(model, len(tokenizer), resize_to_multiple_of)
    return model, tokenizer
