"""What a torch script asks to be left behind or sent: checkpoints, log lines, uploads, saves, evaluations.

Checkpoints are asked for and not written: the steps are those at which the release's own flow would save.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..observing.events import Events

if TYPE_CHECKING:
    from .observer_torch import Observer

MOST_STEPS = 200_000  # of a run whose flow is asked step by step
ASKED: dict[str, dict[str, Any]] = {}  # by the folder that a script names


class Taken(str):
    """A folder in the script's copy, by the name that the script gave it, of arguments whose saving is turned off.

    The script may make another name of it: a path of this machine would be another text.
    """


def keep_asked(args: Any, *, half: bool = False) -> None:
    """Remember what a script's arguments say of saving and of autocast (`half`), before the observer turns both off."""
    asked, strategy = getattr(args, "_porter_asked", None), getattr(args.save_strategy, "value", args.save_strategy)
    made_anew = isinstance(args.output_dir, Taken) or Path(str(args.output_dir)).is_absolute()
    if asked is None and strategy == "no" and made_anew and str(args.output_dir) in ASKED:
        asked = ASKED[str(args.output_dir)]  # arguments made anew from others, which were turned off already
    args._porter_asked = asked or {
        "save_strategy": strategy,
        "best": bool(getattr(args, "load_best_model_at_end", False)),
        "output_dir": named_folder(args.output_dir),
        "half": half,
    }


def named_folder(output_dir: Any) -> Any:
    """The folder that transformers takes: its own name for None; "" is the current one."""
    return "trainer_output" if output_dir is None else output_dir


def taken_folder(name: Any, place: str) -> str:
    """What arguments have for a folder `name`, of which the writes go to `place`: the name where that is the place."""
    text = str(name)
    return Taken(text) if text and not os.path.isabs(text) and os.path.abspath(text) == place else place


def keep_turned_off(args: Any) -> None:
    """Remember what the observer has put in the place of the script's values: what is another later is the script's."""
    args._porter_turned_off = {"save_strategy": args.save_strategy, "output_dir": args.output_dir}


