"""transformers' TrainerCallback in Tunix's training hooks, and what callbacks see and decide.

    from porter.runtime.callbacks import EarlyStoppingCallback, TrainerCallback

The events come in the Trainer's order, each with the model of its step: on_step_end, on_log, on_evaluate and on_save of
what is done by steps, on_epoch_end, and the same of what is done by epochs.
Callbacks get `model` (Tunix's), `processing_class` and `tokenizer`. Of a control only `should_training_stop` is obeyed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
from etils import epath  # type: ignore[import-untyped]

from .facts.field_tables import version_key
from .saving.record import as_json, best_until


@dataclass(frozen=True)
class BestMetric:
    """metric_for_best_model and greater_is_better: what evaluations are compared by."""

    name: str = "eval_loss"
    greater: bool = False

    @classmethod
    def named(cls, name: str | None, greater: bool | None = None) -> BestMetric:
        """As TrainingArguments says it: without a name eval_loss, without `greater` by the name."""
        if name is None:
            return cls(greater=bool(greater))
        higher = not name.endswith("loss") if greater is None else greater
        return cls(name if name.startswith("eval_") else f"eval_{name}", higher)

    def of(self, metrics: Mapping[str, Any]) -> float:
        """Its value among the metrics of an evaluation. ValueError where they haven't got it."""
        if self.name not in metrics:
            raise ValueError(
                f"metric_for_best_model: there is no {self.name} among the metrics of the evaluation, "
                f"{', '.join(name for name in metrics if name.startswith('eval_'))}"
            )
        return float(metrics[self.name])

    def told_by(self, metrics: Mapping[str, Any]) -> bool:
        """Whether an evaluation has to have it: of several sets by their names one has."""
        return "eval_loss" in metrics or self.name in metrics

    def better(self, value: float, than: float | None) -> bool:
        """Whether a value is better than the best so far, None for none."""
        if than is None:
            than = -math.inf if self.greater else math.inf
        return value > than if self.greater else value < than


class Best(NamedTuple):
    """The best evaluation so far, by transformers' names; the checkpoint of one that has none is that of the best with
    one."""

    best_metric: float
    best_global_step: int
    best_model_checkpoint: str | None


@dataclass
class TrainerState:
    """What a callback may read; transformers' names and meaning.

    `best`: what `best_metric` is the best of; `bests`: all that were it so far.
    """

    global_step: int = 0
    epoch: float | None = None
    max_steps: int = 0
    num_train_epochs: int = 0
    log_history: list[dict[str, float]] = field(default_factory=list)
    best_metric: float | None = None
    best_global_step: int | None = None
    best_model_checkpoint: str | None = None
    is_world_process_zero: bool = field(default_factory=lambda: jax.process_index() == 0)
    is_local_process_zero: bool = True
    best: BestMetric = BestMetric()
    bests: list[Best] = field(default_factory=list)

    def save_to_json(self, json_path: Any) -> None:
        """Write what the port knows of it, as transformers does and reads it: no settings, no total_flos."""
        known = {name: value for name, value in vars(self).items() if name not in ("best", "bests")}
        epath.Path(json_path).write_text(as_json(known))


@dataclass
class TrainerControl:
    """What a callback may decide: whether training goes on."""

    should_training_stop: bool = False


class TrainerCallback:
    """Base of a script's callbacks; the events that Tunix's loop has."""

    def on_init_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """The trainer is made."""

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """Before the first step."""

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """After the last step was reported."""

    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """Before the first step of an epoch."""

    def on_epoch_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """After the last step of an epoch, or of the run within one."""

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """Before the first micro-batch of an optimizer step; `on_step_end` of the step before may still be to come."""

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """After an optimizer step."""

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """After an evaluation; `metrics` has eval_loss and what compute_metrics returned."""

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """After a checkpoint was written."""

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """After a line was logged; `logs` is the line."""


class EarlyStoppingCallback(TrainerCallback):
    """Stops when `early_stopping_patience` evaluations were not better than the best by more than the threshold.

    They are compared by metric_for_best_model, see `rt.log_every`; by eval_loss where there is none.
    """

    def __init__(self, early_stopping_patience: int = 1, early_stopping_threshold: float | None = 0.0) -> None:
        self.early_stopping_patience = early_stopping_patience
        self.early_stopping_threshold = early_stopping_threshold or 0.0
        self.early_stopping_patience_counter = 0

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any:
        """Compares with the best so far, this one not yet counted, as transformers does."""
        if not state.best.told_by(kwargs["metrics"]):
            return
        value, best = state.best.of(kwargs["metrics"]), state.best_metric
        threshold = self.early_stopping_threshold
        better = best is None or (state.best.better(value, best) and abs(value - best) > threshold)
        self.early_stopping_patience_counter = 0 if better else self.early_stopping_patience_counter + 1
        if self.early_stopping_patience_counter >= self.early_stopping_patience:
            control.should_training_stop = True


