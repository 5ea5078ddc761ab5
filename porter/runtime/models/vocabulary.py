"""The rows of a model's embedding and of its head: what `resize_token_embeddings` does."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

TABLES = frozenset({"embedder/input_embedding", "lm_head/w"})  # what has a row for each token


def resize_vocabulary(
    model: nnx.Module,
    size: int | None = None,
    pad_to_multiple_of: int | None = None,
    mean_resizing: bool = True,
    **_: Any,
) -> int:
    """The rows that the embedding and the head have then: `size`, rounded up, as transformers gives them.

    New rows are the mean of those that were there, as from transformers 4.46 on, which scatters them by 3e-5 of the
    others' deviation; with `mean_resizing=False` they are drawn as new models' are (`initializer_range`), other numbers
    than torch's. Spare rows go, and their logits with them. They stay, with a line that says so, where the mesh's tp
    axis doesn't divide what is left, or where the model has another table of the vocabulary.

    ValueError where rows are needed and the mesh's tp axis doesn't divide their number, the embedding has adapters
    already, or the model has another table of the vocabulary.
    """
    rows = check_vocabulary(model)
    wanted = rows if size is None else math.ceil(size / (pad_to_multiple_of or 1)) * (pad_to_multiple_of or 1)
    if wanted == rows:
        return rows
    weights = _tables(model)
    why = _obstacle(weights, wanted)
    if why and wanted > rows:
        raise ValueError(f"{wanted} tokens don't fit the {rows} rows of the model's embedding, and {why}")
    if why:
        if jax.process_index() == 0:
            print(f"the embedding keeps its {rows} rows where transformers leaves {wanted}: {why}")
        return rows
    for number, (weight, axis) in enumerate(weights.values()):
        value = weight.get_value()
        if wanted < rows:
            new = jax.lax.slice_in_dim(value, 0, wanted, axis=axis)
        else:
            spread = None if mean_resizing else float(model.porter.config.get("initializer_range", 0.02))
            new = jnp.concatenate([value, new_rows(value, axis, wanted - rows, spread, number)], axis)
        weight.set_value(jax.device_put(new, value.sharding))
    model.porter = replace(model.porter, vocabulary=wanted)
    return wanted


def new_rows(value: jax.Array, axis: int, count: int, spread: float | None, number: int) -> jax.Array:
    """`count` rows beside those of `value` along `axis`: their mean, or numbers of the deviation `spread`."""
    mean = value.astype(jnp.float32).mean(axis, keepdims=True)
    shape = tuple(count if i == axis else length for i, length in enumerate(value.shape))
    if spread is None:
        return jnp.broadcast_to(mean, shape).astype(value.dtype)
    return (spread * jax.random.normal(jax.random.key(number), shape)).astype(value.dtype)


def _obstacle(weights: dict[str, tuple[Any, int]], wanted: int) -> str:
    """Why the tables can't have `wanted` rows: empty where they can."""
    if others := set(weights) - TABLES:
        return f"{sorted(others)[0]} has a row for each token, too"
    for weight, axis in weights.values():
        value = weight.get_value()
        if not _divides(value, tuple(wanted if i == axis else length for i, length in enumerate(value.shape))):
            return f"{wanted} rows don't fit the mesh, whose tp axis divides them: give pad_to_multiple_of="
    return ""


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
            f"{size} tokens don't fit the {rows} rows of the model's embedding: give it more "
            "(rt.resize_vocabulary(model, len(tokenizer))), or use tokens that the tokenizer has (as pad_token its eos)"
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
