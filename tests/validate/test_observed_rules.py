"""Which LoRA rules of a port count as those of its training."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from porter.validate.jax_side import observe_runtime
from porter.validate.jax_side.observer_jax import Observer


def test_rules_of_a_merged_adapter_are_not_the_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that merges SFT's adapter and trains another one was said to have another dropout."""
    observer = Observer.__new__(Observer)
    observer._scalings, observer._dropouts = set(), {}
    runtime = ModuleType("runtime")

    def merge_adapter(model: Any) -> Any:
        observer.rule(SimpleNamespace(alpha=32.0, rank=8, module_path=".*/q_proj"), 0.0)
        return model

    runtime.merge_adapter = merge_adapter  # type: ignore[attr-defined]
    replaced = {}
    monkeypatch.setattr(observe_runtime, "replace_everywhere", lambda module, name, new: replaced.update({name: new}))
    observe_runtime.patch_merging(observer, runtime)
    assert replaced["merge_adapter"]("model") == "model"
    observer.rule(SimpleNamespace(alpha=16.0, rank=8, module_path=".*/q_proj"), 0.05)
    assert (observer._scalings, observer._dropouts) == ({2.0}, {".*/q_proj": 0.05})
