"""save_steps, eval_steps and logging_steps that only the run knows: 0, -1, a share of the run, or nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options
from porter.source.parsing import parse_module

SCRIPT = """
{pin}
import json
from transformers import Trainer, TrainingArguments, AutoModelForCausalLM

config = json.load(open("config.json"))
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
args = TrainingArguments("out", report_to="none", {given})
trainer = Trainer(model, args, train_dataset=rows, eval_dataset=held)
trainer.train()
"""
OLDER = "# pip install transformers==4.40.2"
ENDS_UNSEEN = "# pip install transformers==5.2.0"  # evaluates where eval_steps are due, and at the end no more
EPOCHS = 'eval_strategy="epoch", logging_strategy="epoch", '
CUT_EPOCHS = "rt.interval(batches.steps_per_epoch, batches.steps, last=True)"
EVALUATES = 'eval_strategy="steps", '


@pytest.mark.parametrize(
    ("pin", "given", "want"),
    [
        ("", 'save_steps=config["save"]', 'FixedIntervalPolicy(rt.interval(config["save"], batches.steps))'),
        (OLDER, 'save_steps=config["save"]', 'SaveOnlyEvery(config["save"], batches.steps)'),
        (
            ENDS_UNSEEN,
            EVALUATES + 'eval_steps=config.get("eval"), logging_steps=20',
            'rt.interval(config.get("eval") or 20, batches.steps)',
        ),
        (ENDS_UNSEEN, EVALUATES + "eval_steps=0, logging_steps=20", "eval_every_n_steps=20"),
        ("", EVALUATES + "eval_steps=0, logging_steps=20", "rt.interval(20, batches.steps, last=True)"),
        ("", EVALUATES + "eval_steps=0.2", "rt.interval(0.2, batches.steps, last=True)"),
        ("", EVALUATES + "eval_steps=20, max_steps=50", "rt.interval(20, batches.steps, last=True)"),
        ("", EVALUATES + "eval_steps=20, max_steps=60", "eval_every_n_steps=20"),
        (ENDS_UNSEEN, EVALUATES + "eval_steps=20, max_steps=50", "eval_every_n_steps=20"),
        ("", EVALUATES + "eval_steps=-1", "eval_every_n_steps=batches.steps"),
        ("", EVALUATES + 'logging_steps=config["log"]', 'rt.interval(config["log"], batches.steps, last=True)'),
        (ENDS_UNSEEN, EPOCHS + "num_train_epochs=2", "eval_every_n_steps=batches.steps_per_epoch,"),
        (ENDS_UNSEEN, EPOCHS + "num_train_epochs=2", "rt.log_every(batches.steps_per_epoch,"),
        (ENDS_UNSEEN, EPOCHS + "max_steps=50", f"eval_every_n_steps={CUT_EPOCHS},"),
        (ENDS_UNSEEN, EPOCHS + 'max_steps=config["steps"]', f"eval_every_n_steps={CUT_EPOCHS},"),
        (ENDS_UNSEEN, EPOCHS + "num_train_epochs=1.5", f"rt.log_every({CUT_EPOCHS},"),
        (OLDER, "logging_steps=7", 'batches.steps_per_epoch, transformers="4.40.2", # its lines have the next'),
    ],
)
def test_what_only_the_run_knows_is_read_when_it_runs(pin: str, given: str, want: str) -> None:
    port = port_module(parse_module(SCRIPT.format(pin=pin, given=given).encode(), "train.py"), Options(processes=1))
    assert "".join(want.split()) in "".join(port.after.split()), port.after


@pytest.mark.parametrize(("steps", "every"), [(0, 30), (-1, 30), (0.2, 6), (0.21, 7), (5, 5), (50.0, 50)])
def test_an_interval_is_transformers(steps: float, every: int) -> None:
    from porter.runtime import interval

    assert interval(steps, 30) == every
    with pytest.raises(ValueError, match="None"):
        interval(None, 30)


def test_the_last_step_may_be_one_too() -> None:
    from porter.runtime import interval

    every = interval(20, 50, last=True)
    assert (every, [step for step in range(1, 51) if step % every == 0]) == (20, [20, 40, 50])
    assert [step for step in range(1, 51) if step % interval(0, 50, last=True) == 0] == [50]


@pytest.mark.parametrize(("steps", "saved"), [(0, []), (-1, []), (0.2, [6, 12, 18, 24, 30]), (11, [11, 22])])
def test_save_only_every_takes_what_save_steps_takes(steps: float, saved: list[int]) -> None:
    from porter.runtime import SaveOnlyEvery

    policy = SaveOnlyEvery(steps, 30)  # type: ignore[arg-type]
    at = [SimpleNamespace(step=step) for step in range(1, 31)]
    assert [info.step for info in at if policy.should_save(info, [], context=None)] == saved  # type: ignore[arg-type]


def test_a_share_needs_the_steps_of_the_run() -> None:
    from porter.runtime import SaveOnlyEvery

    with pytest.raises(ValueError, match="of="):
        SaveOnlyEvery(0.2)  # type: ignore[arg-type]


@pytest.mark.parametrize(("release", "saved"), [("0.8.6", []), (None, [])])
def test_arguments_that_never_save_are_taken(release: str | None, saved: list[int]) -> None:
    from porter.runtime.arguments import trl_arguments
    from porter.runtime.training.training_settings import training_config

    batches = SimpleNamespace(steps=10, steps_per_epoch=5, accumulation=1)
    for steps in (0, -1):
        args = trl_arguments(release, "TrainingArguments")("out", save_steps=steps, report_to="none")
        made = training_config(args, batches).checkpointing_options.save_decision_policy
        at = [SimpleNamespace(step=step) for step in range(1, 11)]
        assert [info.step for info in at if made.should_save(info, [], context=None)] == saved


@pytest.mark.parametrize(
    ("pin", "given"),
    [
        (ENDS_UNSEEN, ""),
        ("# pip install transformers==4.51.0", ""),
        (OLDER, 'lr_scheduler_type="constant"'),
        (OLDER, 'logging_strategy="no"'),
    ],
)
def test_lines_whose_rate_no_release_changes_name_none(pin: str, given: str) -> None:
    port = port_module(parse_module(SCRIPT.format(pin=pin, given=given).encode(), "train.py"), Options(processes=1))
    assert "transformers=" not in "".join(port.after.split("rt.log_every(")[1:]), port.after
