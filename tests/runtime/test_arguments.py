"""The argument classes of ported scripts refuse what can't be ported, at start and afterwards."""

import copy
import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from porter.runtime.arguments import LoraConfig, SFTConfig, trl_arguments


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder "out" is one of the test's."""
    monkeypatch.chdir(tmp_path)


def test_a_value_that_cannot_be_ported_is_refused_when_it_is_set_later() -> None:
    args = SFTConfig(output_dir="out")
    for change in ({"eval_delay": 2}, {"save_strategy": "best"}, {"loss_type": "dft"}):
        ((name, value),) = change.items()
        with pytest.raises(ValueError, match=f"SFTConfig can't be ported with\n  {name}=") as late:
            setattr(args, name, value)
        with pytest.raises(ValueError, match="can't be ported") as early:
            SFTConfig(output_dir="out", **change)
        assert str(late.value) == str(early.value)


def test_what_can_be_ported_is_set() -> None:
    args = SFTConfig(output_dir="out", label_smoothing_factor=0.0)
    args.label_smoothing_factor = 0
    args.model_init_kwargs = {"dtype": "bfloat16"}  # as trl/scripts/sft.py does
    args.something_of_the_script = 3
    assert args.model_init_kwargs == {"dtype": "bfloat16"}
    assert copy.deepcopy(args) == args
    assert "_made" not in dataclasses.asdict(args)
    assert dataclasses.replace(args, seed=3).seed == 3


@pytest.mark.parametrize(
    ("release", "older", "today", "now"),
    [
        ("0.13.0", "max_seq_length", "max_length", 77),
        ("0.8.6", "evaluation_strategy", "eval_strategy", 77),
        ("0.19.1", "max_seq_length", "max_length", 1024),  # that release reads it when the object is made, and no more
    ],
)
def test_what_an_older_release_calls_otherwise_is_set_later(release: str, older: str, today: str, now: int) -> None:
    """The batches read today's name, which kept its first value: such a port cut its rows otherwise."""
    args = trl_arguments(release, "SFTConfig")(output_dir="out")
    setattr(args, older, 77)
    assert (getattr(args, older), getattr(args, today)) == (77, now)


def test_a_lora_config_holds_its_targets_as_peft_does() -> None:
    config = LoraConfig(r=8, target_modules=["q_proj"])
    config.target_modules.add("v_proj")
    assert config.target_modules == {"q_proj", "v_proj"}
    with pytest.raises(ValueError, match="use_dora"):
        config.use_dora = True


def test_a_lora_config_is_saved_as_peft_does(tmp_path: Path) -> None:
    trl_arguments("0.25.1", "LoraConfig")(r=4, target_modules=["v_proj", "q_proj"]).save_pretrained(tmp_path / "made")
    saved = json.loads((tmp_path / "made" / "adapter_config.json").read_text())
    assert (saved["peft_type"], saved["r"], saved["target_modules"]) == ("LORA", 4, ["q_proj", "v_proj"])
    (tmp_path / "file").touch()
    with pytest.raises(AssertionError, match="should be a directory"):
        LoraConfig().save_pretrained(tmp_path / "file")


def test_a_release_takes_an_older_name_as_long_as_it_did() -> None:
    between = trl_arguments("0.19.1", "SFTConfig")(output_dir="out", max_seq_length=9)
    assert (between.max_length, between.max_seq_length) == (9, 9)
    assert trl_arguments("0.19.1", "SFTConfig")(output_dir="out").max_length == 1024
    assert trl_arguments("0.16", "SFTConfig")(output_dir="out", evaluation_strategy="epoch").eval_strategy == "epoch"
    with pytest.raises(TypeError, match="max_seq_length"):
        trl_arguments("0.20", "SFTConfig")(output_dir="out", max_seq_length=9)


def test_a_class_extends_the_transformers_that_it_is_asked_on() -> None:
    """TRL 0.27.0's day is that of 4.57; on 5.0 it inherits other names, on 4.53 other defaults."""
    on = {release: trl_arguments("0.27.0", "SFTConfig", transformers=release) for release in (None, "4.53.3", "5.0.0")}
    assert [kind("out").optim for kind in on.values()] == ["adamw_torch_fused", "adamw_torch", "adamw_torch_fused"]
    assert [kind("out").of_transformers for kind in on.values()] == ["4.57", "4.53.3", "5.0.0"]
    assert on[None]("out", save_safetensors=True).max_length == on["5.0.0"]("out").max_length == 1024
    with pytest.raises(TypeError, match="save_safetensors"):
        on["5.0.0"]("out", save_safetensors=True)
    plain = trl_arguments("1.16.0", "TrainingArguments", transformers="4.45.2")
    assert plain("out", evaluation_strategy="epoch").eval_strategy == "epoch"
    with pytest.raises(TypeError, match="evaluation_strategy"):
        trl_arguments("1.16.0", "TrainingArguments")("out", evaluation_strategy="epoch")


