"""`with model.disable_adapter():` PEFT's base model, and the trained one again behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from porter.runtime.lora.apply_lora import apply_peft
from porter.runtime.lora.disabled import disable_adapter
from porter.runtime.models.load_model import load_model
from porter.runtime.saving.adapters import load_adapter

from .lora import logits, random_adapter


@pytest.mark.parametrize("quantization", [None, "nf4"])
def test_the_base_for_as_long_as_it_lasts(quantization: str | None, tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    settings: dict[str, Any] = {"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    wrapped, state = random_adapter("llama3", settings)
    mesh, ids = tiny_mesh(2, 2), np.arange(8, 20, dtype=np.int32)[None]
    model = load_model(tiny("llama3"), mesh, quantization=quantization)
    with pytest.raises(ValueError, match="without adapters"), disable_adapter(model):
        pass
    plain = logits(model, ids)
    model = load_adapter(apply_peft(model, settings, mesh, seed=0), state)
    tuned = logits(model, ids)
    with disable_adapter(model):
        off = logits(model, ids)
    assert np.array_equal(off, plain) and np.array_equal(logits(model, ids), tuned) and not np.array_equal(off, tuned)
    with pytest.raises(RuntimeError, match="stops"), disable_adapter(model):
        raise RuntimeError("stops")
    assert np.array_equal(logits(model, ids), tuned)
    if quantization is None:
        with wrapped.disable_adapter():
            theirs = wrapped(torch.from_numpy(ids).long()).logits.detach().numpy()
        assert np.abs(off - theirs).max() < 1e-4
