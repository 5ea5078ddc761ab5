"""The rows of a model's embedding: what `resize_token_embeddings` does, as far as no new ones are needed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

TABLES = frozenset({"embedder/input_embedding", "lm_head/w"})  # what has a row for each token


def resize_vocabulary(
    model: nnx.Module, size: int | None = None, pad_to_multiple_of: int | None = None, **_: Any
) -> int:
    """The rows that the embedding and the head have then: `size`, rounded up, as transformers gives them.

    Most checkpoints have more rows than their tokenizer has tokens, so that a pad token of one's own fits; transformers
    takes those to spare away, and their logits with them. They stay, with a line that says so, where the mesh's tp axis
    doesn't divide what is left, or where the model has another table of the vocabulary. ValueError as
    `check_vocabulary`.
    """
    rows = check_vocabulary(model, size)
    wanted = rows if size is None else math.ceil(size / (pad_to_multiple_of or 1)) * (pad_to_multiple_of or 1)
    if wanted >= rows:
        return rows
    weights = _tables(model)
    cut: dict[str, jax.Array] = {}
    for name, (weight, axis) in weights.items():
        cut[name] = jax.lax.slice_in_dim(weight.get_value(), 0, wanted, axis=axis)
    if not set(cut) <= TABLES or not all(_divides(weights[name][0].get_value(), cut[name].shape) for name in cut):
        if jax.process_index() == 0:
            print(f"the embedding keeps its {rows} rows where transformers leaves {wanted}: these don't fit the mesh")
        return rows
    for name, (weight, _axis) in weights.items():
        weight.set_value(jax.device_put(cut[name], weight.get_value().sharding))
    model.porter = replace(model.porter, vocabulary=wanted)
    return wanted


def _tables(model: nnx.Module) -> dict[str, tuple[Any, int]]:
    """What of the model has a row for each token, and along which axis; adapters of one count, too."""
    info = model.porter
    axes = {t.tunix: t.axes.index("vocab") for t in info.family.tensors(info.config) if "vocab" in t.axes}
    found = {}
    for path, leaf in nnx.iter_graph(model):
        name = "/".join(map(str, path))
        if isinstance(leaf, nnx.Param) and name.partition("_lora_")[0] in axes:
            found[name] = (leaf, axes.get(name, 0))
    return found


def _divides(value: jax.Array, shape: tuple[int, ...]) -> bool:
    try:
        value.sharding.shard_shape(shape)
    except ValueError:
        return False
    return True


def check_vocabulary(
    model: nnx.Module, size: int | None = None, pad_to_multiple_of: int | None = None, **_: Any
) -> int:
    """The rows of the model's embedding, which stay as they are. ValueError when `size` tokens need more of them."""
    config = model.porter.config
    rows = int(config["vocab_size"] if "vocab_size" in config else config["text_config"]["vocab_size"])
    rows = model.porter.vocabulary or rows
    if size is not None and size > rows:
        raise ValueError(
            f"{size} tokens don't fit the {rows} rows of the model's embedding, which Tunix can't grow: use tokens "
            "that the tokenizer has (as pad_token its eos_token), or resize with transformers, save, and load that"
        )
    return rows


def average_new_rows(model: nnx.Module, size: int, new: int) -> None:
    """The embedding's last `new` of `size` rows, and the untied head's, become the mean of those before them.

    What Alpaca's `smart_tokenizer_and_embedding_resize` does with the tokens that it adds; rows that the model has
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
    resize_vocabulary(model, len(tokenizer), resize_to_multiple_of)
    return model, tokenizer
