"""New rows of a vocabulary are the same on both sides: the mean of the others, without what torch draws beside it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

NOTE = "new rows of the embedding and the head are the mean of the others on both sides, without what torch draws"


def average_new_rows(model_class: Any, note: Callable[[str], None]) -> None:
    """`resize_token_embeddings` of transformers' `model_class` gives rows that it adds the mean of those there were."""
    original = model_class.resize_token_embeddings

    @functools.wraps(original)
    def resize_token_embeddings(self: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        rows = [len(weight) for weight in _tables(self)]
        resized = original(self, *args, **kwargs)
        with torch.no_grad():
            for weight, before in zip(_tables(self), rows, strict=False):
                if len(weight) > before:
                    note(NOTE)
                    weight[before:] = weight[:before].float().mean(dim=0).to(weight.dtype)
        return resized

    model_class.resize_token_embeddings = resize_token_embeddings


def _tables(model: Any) -> list[Any]:
    """The weights with a row for each token, one that is tied once."""
    found: list[Any] = []
    for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
        weight = getattr(layer, "weight", None)
        if weight is not None and all(weight is not other for other in found):
            found.append(weight)
    return found
