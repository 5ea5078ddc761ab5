"""The mean that a multimodal model's loss is, for the model of text alone that stands in for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...runtime.facts.mistral_means import MULTIMODAL

CLASSES = ("Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration")


def mean_as_multimodal(model: Any) -> None:
    """Let the Trainer average a stand-in's micro-batches one by one, as the class of the model that it stands for asks.

    `model`: as `from_pretrained` gave it, from a stand-in's folder, which is called after the Hub id. Nothing where the
    release's class has no say in it.
    """
    import transformers

    folder = Path(str(getattr(model.config, "_name_or_path", ""))).name
    name = folder.replace("--", "/", 1)
    if MULTIMODAL.match(name) is None:
        return
    whole = getattr(transformers, CLASSES["gemma-4" in name.lower()], None)
    if getattr(whole, "accepts_loss_kwargs", True) is False:
        model.accepts_loss_kwargs = False