def stops_early(cls: Any) -> None:
    """transformers' EarlyStoppingCallback `cls` sees that the script keeps the best checkpoint, which is turned off.

    Releases before 4.49 stop a training that doesn't ask for it.
    """
    begin = cls.on_train_begin

    @functools.wraps(begin)
    def on_train_begin(self: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
        asked, off = getattr(args, "_porter_asked", None), args.load_best_model_at_end
        args.load_best_model_at_end = off or bool(asked and asked["best"])
        try:
            return begin(self, args, *rest, **kwargs)
        finally:
            args.load_best_model_at_end = off

    cls.on_train_begin = on_train_begin


def without_reports(args: Any) -> None:
    """No tracker for a trainer that is made of `args`, also where a script named one after these were made."""
    if getattr(args, "_porter_turned_off", None) is not None:
        args.report_to = []


def asked_in_the_end(args: Any) -> dict[str, Any] | None:
    """What a script's arguments ask for, with what it assigned to them after they were made; saving is off again."""
    asked, off = getattr(args, "_porter_asked", None), getattr(args, "_porter_turned_off", None)
    if asked is None or off is None:
        return asked
    asked = dict(asked)
    if args.output_dir != off["output_dir"]:
        asked["output_dir"] = args.output_dir
    if args.save_strategy != off["save_strategy"]:
        asked["save_strategy"] = getattr(args.save_strategy, "value", args.save_strategy)
        args.save_strategy = off["save_strategy"]
    if getattr(args, "load_best_model_at_end", False):
        asked["best"], args.load_best_model_at_end = True, False
    return asked


def _spares_best(args: Any, limit: int | None) -> bool:
    """Whether save_total_limit leaves the best checkpoint, without load_best_model_at_end."""
    strategy = getattr(args, "eval_strategy", None) or getattr(args, "evaluation_strategy", "no")  # before 4.41
    evaluates = getattr(strategy, "value", strategy) != "no"
    return evaluates and limit is not None and getattr(args, "metric_for_best_model", None) is not None


def asked_for(events: Events, args: Any, state: Any, batches: Any) -> None:
    """The checkpoints and log lines of the whole run as `args` asks for them, told when training begins."""
    asked = asked_in_the_end(args)
    if asked is None or state.max_steps > MOST_STEPS:
        return
    args._porter_asked = asked
    ASKED[str(args.output_dir)] = asked
    steps = saved_steps(args, state, epoch_steps(args, state, batches), asked["save_strategy"])
    if steps is not None:
        limit = args.save_total_limit if args.save_total_limit and args.save_total_limit > 0 else None
        more = {"kept": limit, "best": asked["best"] or _spares_best(args, limit), "horizon": int(state.max_steps)}
        events.add("checkpoints", asked["output_dir"], steps, **more)
        strategy = getattr(args, "hub_strategy", "")  # "end" uploads in save_model alone
        if getattr(args, "push_to_hub", False) and steps and getattr(strategy, "value", strategy) != "end":
            events.add("upload", asked["output_dir"], [repository(args)])  # of what it copies there from the checkpoint
    strategy = str(getattr(args.logging_strategy, "value", args.logging_strategy))
    every = getattr(state, "logging_steps", None) or args.logging_steps
    if strategy == "epoch":
        every = epoch_steps(args, state, batches)
    elif 0 < every < 1:
        every = math.ceil(every * state.max_steps)
    if strategy != "no":
        events.add("log", items=[int(every)])


def saved_steps(args: Any, state: Any, epoch: int, strategy: Any) -> list[int] | None:
    """The steps of the whole run at which this release saves; None where it decides by what it measures ("best")."""
    from transformers import TrainerControl
    from transformers.trainer_callback import DefaultFlowCallback

    try:
        kind = type(args.save_strategy)(str(strategy))
    except ValueError:
        return None
    if kind.value == "best":
        return None
    args, state = copy.copy(args), copy.copy(state)
    args.save_strategy = kind
    if not getattr(state, "save_steps", None) and 0 < (args.save_steps or 0) < 1:
        args.save_steps = math.ceil(args.save_steps * state.max_steps)
    flow, found = DefaultFlowCallback(), []
    for step in range(1, int(state.max_steps) + 1):
        state.global_step, state.epoch, control = step, step / epoch, TrainerControl()
        flow.on_step_end(args, state, control)
        if step % epoch == 0 or step == state.max_steps:
            flow.on_epoch_end(args, state, control)
        if control.should_save:
            found.append(step)
    return found


def epoch_steps(args: Any, state: Any, batches: Any) -> int:
    """Optimizer steps of an epoch: of whole epochs their share of the run, else from the batches."""
    epochs = float(args.num_train_epochs)
    if args.max_steps <= 0 and epochs.is_integer() and epochs > 0 and state.max_steps % epochs == 0:
        return max(int(state.max_steps // epochs), 1)
    try:
        return max(math.ceil(len(batches) / args.gradient_accumulation_steps), 1)
    except TypeError:  # streamed
        return max(int(state.max_steps), 1)


def repository(args: Any) -> str:
    """The repository that a Trainer uploads to."""
    asked = getattr(args, "_porter_asked", {}).get("output_dir", args.output_dir)
    return str(getattr(args, "hub_model_id", None) or Path(str(asked)).absolute().name)


def watch_outputs(observer: Observer) -> None:
    """Saves, uploads and evaluations are events; nothing goes to the Hub."""
    import transformers

    events, tell = observer.events, observer.substitutes.note
    events.watch_saves(transformers.PreTrainedModel, "model")
    events.watch_saves(transformers.PreTrainedTokenizerBase, "tokenizer")
    try:
        import peft
    except ImportError:
        pass
    else:
        events.watch_saves(peft.PeftModel, "adapter")
    events.watch_uploads(tell=tell)
    trainer = transformers.Trainer

    push, card = inspect.signature(trainer.push_to_hub), trainer.create_model_card

    def pushed(self: Any, *args: Any, **kwargs: Any) -> None:
        self.save_model(_internal_call=True)  # as transformers does first
        _check_card(self, card, push.bind(self, *args, **kwargs).arguments.get("kwargs", {}))
        tell("nothing was pushed to the Hub")
        events.add("upload", items=[repository(self.args)])

    events.watch(trainer, "push_to_hub", pushed, instead=None)
    for name in ("init_hf_repo", "init_git_repo", "_push_from_checkpoint", "_finish_current_push"):
        events.watch(trainer, name, lambda *a, **k: None, instead=None)
    events.watch(trainer, "create_model_card", lambda *a, **k: events.add("card"), instead=None)
    events.watch(trainer, "save_state", lambda *a, **k: events.add("state"))
    for name in ("save_metrics", "log_metrics"):
        events.watch(trainer, name, lambda *a, **k: events.add("metrics"))
    _watch_evaluations(trainer, events)


def _check_card(trainer: Any, card: Any, asked: dict[str, Any]) -> None:
    """TypeError for what `push_to_hub` is `asked` beside its own keywords and the model card doesn't take."""
    import transformers

    own = type(trainer).create_model_card  # TRL has cards of its own
    inspect.signature(card if own is transformers.Trainer.create_model_card else own).bind(trainer, **asked)


def _watch_evaluations(trainer: Any, events: Events) -> None:
    evaluate, train = trainer.evaluate, trainer.train
    count, busy = 0, False

    @functools.wraps(train)
    def trained(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal busy
        busy = True  # its own evaluations are told as they come; those of a second training aren't compared
        try:
            return train(self, *args, **kwargs)
        finally:
            busy = False

    @functools.wraps(evaluate)
    def patched(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        found = evaluate(self, *args, **kwargs)
        if not busy:
            prefix = kwargs.get("metric_key_prefix", "eval")
            loss = found.get(f"{prefix}_loss") if isinstance(found, dict) else None
            count += 1
            # Calls are told apart by their number: the same set may be evaluated twice.
            events.add("evaluation", items=[count], loss=None if loss is None else float(loss))
        return found

    trainer.evaluate, trainer.train = patched, trained