class Events:
    """Calls a script's callbacks from LogLines.

    Args:
        callbacks: objects or classes.
        args: the script's config object, None where it has none.
        steps_per_epoch: optimizer steps of an epoch, None where they aren't known.
        best: what evaluations are compared by.
        processing_class: the tokenizer that callbacks are given.
    """

    def __init__(
        self,
        callbacks: Any,
        args: Any,
        steps_per_epoch: int | None,
        best: BestMetric = BestMetric(),
        processing_class: Any = None,
    ) -> None:
        self.state, self.control = TrainerState(best=best), TrainerControl()
        self._tokenizer = processing_class
        self._callbacks: list[TrainerCallback] = []
        self._args = args
        self._steps_per_epoch = steps_per_epoch
        self._saved: int | None = None
        self._last = self._begun = -1
        self.add(*(callbacks or ()))

    def add(self, *callbacks: Any) -> None:
        """Trainer.add_callback: an object or a class. TypeError for what is no callback of this module."""
        for given in callbacks:
            made = given() if isinstance(given, type) else given
            if not isinstance(made, TrainerCallback):
                raise TypeError(f"{type(made).__name__} is no porter.runtime.callbacks.TrainerCallback")
            self._callbacks.append(made)
            made.on_init_end(self._args, self.state, self.control)

    def anew(self) -> None:
        """Another training of the same trainer: callbacks keep what they noted, as transformers' do."""
        self.state, self.control = TrainerState(best=self.state.best), TrainerControl()

    @property
    def at_once(self) -> bool:
        """Whether a step has to be reported before the next one runs: not for callbacks of this package."""
        own = f"{__package__}."
        return any(not type(callback).__module__.startswith(own) for callback in self._callbacks)

    def begin(self, train_ctx: Any) -> None:
        self.state.max_steps, self.state.global_step = train_ctx.config.max_steps, train_ctx.train_steps
        if self._steps_per_epoch:
            self.state.num_train_epochs = math.ceil(self.state.max_steps / self._steps_per_epoch)
        self._saved = train_ctx.checkpoint_manager.latest_step()
        self._last = self._begun = -1
        self._resume(train_ctx)
        self._tell("on_train_begin", train_ctx)

    def micro_batch(self, train_ctx: Any) -> None:
        """A micro-batch starts; the first of a step begins it."""
        step = train_ctx.train_steps
        if step == self._begun:
            return
        self._begun = step
        self._at(step)
        if self._steps_per_epoch and step % self._steps_per_epoch == 0:
            self._tell("on_epoch_begin", train_ctx)
        self._tell("on_step_begin", train_ctx)

    def step(self, train_ctx: Any, step: int) -> None:
        self._at(step)
        self._tell("on_step_end", train_ctx)

    def ends_epoch(self, step: int) -> bool:
        """Whether an epoch ends with a step: also one that the run's end cuts off."""
        if not self._steps_per_epoch:
            return False
        return step % self._steps_per_epoch == 0 or step == self._last

    def epoch(self, train_ctx: Any, step: int) -> None:
        self._at(step)
        self._tell("on_epoch_end", train_ctx)

    def log(self, line: dict[str, float], train_ctx: Any) -> None:
        self.state.log_history.append(line)
        self._tell("on_log", train_ctx, logs=dict(line))

    def evaluated(self, train_ctx: Any, metrics: dict[str, float]) -> None:
        """Callbacks first, then the best metric, in the Trainer's order."""
        step = train_ctx.train_steps
        self._at(step)
        self._tell("on_evaluate", train_ctx, metrics=metrics)
        if not self.state.best.told_by(metrics):
            return
        value, policy = self.state.best.of(metrics), best_policy(train_ctx.config)
        if policy is not None and step == train_ctx.config.max_steps and not train_ctx.is_managed_externally:
            train_ctx._save_last_checkpoint()  # which may be the best; Tunix does so once the loop is over
        saved = policy is not None and train_ctx.checkpoint_manager.latest_step() == step
        if policy is not None and policy.among == "saved" and not saved:
            return
        if self.state.best.better(value, self.state.best_metric):
            self.state.best_metric, self.state.best_global_step = value, step
            if policy is not None and (saved or policy.among == "named"):
                policy.step = step if saved else None
                self.state.best_model_checkpoint = f"{train_ctx.config.checkpoint_root_directory}/{step}"
            self.state.bests.append(Best(value, step, self.state.best_model_checkpoint))

    def asked(self, train_ctx: Any, metrics: dict[str, Any]) -> None:
        """An evaluation that the script asks for itself."""
        self._tell("on_evaluate", train_ctx, metrics=dict(metrics))

    def check_best(self, train_ctx: Any, metrics: Mapping[str, Any]) -> None:
        """ValueError where the evaluation before the first step has no metric that the script compares by."""
        best = self.state.best
        if best.told_by(metrics) or best.name != "eval_loss" or best_policy(train_ctx.config) is not None:
            best.of(metrics)

    def ended(self, train_ctx: Any) -> None:
        """The loop is over; its last step is still to be reported."""
        self._last = train_ctx.train_steps
        self._at(self._last)

    def save_last(self, train_ctx: Any) -> None:
        if self._callbacks and not train_ctx.is_managed_externally:
            train_ctx._save_last_checkpoint()  # Tunix does so once the callbacks have been told of the end
        self.saved(train_ctx, self._last)

    def finish(self, train_ctx: Any, step: int) -> None:
        if step == self._last:
            self._tell("on_train_end", train_ctx)

    def _resume(self, train_ctx: Any) -> None:
        """The best so far of the run that goes on, which its record has: transformers reads it of the checkpoint."""
        step, folder = int(train_ctx.train_steps), train_ctx.config.checkpoint_root_directory
        found = best_until(folder, step) if step and folder is not None and not self.state.bests else {}
        if not found:
            return
        best = Best(**found)
        self.state.best_metric, self.state.best_global_step, self.state.best_model_checkpoint = best
        self.state.bests.append(best)
        policy, named = best_policy(train_ctx.config), str(best.best_model_checkpoint).rsplit("/", 1)[-1]
        if policy is not None and policy.step is None and named.isdigit() and (epath.Path(folder) / named).is_dir():
            policy.step = int(named)

    def saved(self, train_ctx: Any, step: int) -> None:
        """on_save, if a checkpoint came since it was told last."""
        self._at(step)
        saved = train_ctx.checkpoint_manager.latest_step()
        if saved is not None and saved != self._saved and saved <= step:
            self._saved = saved
            self._tell("on_save", train_ctx)

    def _at(self, step: int) -> None:
        self.state.global_step = step
        if self._steps_per_epoch:
            self.state.epoch = step / self._steps_per_epoch

    def _tell(self, event: str, train_ctx: Any, **given: Any) -> None:
        given |= {"model": train_ctx.model, "processing_class": self._tokenizer, "tokenizer": self._tokenizer}
        for callback in self._callbacks:
            answer = getattr(callback, event)(self._args, self.state, self.control, **given)
            if isinstance(answer, TrainerControl):
                self.control = answer
        if self.control.should_training_stop:
            # Tunix's loop compares with it in front of every step.
            train_ctx.config.max_steps = min(train_ctx.config.max_steps, train_ctx.train_steps)


