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
