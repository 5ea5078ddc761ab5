"""The mean that a multimodal model's loss is, for the model of text alone that stands in for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# The Hub ids of which a port knows that AutoModelForCausalLM loads the class with the tower.
OF_THE_MAKER = re.compile(r"(?:google|unsloth)/(gemma-3-(?:4b|12b|27b)|gemma-4-|medgemma-)", re.IGNORECASE)
CLASSES = ("Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration")


def mean_as_multimodal(model: Any) -> None:
    """Let the Trainer average a stand-in's micro-batches one by one, as the class of the model that it stands for asks.

    `model`: as `from_pretrained` gave it, from a stand-in's folder, which is called after the Hub id. Nothing where the
    release's class has no say in it.
    """
    import transformers

    folder = Path(str(getattr(model.config, "_name_or_path", ""))).name
    found = OF_THE_MAKER.match(folder.replace("--", "/", 1))
    if found is None:
        return
    whole = getattr(transformers, CLASSES["gemma-4" in found[1].lower()], None)
    if getattr(whole, "accepts_loss_kwargs", True) is False:
        model.accepts_loss_kwargs = False
