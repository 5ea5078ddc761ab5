"""PEFT's target_modules on the family tables: which linears, which ranks, and the Qwix rules for them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from porter.runtime.facts import peft_targets
from porter.runtime.facts.families import find_family
from porter.runtime.facts.family import Family
from porter.runtime.facts.lora_targets import port_rules, resolve, rules
from porter.runtime.facts.peft_targets import LoraSpec

SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
REGEX = r"^(?!.*vision).*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)$"


def known(hub_id: str) -> tuple[Family, dict[str, Any]]:
    family = find_family(hub_id=hub_id)
    assert family is not None
    sizes = family.known_sizes(hub_id)
    assert sizes is not None
    return family, sizes


def written(hub_id: str, **config: Any) -> list[tuple[str, int, float]]:
    family, sizes = known(hub_id)
    sites = resolve(family, sizes, LoraSpec.read(config))
    return [(rule.module_path, rule.rank, rule.alpha) for rule in rules(family, sizes, sites)]


def adapted(hub_id: str, **config: Any) -> list[str]:
    family, sizes = known(hub_id)
    return [block.hf for site in resolve(family, sizes, LoraSpec.read(config)) for block in site.blocks]


def test_separate_projections_make_one_rule() -> None:
    assert written("Qwen/Qwen3-8B", r=16, lora_alpha=32, target_modules=SEVEN) == [
        (".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)", 16, 32.0)
    ]


@pytest.mark.parametrize("targets", [SEVEN, REGEX, "all-linear"])
def test_k_and_v_share_a_weight_in_gemma(targets: Any) -> None:
    assert written("google/gemma-3-4b-it", r=64, lora_alpha=64, target_modules=targets) == [
        (".*/(q_einsum|attn_vec_einsum|gate_proj|up_proj|down_proj)", 64, 64.0),
        (".*/kv_einsum", 128, 128.0),
    ]


def test_all_three_share_a_weight_without_grouped_heads() -> None:
    assert written("google/gemma-7b", r=4, target_modules=["q_proj", "k_proj", "v_proj"]) == [
        (".*/qkv_einsum", 12, 24.0)
    ]
    assert written("google/gemma-7b", r=4, target_modules=["v_proj"]) == [(".*/qkv_einsum", 4, 8.0)]


def test_global_layers_of_gemma_4_have_a_k_of_their_own() -> None:
    found = written("google/gemma-4-31b-it", r=8, target_modules=["q_proj", "k_proj", "v_proj"])
    assert found == [(".*/(q_einsum|k_einsum)", 8, 8.0), (".*/kv_einsum", 16, 16.0)]
    assert written("google/gemma-4-31b-it", target_modules=["v_proj"]) == [(".*/kv_einsum", 8, 8.0)]


def test_layers_that_share_keys_and_values_have_no_adapter_for_them() -> None:
    _, sizes = known("google/gemma-4-e2b-it")
    names = adapted("google/gemma-4-e2b-it", target_modules=["k_proj"])
    assert len(names) == sizes["layers"] - sizes["kv_shared"]


def test_some_layers_are_written_out() -> None:
    assert written("Qwen/Qwen3-8B", target_modules=["q_proj", "up_proj"], layers_to_transform=[0, 35]) == [
        ("layers/(0|35)/(attn/q_proj|mlp/up_proj)", 8, 8.0)
    ]
    assert written("Qwen/Qwen3-8B", target_modules=["q_proj"], layers_to_transform=3) == [
        ("layers/3/attn/q_proj", 8, 8.0)
    ]


def test_rank_and_alpha_patterns() -> None:
    found = written("Qwen/Qwen3-8B", target_modules=["q_proj", "o_proj"], rank_pattern={"o_proj": 2})
    assert found == [(".*/q_proj", 8, 8.0), (".*/o_proj", 2, 8.0)]
    one = written("Qwen/Qwen3-8B", target_modules=["q_proj"], alpha_pattern={r"layers\.0\..*": 2})
    numbers = "|".join(map(str, range(1, 36)))
    assert one == [("layers/0/attn/q_proj", 8, 2.0), (f"layers/({numbers})/attn/q_proj", 8, 8.0)]
    assert written("Qwen/Qwen3-8B", r=16, lora_alpha=4, target_modules=["q_proj"], use_rslora=True)[0][2] == 16.0


def test_k_and_v_of_different_ranks_need_the_same_scale() -> None:
    same = {"rank_pattern": {"v_proj": 4}, "alpha_pattern": {"v_proj": 4}}
    assert written("google/gemma-3-4b-it", target_modules=["k_proj", "v_proj"], **same) == [(".*/kv_einsum", 12, 12.0)]
    with pytest.raises(ValueError, match=r"kv_einsum is one weight in Tunix.*v_proj: 2"):
        written("google/gemma-3-4b-it", target_modules=["k_proj", "v_proj"], rank_pattern={"v_proj": 4})


def test_excluded_modules_win() -> None:
    names = adapted("Qwen/Qwen3-8B", target_modules=SEVEN, exclude_modules=["mlp.up_proj", "layers.0.self_attn.q_proj"])
    assert not any(name.endswith("up_proj") for name in names)
    assert "model.layers.0.self_attn.q_proj" not in names and "model.layers.1.self_attn.q_proj" in names


def test_pefts_default_by_architecture() -> None:
    assert written("Qwen/Qwen3-8B") == [(".*/(q_proj|v_proj)", 8, 8.0)]
    with pytest.raises(ValueError, match="no default target_modules for model_type 'gemma3'"):
        written("google/gemma-3-4b-it")


def test_names_inside_a_multimodal_model() -> None:
    assert adapted("google/gemma-3-4b-it", target_modules=["q_proj"])[0] == (
        "model.language_model.layers.0.self_attn.q_proj"
    )
    family, sizes = known("google/gemma-3-4b-it")
    assert peft_targets.beyond_text(family, sizes, LoraSpec(target_modules=SEVEN))
    assert not peft_targets.beyond_text(family, sizes, LoraSpec(target_modules=REGEX))


def test_what_cannot_be_adapted_is_named() -> None:
    with pytest.raises(ValueError, match=r"matches no linear of this model; it has .*q_proj.*model\.layers\.0\."):
        adapted("Qwen/Qwen3-8B", target_modules=["qproj"])
    with pytest.raises(ValueError, match=r"covers model\.embed_tokens: Qwix cannot adapt embeddings"):
        adapted("Qwen/Qwen3-8B", target_modules=["q_proj", "embed_tokens"])
    with pytest.raises(ValueError, match="covers lm_head, which is the embedding"):
        adapted("Qwen/Qwen3-0.6B", target_modules=["q_proj", "lm_head"])
    assert adapted("Qwen/Qwen3-8B", target_modules=["lm_head"]) == ["lm_head"]
    assert "lm_head" not in adapted("Qwen/Qwen3-8B", target_modules="all-linear")


@pytest.mark.parametrize(
    "config",
    [
        {"use_dora": True},
        {"bias": "all"},
        {"modules_to_save": ["lm_head"]},
        {"lora_bias": True},
        {"target_parameters": ["experts.gate_up_proj"]},
        {"trainable_token_indices": [1]},
        {"init_lora_weights": "pissa"},
        {"init_lora_weights": "olora"},
    ],
)
def test_settings_without_a_counterpart_are_refused_by_name(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(config))):
        LoraSpec.read({"target_modules": ["q_proj"], **config})


def test_settings_that_change_nothing_are_accepted() -> None:
    harmless = {
        "use_dora": False,
        "bias": "none",
        "modules_to_save": None,
        "loftq_config": {},
        "task_type": "CAUSAL_LM",
    }
    assert LoraSpec.read({"r": 4, **harmless}) == LoraSpec(r=4)


def test_a_rule_matches_what_it_should_and_nothing_else() -> None:
    for hub_id in ("Qwen/Qwen3-8B", "google/gemma-3-4b-it", "google/gemma-4-31b-it", "google/gemma-4-e2b-it"):
        family, sizes = known(hub_id)
        for targets in (SEVEN, ["k_proj"], ["mlp.gate_proj"], [".".join(["layers", "1", "self_attn", "q_proj"])]):
            sites = resolve(family, sizes, LoraSpec(target_modules=targets))
            patterns = [rule.module_path for rule in rules(family, sizes, sites)]
            wanted = {site.path for site in sites}
            for linear in family.linears(sizes):
                hits = sum(bool(re.fullmatch(pattern, linear.tunix)) for pattern in patterns)
                assert hits == (linear.tunix in wanted), (hub_id, linear.tunix)


def test_a_port_of_a_model_of_unknown_size() -> None:
    qwen3, gemma = find_family("Qwen3ForCausalLM"), find_family("GemmaForCausalLM")
    assert qwen3 is not None and gemma is not None
    spec = LoraSpec(target_modules=["q_proj", "v_proj"])
    found = port_rules(qwen3, None, spec)
    assert found is not None and [rule.module_path for rule in found] == [".*/(q_proj|v_proj)"]
    assert port_rules(gemma, None, spec) is None  # the 2B and the 7B hold q, k and v differently


@pytest.mark.parametrize(
    "settings",
    [{"target_modules": "[2J"}, {"exclude_modules": "(", "target_modules": "all-linear"}, {"rank_pattern": {"(": 4}}],
)
def test_what_is_no_regular_expression_is_refused(settings: dict[str, Any]) -> None:
    family = find_family("Qwen3ForCausalLM")
    spec = LoraSpec(**{"target_modules": ["q_proj"], **settings})
    with pytest.raises(ValueError, match="is no regular expression"):
        port_rules(family, family.known_sizes("Qwen/Qwen3-0.6B"), spec)
