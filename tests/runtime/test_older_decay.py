"""Which weights older transformers decayed, by the lists of `Trainer.get_decay_parameter_names` of those releases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from porter.runtime.facts.families import find_family
from porter.runtime.training.optimizers import decay_mask_but, older_decay_mask

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


def _tree(names: list[str]) -> dict[str, Any]:
    """A tree of parameters with these dotted names."""
    found: dict[str, Any] = {}
    for name in names:
        *above, last = name.split(".")
        held = found
        for part in above:
            held = held.setdefault(part, {})
        held[last] = 0.0
    return found


@pytest.mark.parametrize(
    ("without", "kept"),
    [
        (["bias", "LayerNorm.weight"], [True] * 6),
        (["bias", "layernorm.weight"], [True, False, True, True, True, True]),
        (["norm.weight"], [True, False, False, False, True, True]),
        (["lora_A"], [True, True, True, True, True, False]),
        (["embed"], [True, True, True, True, False, True]),
    ],
)
def test_weights_of_a_scripts_own_groups_are_told_by_their_names(without: list[str], kept: list[bool]) -> None:
    family = find_family(hub_id="Qwen/Qwen3-0.6B")
    assert family is not None
    model = SimpleNamespace(porter=SimpleNamespace(family=family, sizes=family.known_sizes("Qwen/Qwen3-0.6B")))
    names = [
        "layers.3.attn.q_proj.w",
        "layers.3.input_layernorm.w",
        "layers.3.attn.q_norm.w",
        "final_norm.w",
        "embedder.input_embedding",
        "layers.3.mlp.up_proj.kernel_lora_a",
    ]
    found = decay_mask_but(model, without)(_tree(names))
    said = []
    for name in names:
        held = found
        for part in name.split("."):
            held = held[part]
        said.append(held)
    assert said == kept


def test_a_weight_of_no_checkpoint_is_an_error() -> None:
    family = find_family(hub_id="Qwen/Qwen3-0.6B")
    assert family is not None
    model = SimpleNamespace(porter=SimpleNamespace(family=family, sizes=family.known_sizes("Qwen/Qwen3-0.6B")))
    with pytest.raises(ValueError, match="not known"):
        decay_mask_but(model, ["bias"])(_tree(["layers.3.own.w"]))
