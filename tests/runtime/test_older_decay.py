"""Which weights older transformers decayed, by the lists of `Trainer.get_decay_parameter_names` of those releases."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from porter.runtime.training.optimizers import older_decay_mask

PARAMETERS = {
    "layers": {"0": {"input_layernorm": {"w": 0.0}, "attn": {"q_proj": {"w": 0.0, "bias": 0.0}, "q_norm": {"w": 0.0}}}},
    "final_norm": {"w": 0.0},
}


@pytest.mark.parametrize(
    ("family", "transformers", "layernorm", "query_norm", "final"),
    [
        ("llama3", "4.40.2", False, False, False),
        ("qwen2", "4.45.2", True, True, True),
        ("gemma", "4.44.2", False, False, False),
        ("gemma", "4.45.2", True, True, True),
        ("qwen3", "4.51.3", False, True, True),
    ],
)
def test_norms_decay_as_in_the_release(
    family: str, transformers: str, layernorm: bool, query_norm: bool, final: bool
) -> None:
    model = SimpleNamespace(porter=SimpleNamespace(family=SimpleNamespace(name=family)))
    found = older_decay_mask(model, transformers)(PARAMETERS)
    layer = found["layers"]["0"]
    assert layer["attn"]["q_proj"] == {"w": True, "bias": False}
    assert (layer["input_layernorm"]["w"], layer["attn"]["q_norm"]["w"]) == (layernorm, query_norm)
    assert found["final_norm"]["w"] == final
