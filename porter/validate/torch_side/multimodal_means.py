"""The mean that a multimodal model's loss is, for the model of text alone that stands in for it."""

from __future__ import annotations

import functools
from typing import Any

from ...runtime.facts.releases import release
from ..stand_ins.multimodal_names import multimodal_name

CLASSES = ("Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration")


def mean_as_multimodal(model: Any) -> None:
    """Let the Trainer average a stand-in's micro-batches one by one, as the class of the model that it stands for asks.

    `model`: as `from_pretrained` gave it, from a stand-in's folder, which is called after the Hub id. Nothing where the
    release's class has no say in it.
    """
    import transformers

    name = multimodal_name(str(getattr(model.config, "_name_or_path", "")))
    if not name:
        return
    if release(None, transformers.__version__).sums_multimodal:
        _take_own_mean(model)
        return
    whole = getattr(transformers, CLASSES["gemma-4" in name.lower()], None)
    if getattr(whole, "accepts_loss_kwargs", True) is False:
        model.accepts_loss_kwargs = False


def _take_own_mean(model: Any) -> None:
    """Let `model` take the number of a step's tokens and make nothing of it, nor of labels of padding: the loss of
    Gemma3ForConditionalGeneration in transformers 4.50 to 4.52."""
    forward = model.forward

    @functools.wraps(forward)
    def own(*args: Any, num_items_in_batch: Any = None, **kwargs: Any) -> Any:
        labels, mask = kwargs.get("labels"), kwargs.get("attention_mask")
        if labels is not None and mask is not None and mask.ndim == 2:
            kwargs["labels"] = labels.masked_fill(mask == 0, -100)
        return forward(*args, **kwargs)

    own.sums_means = True  # type: ignore[attr-defined]
    model.forward = own


def sums_means(model: Any) -> bool:
    """Whether the Trainer divides none of a model's micro-losses: a step's logged loss is their sum."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return getattr(base.forward, "sums_means", False)
