"""LoRA as the port writes it: literal Qwix rules where the model is known, `rt.lora_rules` where only the script is."""

from __future__ import annotations

import pytest

from ..engine.porting import PLAIN, check_becomes, port

SCRIPT = "from peft import LoraConfig\n" + PLAIN


def script(lora: str, model: str = "'Qwen/Qwen3-0.6B'") -> str:
    text = SCRIPT.replace("'Qwen/Qwen3-0.6B'", model)
    return text.replace("train_dataset=rows", f"train_dataset=rows, peft_config=LoraConfig({lora})")


def test_without_lora_there_is_none() -> None:
    assert "qwix" not in port(PLAIN).after


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ("'Qwen/Qwen3-0.6B'", '".*/(q_proj|k_proj|v_proj|o_proj)", rank=16, alpha=32.0'),
        ("'google/gemma-3-1b-it'", '".*/(q_einsum|attn_vec_einsum)", rank=16, alpha=32.0'),
        ("'google/gemma-3-1b-it'", '".*/kv_einsum", rank=32, alpha=64.0, lora_a_initializer=rt.PEFT_INIT)'),
    ],
)
def test_names_of_the_family(model: str, rule: str) -> None:
    lora = "r=16, lora_alpha=32, target_modules=['q_proj', 'k_proj', 'v_proj', 'o_proj']"
    after = check_becomes(script(lora, model), "rt.apply_lora(model, lora, mesh, seed=42, targets=['q_proj'").after
    assert rule in " ".join(after.split()).replace("module_path= ", "")


def test_a_fused_layer_says_whose_it_is() -> None:
    after = port(script("r=8, target_modules=['k_proj', 'v_proj']", "'google/gemma-2-2b'")).after
    assert "rank=16, alpha=16.0" in after and "# K and V, 8 each" in after and "rt.separate_kv(model)" in after


def test_one_part_of_a_fused_layer() -> None:
    after = port(script("r=8, target_modules=['q_proj', 'v_proj']", "'google/gemma-2-2b'")).after
    assert "each" not in after and "rank=8" in after


def test_constants_stay_constants() -> None:
    text = script("r=R, lora_alpha=2 * R, target_modules='all-linear'").replace("rows =", "R = 4\nrows =", 1)
    assert "rank=R, alpha=2 * R" in port(text).after


def test_what_the_script_decides_is_decided_when_it_runs() -> None:
    after = port(script("r=rank(), target_modules=names")).after
    assert "rt.LoraProvider(rt.lora_rules(model, r=rank(), lora_alpha=8, target_modules=names))" in after
    assert "targets=names" in after


def test_an_unknown_model_too() -> None:
    after = port(script("r=8, lora_alpha=16", "model_name")).after
    assert "rt.lora_rules(model, r=8, lora_alpha=16)" in after


@pytest.mark.parametrize("lora", ["use_dora=True", "modules_to_save=['lm_head']", "bias='all'"])
def test_what_qwix_has_not_is_said(lora: str) -> None:
    found = port(script(f"r=8, {lora}"))
    assert found.status == "partial" and f"LoraConfig.{lora.split('=')[0]}" in found.after


def test_targets_that_no_layer_has() -> None:
    found = port(script("r=8, target_modules=['query_key_value']"))
    assert found.status == "partial" and "query_key_value" in found.findings[-1].message + found.after


def test_rank_stabilised_scale() -> None:
    after = port(script("r=16, lora_alpha=16, use_rslora=True, target_modules=['q_proj']")).after
    assert "alpha=64.0" in after and "for rsLoRA" in after


def test_an_annotation_goes_with_its_class() -> None:
    text = script("r=4").replace("peft_config=LoraConfig(r=4)", "peft_config=lora")
    text = text.replace("trainer = ", "lora: LoraConfig = LoraConfig(r=4)\ntrainer: SFTTrainer = ", 1)
    check_becomes(text, "\nlora = rt.LoraProvider(", gone=("LoraConfig", "SFTTrainer"))


@pytest.mark.parametrize(
    "settings",
    [
        "lora_alpha=None",
        "r='16'",
        "target_modules='[2J'",
        "rank_pattern=5",
        "rank_pattern={'q_proj': 'x'}",
    ],
)
def test_values_that_peft_does_not_take_are_named(settings: str) -> None:
    base = {"target_modules": "['q_proj']"} if "target" not in settings else {}
    lora = ", ".join([*(f"{name}={value}" for name, value in base.items()), settings])
    found = port(script(lora))
    assert [finding.rule for finding in found.findings if finding.severity == "error"] == ["TP201"]
