"""What a torch script asks to be saved, where a trainer makes its own arguments of the script's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import TrainingArguments

from porter.validate.jax_side.observe_jax import patch_trainer
from porter.validate.torch_side.asked_for import ASKED, asked_for, named_folder, stops_early
from porter.validate.torch_side.observer_torch import Observer
from tests.validate import forked

TEXT = """
import sys
from dataclasses import replace
from types import SimpleNamespace
from transformers import TrainingArguments
from porter.validate.observing.settings import Settings
from porter.validate.torch_side.observe_arguments import patch_arguments
notes = SimpleNamespace(note=lambda line: None, output=lambda path: sys.argv[1])
made = TrainingArguments.__post_init__
def off_in_one_process(self):  # as transformers 4.46 to 4.56 have it
    made(self)
    self.average_tokens_across_devices = False
TrainingArguments.__post_init__ = off_in_one_process
patch_arguments(Settings(work=sys.argv[1], steps=2, dtype="float32"), notes)
first = TrainingArguments("out", save_strategy="epoch")
again = TrainingArguments(**{**first.to_dict(), "accelerator_config": None})
replaced = replace(again, gradient_checkpointing=False)  # as TRL's SFTTrainer does for an adapter
print(again._porter_asked["save_strategy"], replaced._porter_asked["save_strategy"], str(again.save_strategy.value))
from porter.validate.torch_side.asked_for import asked_in_the_end
again.output_dir, again.save_strategy = "elsewhere", "steps"
asked = asked_in_the_end(again)
print(asked["output_dir"], asked["save_strategy"], again.save_strategy.value, again.output_dir)
from porter.validate.torch_side.asked_for import without_reports
setattr(again, "report_to", ["tensorboard"])
setattr(again, "load_best_model_at_end", True)
without_reports(again)
print(again.report_to, asked_in_the_end(again)["best"], again.load_best_model_at_end)
print(again.average_tokens_across_devices)
notes.output = lambda path: __import__("os").path.abspath(path)
named = TrainingArguments("./a_b/out", save_strategy="epoch")
named.output_dir = named.output_dir.replace("_", "-")
anew = TrainingArguments(**{**TrainingArguments("./out").to_dict(), "accelerator_config": None})
own = TrainingArguments("./out", save_strategy="no")
print(asked_in_the_end(named)["output_dir"], anew._porter_asked["save_strategy"], own._porter_asked["save_strategy"])
"""


def test_arguments_made_of_others_still_ask_for_checkpoints(tmp_path: Path) -> None:
    done = forked.run(TEXT, tmp_path, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    first, assigned, off, averages, named = done.stdout.splitlines()
    assert first.split() == ["epoch", "epoch", "no"]
    assert assigned.split() == ["elsewhere", "steps", "no", "elsewhere"]  # saving itself stays off
    assert off == "[] True False"  # so do trackers and the best checkpoint
    assert averages == "True"  # of the processes that one stands for
    assert named.split() == ["./a-b/out", "steps", "no"]  # the script's own name, whatever this machine's folders are


def test_an_empty_output_dir_is_the_current_folder() -> None:
    assert (named_folder(""), named_folder(None), named_folder("out")) == ("", "trainer_output", "out")


@pytest.mark.parametrize(("strategy", "uploads"), [("end", False), ("every_save", True), ("checkpoint", True)])
def test_checkpoints_are_uploaded_but_for_the_strategy_end(strategy: str, uploads: bool, tmp_path: Path) -> None:
    args = TrainingArguments(str(tmp_path), save_steps=2, push_to_hub=True, hub_model_id="me/it", hub_strategy=strategy)
    said: dict[str, Any] = {}
    events: Any = SimpleNamespace(add=lambda kind, path=None, *rest, **more: said.update({kind: path}))
    asked = {"save_strategy": "steps", "output_dir": str(tmp_path), "best": None}
    ASKED[str(tmp_path)] = args._porter_asked = asked  # type: ignore[attr-defined]
    state: Any = SimpleNamespace(max_steps=4, save_steps=2, logging_steps=1)
    asked_for(events, args, state, range(4))
    assert "checkpoints" in said
    assert ("upload" in said) is uploads
    assert said.get("upload", str(tmp_path)) == str(tmp_path)  # of what is copied there from a checkpoint


@pytest.mark.parametrize(
    ("given", "best"),
    [
        ({"eval_strategy": "steps", "metric_for_best_model": "loss", "save_total_limit": 2}, True),
        ({"eval_strategy": "steps", "metric_for_best_model": "loss"}, False),
        ({"metric_for_best_model": "loss", "save_total_limit": 2}, False),
        ({"eval_strategy": "steps", "save_total_limit": 2}, False),
    ],
)
def test_a_named_metric_spares_the_best_checkpoint(given: dict[str, Any], best: bool, tmp_path: Path) -> None:
    args = TrainingArguments(str(tmp_path), save_steps=2, **given)
    found: dict[str, Any] = {}
    events: Any = SimpleNamespace(add=lambda kind, *rest, **more: found.update(more))
    args._porter_asked = {"save_strategy": "steps", "output_dir": str(tmp_path), "best": False}  # type: ignore[attr-defined]
    state: Any = SimpleNamespace(max_steps=4, save_steps=2, logging_steps=1, eval_steps=2)
    asked_for(events, args, state, range(4))
    assert found["best"] is best


@pytest.mark.parametrize(
    ("trained", "step", "most", "stopped", "whole"),
    [
        (4, 4, 60, False, True),
        (3, 3, 60, False, False),
        (3, 3, 60, True, True),  # steps take so long that these are compared
        (2, 2, 2, False, True),
        (0, 0, 0, False, False),
    ],
)
def test_a_training_is_whole_with_its_steps_however_it_ends(
    trained: int, step: int, most: int, stopped: bool, whole: bool
) -> None:
    """A callback that fails in on_train_end, say: the source's steps are compared all the same."""
    observer: Any = SimpleNamespace(steps=[None] * trained, settings=SimpleNamespace(steps=4), stopped=stopped)
    trainer = SimpleNamespace(state=SimpleNamespace(global_step=step, max_steps=most))
    assert Observer.has_all_steps(observer, trainer) is whole


