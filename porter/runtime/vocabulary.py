"""The size of a model's vocabulary, which Tunix can't change: what `resize_token_embeddings` is answered with."""

from __future__ import annotations

from typing import Any

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
