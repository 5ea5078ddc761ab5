"""What GRPO's and RLOO's batches take from the settings of a release."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers.processors import TemplateProcessing

from porter.runtime.arguments import trl_arguments
from porter.runtime.facts.generation_settings import filled_from_checkpoint
from porter.runtime.facts.releases import release
from porter.runtime.facts.releases.unsloth_grpo import parts_of, settings_of_loss, settled_by_config
from porter.runtime.generation.prompts import (
    end_tokens,
    prompt_settings,
    raised_batch_size,
    shared_settings,
    tokenised_prompts,
    whole_groups,
)
from porter.runtime.losses.policy_loss import PolicyLoss
from porter.runtime.rollouts.dealing import checked, dealt
from porter.runtime.rollouts.rewards import group_advantages

from .byte_tokens import byte_tokenizer


def settings(trl: str, kind: str, unsloth: str | None = None, of: str = "grpo", **given: Any) -> dict[str, Any]:
    return shared_settings(trl_arguments(trl, kind, unsloth=unsloth)(output_dir="out", **given), 1, of)


@pytest.mark.parametrize(
    ("kind", "trl", "longest"),
    [
        ("GRPOConfig", "0.25.1", 9),
        ("GRPOConfig", "0.26.0", None),
        ("GRPOConfig", "0.27.2", None),
        ("RLOOConfig", "0.26.2", 9),
        ("RLOOConfig", "0.27.0", None),
        ("RLOOConfig", "0.28.0", None),
    ],
)
def test_prompts_are_cut_by_the_releases_that_do(kind: str, trl: str, longest: int | None) -> None:
    assert settings(trl, kind, max_prompt_length=9)["max_prompt_length"] == longest


def prompts(kind: str, trl: str | None, rows: list[Any], longest: int | None = None, **told: Any) -> list[str]:
    """The prompts as tokens of a tokenizer that puts a start token before texts and cuts at the end."""
    tokenizer = byte_tokenizer(bos_token="<|user|>")
    start = ("<|user|>", tokenizer.bos_token_id)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<|user|> $A", special_tokens=[start])
    own = prompt_settings(kind, trl, tokenizer, told.get("start_token"), told.get("truncation_side"))
    ids = tokenised_prompts([{"prompt": row} for row in rows], tokenizer, longest, {}, **own)
    return [tokenizer.decode(row) for row in ids]


@pytest.mark.parametrize(
    ("kind", "trl", "starts", "cut"),
    [
        ("grpo", "0.14.0", False, "e?"),
        ("grpo", "0.23.1", False, "e?"),
        ("grpo", "0.24.0", False, "mo"),
        ("grpo", "0.25.1", False, "mo"),
        ("grpo", "0.26.0", True, "e?"),
        ("rloo", "0.23.1", False, "e?"),
        ("rloo", "0.26.2", False, "mo"),
        ("rloo", "0.27.0", True, "e?"),
        ("grpo", None, True, "e?"),
    ],
)
def test_prompts_that_are_text_are_those_of_the_release(kind: str, trl: str | None, starts: bool, cut: str) -> None:
    assert prompts(kind, trl, ["more?"]) == ["<|user|>more?" if starts else "more?"]
    assert prompts(kind, trl, ["more?"], 2) == [cut]
    assert prompts(kind, trl, ["more?"], 2, truncation_side="left") == ["e?"]
    assert prompts(kind, trl, ["more?"], start_token=True) == ["<|user|>more?"]


@pytest.mark.parametrize(
    ("trl", "continued"), [("0.14.0", False), ("0.15.2", True), ("0.24.0", True), ("0.25.0", False), (None, False)]
)
def test_an_answer_that_is_begun_goes_on_in_the_releases_that_do(trl: str | None, continued: bool) -> None:
    asked = [{"role": "user", "content": "q"}]
    found = prompts("grpo", trl, [asked, [*asked, {"role": "assistant", "content": "I"}], asked])
    begun = "<|user|>q<|end|><|assistant|>I"
    header = "<|user|>q<|end|><|assistant|>"
    assert found == [header, begun if continued else f"{begun}<|end|><|assistant|>", header]


def test_a_configuration_says_how_its_release_makes_prompts() -> None:
    assert settings("0.27.0", "GRPOConfig")["trl"] is None and settings("0.26.0", "GRPOConfig")["trl"]
    assert settings("0.26.0", "RLOOConfig", of="rloo")["trl"]
    assert settings("0.25.1", "GRPOConfig")["trl"] == "0.25.1"
    by_vllm = settings("0.25.1", "GRPOConfig", use_vllm=True)
    assert (by_vllm["start_token"], by_vllm["truncation_side"]) == (True, "left")
    assert settings("0.23.1", "GRPOConfig", use_vllm=True)["start_token"] is None


@pytest.mark.parametrize(("trl", "made"), [("0.15.2", False), ("0.17.0", False), ("0.20.0", True), ("0.28.0", True)])
def test_a_short_step_is_divided_as_transformers_did(trl: str, made: bool) -> None:
    assert settings(trl, "GRPOConfig")["divides_by_made"] is settings(trl, "RLOOConfig")["divides_by_made"] is made


def test_a_release_that_ignores_a_field_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    settings("0.27.2", "GRPOConfig", max_prompt_length=9)
    assert "without effect on a TPU: max_prompt_length" in capsys.readouterr().err


def test_completions_end_as_in_the_release(tmp_path: Path) -> None:
    assert settings("0.27.2", "GRPOConfig")["only_eos_token"] and settings("1.14.1", "RLOOConfig")["only_eos_token"]
    assert not settings("1.14.2", "GRPOConfig")["only_eos_token"]
    assert settings("0.16.0", "GRPOConfig")["only_eos_token"] and not settings("0.15.2", "GRPOConfig")["only_eos_token"]
    assert settings("0.15.2", "GRPOConfig")["loss_temperature"] == 1.0
    assert settings("0.16.1", "GRPOConfig")["loss_temperature"] is None
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 8]}))
    model: Any = SimpleNamespace(porter=SimpleNamespace(path=tmp_path, config={}, generation_json="{}"))
    assert end_tokens(model, SimpleNamespace(eos_token_id=7)) == (7, 8)
    assert end_tokens(model, SimpleNamespace(eos_token_id=7), only_eos_token=True) == (7,)
    assert end_tokens(model, SimpleNamespace(eos_token_id=None), only_eos_token=True) == (7, 8)


NAMES = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
GENERATION = json.loads((Path(__file__).parents[1] / "fixtures" / "generation_releases.json").read_text("utf-8"))


@pytest.mark.parametrize("transformers", GENERATION["sampled"])
def test_the_checkpoint_fills_in_what_it_did_in_the_release(tmp_path: Path, transformers: str) -> None:
    fills = release("0.24.0", transformers).checkpoint_fills
    assert fills == {"4.49.0": None, "4.50.3": "defaults", "4.57.6": "defaults", "5.12.1": "unset"}[transformers]
    neutral = {"temperature": 1.0, "top_p": 1.0}  # None is no warper in transformers
    for saved, rows in zip(GENERATION["saved"], GENERATION["sampled"][transformers], strict=True):
        (tmp_path / "generation_config.json").write_text(json.dumps(saved))
        model: Any = SimpleNamespace(porter=SimpleNamespace(path=tmp_path, config={}, generation_json="{}"))
        for asked, row in zip(GENERATION["asked"], rows, strict=True):
            theirs = {
                name: neutral.get(name) if value is None else value for name, value in zip(NAMES, row, strict=True)
            }
            assert filled_from_checkpoint(model, dict(zip(NAMES, asked, strict=True)), fills) == theirs


def test_a_script_s_own_generation_config_fills_in_too(tmp_path: Path) -> None:
    own = json.dumps({"top_p": 0.5})
    model: Any = SimpleNamespace(porter=SimpleNamespace(path=tmp_path, config={}, generation_json=own))
    assert filled_from_checkpoint(model, {"top_p": 1.0, "top_k": 0}, "defaults") == {"top_p": 0.5, "top_k": 0}
    with pytest.raises(ValueError, match="checkpoint_fills='all'"):
        filled_from_checkpoint(model, {}, "all")


def test_trl_shields_its_settings_since_it_does_and_vllm_is_told_all() -> None:
    found = {trl: trl_arguments(trl, "GRPOConfig", transformers="4.57.6") for trl in ("0.19.1", "0.26.1", "0.26.2")}
    fills = [shared_settings(kind(output_dir="out"), 1)["checkpoint_fills"] for kind in found.values()]
    assert fills == ["defaults", "defaults", None]
    by_vllm = shared_settings(found["0.19.1"](output_dir="out", use_vllm=True), 1)
    assert by_vllm["checkpoint_fills"] is None and not by_vllm["only_eos_token"]


def test_unsloth_s_config_raises_its_batch() -> None:
    assert settings("0.24.0", "GRPOConfig", "2026.8.19")["raise_batch_size"] == "step"
    assert settings("0.24.0", "GRPOConfig", "2025.11.3")["raise_batch_size"] == "micro_step"
    assert settings("0.24.0", "GRPOConfig")["raise_batch_size"] is None
    assert [raised_batch_size(rows, 2, 4, 2, "step") for rows in (1, 2, 3, 4)] == [8, 2, 8, 4]
    assert [raised_batch_size(rows, 2, 4, 2, "micro_step") for rows in (2, 4, 6, 8, 16)] == [8, 8, 8, 8, 16]


def test_unsloth_s_own_loss_by_its_release() -> None:
    assert settings_of_loss("2025.8.6") == {"loss_parts": -1, "divides_by_made": False}
    assert settings_of_loss("2026.1.4") == {"loss_parts": -1}
    assert settings_of_loss("2025.2.5") == settings_of_loss("2025.10.11") == settings_of_loss("2025.8.6")
    assert settings_of_loss("2025.10.12") == settings_of_loss("2026.2.0") == settings_of_loss("2026.1.4")
    assert settings_of_loss("2026.2.1") == settings_of_loss("2025.2.4") == settings_of_loss(None) == {}
    assert settled_by_config("2025.2.4", "bnpo", True) == ({}, {})
    assert settled_by_config("2025.2.5", "bnpo", True) == ({"loss_type": "grpo"}, {})
    assert settled_by_config("2025.5.7", "bnpo", True) == ({"loss_type": "grpo"}, {})
    assert settled_by_config("2025.5.8", "bnpo", True) == settled_by_config(None, "dapo", True) == ({}, {})
    assert settled_by_config("2025.8.6", "dr_grpo", True) == ({"loss_type": "dr_grpo"}, {"scale_rewards": False})
    assert settled_by_config("2025.8.6", "dr_grpo", "batch") == ({"loss_type": "dr_grpo"}, {})
    masked = {"mask_truncated_completions": True}
    of_dapo = {"loss_type": "dapo", "epsilon_high": 0.28}
    assert settled_by_config("2025.8.6", "dapo", True) == (of_dapo | {"loss_type": "bnpo", "beta": 0.0}, masked)
    assert settled_by_config("2025.6.4", "dapo", True) == (of_dapo, masked)
    for first, last in (("2025.6.5", "2025.8.6"), ("2025.10.11", "2025.8.6"), ("2025.10.12", "2025.11.3")):
        assert settled_by_config(first, "dapo", True) == settled_by_config(last, "dapo", True)
    assert settled_by_config("2025.11.3", "dapo", True) == (of_dapo | {"beta": 0.0}, masked)
    assert settled_by_config("2025.11.4", "dapo", True) == (of_dapo, masked)
    assert [parts_of(8, asked) for asked in (None, -1, 1, 2, 3, 5, 99)] == [1, 8, 1, 2, 4, 8, 8]


def test_groups_fill_what_is_sampled_at_once() -> None:
    assert [whole_groups(8, 4, 8, dealing) for dealing in ("shuffled", "split", "in_order")] == [4, 4, 4]
    assert whole_groups(2, 4, 8, "split") == 1
    with pytest.raises(ValueError, match="does not divide the 2 completions of a micro-step"):
        whole_groups(2, 4, 8, "in_order")


def test_the_reference_of_adapters_is_the_release_s() -> None:
    """Of 0.14 a copy of the whole model, where that came with its adapters."""
    found = [settings(trl, "GRPOConfig")["reference"] for trl in ("0.14.0", "0.15.0", "0.26.2", "0.27.0")]
    assert found == ["start", "base", "base", "start"]


def test_micro_steps_get_their_completions_as_in_the_release() -> None:
    assert [settings(trl, "GRPOConfig")["dealing"] for trl in ("0.16.1", "0.17.0", "0.18.0")] == [
        "in_order",
        "split",
        "shuffled",
    ]
    rows, orders = list(range(8)), [np.array([3, 2, 1, 0]), np.array([0, 2, 1, 3])]
    assert dealt(rows, 4, orders, "in_order") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert dealt(rows, 4, orders, "split") == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert dealt(rows, 4, orders, "shuffled") == [[3, 2, 4, 6], [1, 0, 5, 7]]
    with pytest.raises(ValueError, match="shuffled, split, in_order"):
        checked("random")


@pytest.mark.parametrize(
    ("trl", "loss", "scale"),
    [("0.14.0", "grpo", True), ("0.15.2", "grpo", True), ("0.16.0", "bnpo", "group"), ("0.22.0", "dapo", "group")],
)
def test_each_release_of_grpo_has_its_loss_and_scales_its_rewards(trl: str, loss: str, scale: str | bool) -> None:
    args = trl_arguments(trl, "GRPOConfig")(output_dir="out")
    assert (PolicyLoss.from_args(args).loss_type, args.scale_rewards) == (loss, scale)
    rewards = np.array([[1.0], [3.0]])
    given = {"scale": args.scale_rewards, "aggregation": args.multi_objective_aggregation}
    assert group_advantages(rewards, np.ones(1), 2, **given) == pytest.approx([-0.707, 0.707], abs=1e-3)
