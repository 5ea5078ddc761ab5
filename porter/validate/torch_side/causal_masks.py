"""The causal mask that transformers 4.38 keeps of all positions a model has, cut to what made-up rows take."""

from __future__ import annotations

from typing import Any

KEPT = 4096  # positions: the model makes twice as many itself where a row is longer


def cut_causal_masks(model: Any) -> None:
    """Cut the buffers `causal_mask` (positions, positions) of a torch model in place.

    LlamaModel and GemmaModel of transformers 4.38 repeat theirs for every row of a batch, in float32: 10 rows of a
    model with 16,384 positions are 10 GB, whatever their length.
    """
    for module in model.modules():
        mask = dict(module.named_buffers(recurse=False)).get("causal_mask")
        if mask is not None and mask.dim() == 2 and mask.shape[-1] > KEPT:
            module.register_buffer("causal_mask", mask[:KEPT, :KEPT].clone(), persistent=False)