def test_an_upload_that_the_port_has_no_code_for_is_refused_at_start() -> None:
    from porter.runtime import training_config

    args = SFTConfig(output_dir="out", push_to_hub=True, save_strategy="no", report_to="none")
    batches = SimpleNamespace(steps=2, steps_per_epoch=2, accumulation=1)
    with pytest.raises(ValueError, match="push_to_hub: this port was made of a script without it"):
        training_config(args, batches)
    assert training_config(args, batches, uploads=True).max_steps == 2


def test_a_trainer_that_only_evaluates_saves_nothing() -> None:
    from porter.runtime import training_config

    args = SFTConfig(output_dir="out", save_steps=1, report_to="none", resume_from_checkpoint="out/1")
    batches = SimpleNamespace(steps=2, steps_per_epoch=2, accumulation=1)
    config = training_config(args, batches, saves=False)
    assert config.checkpoint_root_directory is None and config.checkpointing_options is None


def test_the_best_checkpoint_needs_one_strategy_where_transformers_checks_that() -> None:
    from porter.runtime import training_config

    best = {"load_best_model_at_end": True, "save_strategy": "steps", "save_steps": 500}
    with pytest.raises(ValueError, match="one strategy to evaluate and save, not no and steps"):
        SFTConfig(output_dir="out", **best)
    with pytest.raises(ValueError, match="multiple of eval_steps"):
        SFTConfig(output_dir="out", eval_strategy="steps", eval_steps=200, **best)
    shares = {"eval_strategy": "steps", "eval_steps": 0.1, "save_strategy": "steps", "save_steps": 0.3}
    assert SFTConfig(output_dir="out", load_best_model_at_end=True, **shares).eval_steps == 0.1
    args = SFTConfig(output_dir="out", report_to="none")
    for name, value in best.items():
        setattr(args, name, value)
    batches = SimpleNamespace(steps=9, steps_per_epoch=9, accumulation=1)
    assert training_config(args, batches, best=True).checkpoint_root_directory is not None


@pytest.mark.parametrize(
    ("given", "spares"),
    [
        ({"eval_strategy": "steps", "metric_for_best_model": "loss", "save_total_limit": 2}, True),
        ({"eval_strategy": "steps", "metric_for_best_model": "loss"}, False),
        ({"metric_for_best_model": "loss", "save_total_limit": 2}, False),
        ({"eval_strategy": "steps", "save_total_limit": 2}, False),
    ],
)
def test_a_named_metric_spares_the_best_checkpoint(given: dict[str, Any], spares: bool) -> None:
    """As in transformers, which loads it with load_best_model_at_end alone."""
    from porter.runtime import training_config
    from porter.runtime.callbacks import best_policy

    args = SFTConfig(output_dir="out", report_to="none", **given)
    batches = SimpleNamespace(steps=2, steps_per_epoch=2, accumulation=1)
    options = training_config(args, batches, eval=True).checkpointing_options
    assert (best_policy(SimpleNamespace(checkpointing_options=options)) is not None) is spares
    assert spares or options.max_to_keep == given.get("save_total_limit")


@pytest.mark.parametrize(("release", "next_rate"), [("4.50.0", True), ("4.57.1", False)])
def test_arguments_of_transformers_own_class_are_of_the_batches_release(release: str, next_rate: bool) -> None:
    """A module of the project that the port leaves as it is makes them: they don't know what the source ran on."""
    from porter.runtime import training_config, training_hooks
    from porter.runtime.settings.intervals import EveryAndLast

    made = SFTConfig(output_dir="out", report_to="none", eval_strategy="steps", eval_steps=2, save_strategy="no")
    own = SimpleNamespace(**dataclasses.asdict(made))
    for transformers, last in ((release, False), ("5.12.1", True)):
        batches = SimpleNamespace(steps=9, steps_per_epoch=9, accumulation=1, transformers=transformers)
        every = training_config(own, batches, eval=True).eval_every_n_steps
        assert isinstance(every, EveryAndLast) is last, every
        assert training_hooks(own, batches).rate_of_next is (next_rate and not last)
    assert isinstance(training_config(made, batches, eval=True).eval_every_n_steps, EveryAndLast)