@pytest.mark.real
@pytest.mark.parametrize("whole", [True, False])
def test_a_port_that_fails_behind_its_steps_is_compared_as_its_source_is(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tunix.sft.peft_trainer import PeftTrainer

    for name in ("__init__", "train", "_post_process_train_step", "_write_metrics", "close"):
        monkeypatch.setattr(PeftTrainer, name, getattr(PeftTrainer, name))
    told: list[Any] = []
    observer: Any = SimpleNamespace(has_all_steps=whole, finished=told.append, done=False, begin=lambda trainer: None)
    observer.batches = lambda trainer, batches: batches
    patch_trainer(observer)
    trainer = PeftTrainer.__new__(PeftTrainer)  # which has nothing to train: it fails there
    trainer.metrics_logger, trainer.metrics_prefix = SimpleNamespace(metric_exists=lambda *names: False), ""
    with pytest.raises(AttributeError):
        trainer.train([])
    assert told == [trainer] * whole


@pytest.mark.parametrize("best", [True, False])
def test_early_stopping_sees_the_best_checkpoint_that_the_script_keeps(best: bool) -> None:
    """transformers 4.46 asserts it when training begins; the observer keeps no checkpoint."""

    class EarlyStopping:
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            assert args.load_best_model_at_end, "EarlyStoppingCallback requires load_best_model_at_end = True"

    stops_early(EarlyStopping)
    args = SimpleNamespace(load_best_model_at_end=False, _porter_asked={"best": best})
    if best:
        EarlyStopping().on_train_begin(args, None, None, model=None)
    else:
        with pytest.raises(AssertionError):
            EarlyStopping().on_train_begin(args, None, None)
    assert args.load_best_model_at_end is False


PUSHED = """
import sys
from pathlib import Path
from types import SimpleNamespace
import transformers
from porter.validate.observing.events import Events
from porter.validate.torch_side.asked_for import watch_outputs
events = Events(Path("."), Path("."), "train.py")
watch_outputs(SimpleNamespace(events=events, substitutes=SimpleNamespace(note=lambda line: None)))
class Own(transformers.Trainer):
    def __init__(self): self.args = SimpleNamespace(output_dir="out", hub_model_id=None)
    def save_model(self, **kwargs): print("saved")
class WithCard(Own):
    def create_model_card(self, model_name=None, dataset_name=None, tags=None): pass
for cls, word in ((Own, "language"), (Own, "repo_id"), (WithCard, "language")):
    try:
        cls().push_to_hub("done", token="x", **{word: "me/it"})
        print(events.found[-1]["items"])
    except TypeError as error:
        print(error)
transformers.LlamaConfig(num_hidden_layers=1).push_to_hub("me/config")  # its class has a copy of the mixin's
print(events.found[-1]["items"])
"""


def test_keywords_that_the_trainer_s_upload_does_not_know_end_it_as_they_do_in_the_library(tmp_path: Path) -> None:
    """It hands them on to the model card: nothing is uploaded to the repository that `repo_id` names."""
    done = forked.run(PUSHED, cwd=tmp_path)

    assert done.stdout.splitlines() == [
        *("saved", "['out']"),
        *("saved", "got an unexpected keyword argument 'repo_id'"),
        *("saved", "got an unexpected keyword argument 'language'"),
        "['me/config']",
    ], done.stderr
