"""DeepSpeed files that are named when the script runs: what they set, and what they contradict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from porter.runtime.arguments import SFTConfig, TrainingArguments, trl_arguments
from porter.runtime.settings.zero_config import accumulation_left_out

ZERO: dict[str, Any] = {
    "zero_optimization": {"stage": 2, "overlap_comm": True, "offload_optimizer": {"device": "none"}},
    "bf16": {"enabled": "auto"},
    "gradient_clipping": "auto",
    "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
}


def made(config: Any, **given: Any) -> Any:
    return SFTConfig(output_dir="out", deepspeed=config, gradient_accumulation_steps=4, **given)


def test_a_file_that_only_places_weights_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "zero2.json").write_text(json.dumps(ZERO))
    args = made(str(tmp_path / "zero2.json"), lr_scheduler_type="cosine", max_grad_norm=0.3)
    assert (args.max_grad_norm, args.lr_scheduler_type, args.deepspeed) == (
        0.3,
        "cosine",
        str(tmp_path / "zero2.json"),
    )
    assert "load them so (dtype=)" in capsys.readouterr().err


def test_deepspeed_clips_only_when_it_is_asked_to() -> None:
    unclipped = {name: value for name, value in ZERO.items() if name != "gradient_clipping"}
    assert made(unclipped).max_grad_norm == 0.0
    assert made(ZERO).max_grad_norm == 1.0


def test_its_schedule_takes_the_arguments_place() -> None:
    params = {"warmup_min_lr": 1e-6, "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}
    args = made(ZERO | {"scheduler": {"type": "WarmupDecayLR", "params": params}}, lr_scheduler_type="cosine")
    assert (args.lr_scheduler_type, args.lr_scheduler_kwargs) == ("WarmupDecayLR", {"warmup_min_lr": 1e-6})
    optimizer = {"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
    assert made(ZERO | optimizer, optim="adafactor").optim == "adamw_torch"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"gradient_accumulation_steps": 2}, "gradient_accumulation_steps=2: gradient_accumulation_steps is 4"),
        ({"gradient_clipping": 0.5}, "gradient_clipping=0.5: max_grad_norm is 1.0"),
        ({"bf16": {"enabled": False}}, "bf16.enabled=False: bf16 is True"),
        ({"train_batch_size": 33}, "train_batch_size=33: no number of processes"),
        ({"optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}}}, "adam_beta1 and adam_beta2 is"),
        ({"optimizer": {"type": "Muon"}}, "optimizer.type=Muon: "),
        ({"scheduler": {"type": "OneCycle"}}, "scheduler.type=OneCycle: "),
        ({"amp": {"enabled": True}}, "amp"),
        ({"quantize_training": 1}, "no setting of DeepSpeed's"),
    ],
)
def test_what_contradicts_or_has_no_counterpart_is_named(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="can't be ported with") as found:
        made(ZERO | config)
    assert said in str(found.value)


def test_its_optimizer_decays_norms_too() -> None:
    optimizer = {"optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}}}
    with pytest.raises(ValueError, match="decays norms and biases"):
        made(ZERO | optimizer, weight_decay=0.1)


def test_accumulation_that_the_file_leaves_out() -> None:
    config = {name: value for name, value in ZERO.items() if name != "gradient_accumulation_steps"}
    assert made(config).gradient_accumulation_steps == 4
    older = trl_arguments("0.12.2", "SFTConfig")
    assert older(output_dir="out", deepspeed=config).gradient_accumulation_steps == 1
    with pytest.raises(ValueError, match="each micro-batch is a step of its own"):
        older(output_dir="out", deepspeed=config, gradient_accumulation_steps=4)
    with pytest.raises(ValueError, match="has its last micro-batch alone"):
        made(config | {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})


@pytest.mark.parametrize(
    ("transformers", "accelerate", "own"),
    [
        ("4.31.0", "0.22.0", False),
        ("4.31.0", None, False),
        ("4.31.0", "0.23.0", True),
        ("4.45.2", "1.8.0", True),
        ("4.46.0", "1.7.0", True),
        ("4.46.0", "1.8.0", False),
        ("4.52.4", None, True),
        ("4.53.0", None, False),
        (None, None, False),
    ],
)
def test_the_release_decides_who_counts_micro_batches(
    transformers: str | None, accelerate: str | None, own: bool
) -> None:
    given = {"zero_optimization.stage": 2}
    assert bool(accumulation_left_out(given, transformers, accelerate)) == own
    assert not accumulation_left_out(given | {"gradient_accumulation_steps": "auto"}, transformers, accelerate)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("{")
    for name, said in (("missing.json", "can't be read: No such file"), ("no.json", "is no JSON")):
        with pytest.raises(ValueError, match=said):
            made(str(tmp_path / name))


def test_every_class_and_release_takes_one() -> None:
    assert TrainingArguments(output_dir="out", deepspeed=ZERO).deepspeed == ZERO
    assert trl_arguments("0.12.2", "SFTConfig")(output_dir="out", deepspeed=ZERO).max_grad_norm == 1.0
    with pytest.raises(ValueError, match="deepspeed="):
        SFTConfig(output_dir="out").deepspeed = "later.json"


def test_a_key_that_deepspeed_ignores_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    made(ZERO | {"gradient_checkpointing": True})
    assert "gradient_checkpointing: DeepSpeed ignores it" in capsys.readouterr().err
    with pytest.raises(ValueError, match="quantize_training"):
        made(ZERO | {"quantize_training": {"enabled": True}})