class KeepBest:
    """Orbax's preservation policy for load_best_model_at_end or a metric_for_best_model: the newest and the best one.

    `limit` is save_total_limit, None for all. As transformers counts: the best one is among them, and beside the newest
    where only one is to be kept. The hooks of `rt.log_every` note which step is the best, by eval_loss or their
    metric_for_best_model; `rt.load_best` loads it.

    `transformers` is the source's release, which matters where a run evaluates more often than it saves. Before 4.47
    only evaluations at a checkpoint counted. Since then all do; before 4.50 a better one without a checkpoint took the
    place of the best all the same, and nothing was loaded.
    """

    def __init__(self, limit: int | None = None, *, transformers: str | None = None) -> None:
        key = version_key(transformers) if transformers else (5,)
        self.among = "saved" if key < (4, 47) else "named" if key < (4, 50) else "all"
        self.limit = limit
        self.step: int | None = None

    def should_preserve(self, checkpoints: Any, *, context: Any) -> list[bool]:
        steps = [checkpoint.step for checkpoint in checkpoints]
        if self.limit is None:
            return [True] * len(steps)
        best = self.step if self.step in steps else None
        newest = steps[-1:] if best != steps[-1] else []
        others = [step for step in reversed(steps) if step != best and step not in newest]
        kept = {best, *newest, *others[: max(0, self.limit - (best is not None) - len(newest))]}
        return [step in kept for step in steps]


def best_policy(config: Any) -> KeepBest | None:
    """The KeepBest of a TrainingConfig."""
    policy = getattr(config.checkpointing_options, "preservation_policy", None)
    return policy if isinstance(policy, KeepBest) else None


def load_best(trainer: Any) -> None:
    """load_best_model_at_end: the model gets the weights of the checkpoint that is the best.

    After `trainer.train`. Where no checkpoint was saved at an evaluation it keeps what it has, as in transformers.
    """
    from tunix.sft.checkpoint_manager import CheckpointManager

    policy, folder = best_policy(trainer.config), trainer.config.checkpoint_root_directory
    if policy is None or policy.step is None or folder is None:
        return
    manager = CheckpointManager(folder)
    manager.maybe_restore(trainer.model, None, policy.step, restore_only_lora_params=trainer._lora_enabled)
    manager.close()
    if jax.process_index() == 0:
        print(f"loaded the best checkpoint, of step {policy.step}")
