"""The log lines of transformers' Trainer, from Tunix's training hooks.

Tunix reports a step's loss one step late, the last one after `on_train_end`, and an evaluation before the
step that caused it; the lines here come out in the Trainer's order. A script's own callbacks have a step reported as
soon as it is made. The hooks also keep the run's record, see recording.py.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import numpy as np
import optax
from tqdm import tqdm  # type: ignore[import-untyped]
from tunix.sft.hooks import TrainingHooks

from ..callbacks import BestMetric, Events, TrainerCallback, TrainerState
from ..facts.releases import release
from ..settings.intervals import interval
from .own_metrics import counts, lines_of, measured, times_steps
from .recording import Recording
from .run_facts import clips
from .speeds import StepClock, evaluated, note_data, of_evaluation, of_training
from .step_norms import log_steps
from .stopping import Stopping
from .trackers import begin_runs
from .train_result import of_all_steps


def log_every(
    steps: float | None,
    *,
    first_step: bool = False,
    eval_on_start: bool = False,
    schedule: optax.Schedule | None = None,
    steps_per_epoch: int | None = None,
    callbacks: Sequence[TrainerCallback | type[TrainerCallback]] = (),
    args: Any = None,
    metrics: Callable[[int, int], dict[str, float]] | None = None,
    metric_for_best_model: str | None = None,
    greater_is_better: bool | None = None,
    processing_class: Any = None,
    output_dir: str | os.PathLike[str] | None = None,
    transformers: str | None = None,
    by_epoch: Collection[str] = (),
) -> LogLines:
    """Hooks that print the Trainer's log line every `steps` optimizer steps, on the first process, and record the run.

    `loss` is the mean over the steps since the last line, `learning_rate` the rate of the step itself (of the next one
    in transformers before 4.51), `grad_norm` that of its whole gradient before clipping (none before 4.38, nor where
    nothing is clipped before 5.3), `epoch` counts in optimizer steps. Rewards and the like of a `PreferenceTrainer` are
    means over the same steps. Evaluations have their `eval_runtime`, `eval_samples_per_second` and
    `eval_steps_per_second`, and behind the last step comes the Trainer's line of the run, `train_runtime` and its kin
    with `train_loss`: by this machine's seconds, of the rows and batches that the GPU run's Trainer counts. Where the
    GPU run's trainer keeps its metrics until a line comes (`Lines.keeps`), the last one has those of the steps behind
    the line before.

    Args:
        steps: `logging_steps`; below 1 a share of the whole run, rounded up, below 0 the last step alone; None for
            evaluation lines only.
        first_step: `logging_first_step`.
        eval_on_start: whether the evaluation before the first step has a line. Tunix always makes it, the Trainer only
            if asked to.
        schedule: the learning rate by optimizer step; without it the lines have no `learning_rate`.
        steps_per_epoch: optimizer steps of an epoch; without it the lines have no `epoch`.
        callbacks: of `porter.runtime.callbacks`, called with `args`, the script's config object.
        metrics: further values of the steps after one and up to another, as `GRPOBatches.metrics` gives them.
        metric_for_best_model: what `rt.KeepBest` and early stopping compare, eval_loss without; one of the metrics of
            a `MetricsTrainer`.
        greater_is_better: whether more of it is better; without, unless its name ends with "loss".
        processing_class: the tokenizer that the callbacks are given.
        output_dir: where `trainer_state.json` goes, with a line for every step, of a run without checkpoints; else it
            lies with these.
        transformers: the source's release; None for the newest. The record in `trainer_state.json` has each step's own
            rate whatever it is.
        by_epoch: which of "logging", "eval" and "save" have the strategy "epoch": they come behind `on_epoch_end`.
    """
    best = BestMetric.named(metric_for_best_model, greater_is_better)
    events = Events(callbacks, args, steps_per_epoch, best, processing_class)
    if output_dir is None:
        output_dir = getattr(args, "output_dir", None)
    lines = LogLines(steps, first_step, schedule, steps_per_epoch, events, metrics, output_dir, eval_on_start)
    source = release(None, transformers)
    lines.rate_of_next, lines.norms = source.logs_next_rate, source.logs_norms
    lines.norms_unclipped = source.logs_unclipped_norms or bool(getattr(args, "deepspeed", None))
    lines.by_epoch = frozenset(by_epoch)
    log_steps()
    note_data()
    return lines


class LogLines(TrainingHooks):
    """See `log_every`. `history` holds the lines as the Trainer's `state.log_history` does."""

    rate_of_next = False  # whether a line has the next step's rate
    norms = norms_unclipped = True  # whether it has the step's gradient norm, and also where nothing is clipped
    by_epoch: frozenset[str] = frozenset()

    def __init__(
        self,
        steps: float | None,
        first_step: bool,
        schedule: optax.Schedule | None,
        steps_per_epoch: int | None,
        events: Events | None = None,
        metrics: Callable[[int, int], dict[str, float]] | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        eval_on_start: bool = False,
    ) -> None:
        if steps == 0:
            raise ValueError("logging_steps must not be 0")
        self.history: list[dict[str, float]] = []
        self._events = events or Events((), None, steps_per_epoch)
        self._steps = steps
        self._first_step = first_step
        self._eval_on_start = eval_on_start
        self._trains = False  # Tunix evaluates before it starts
        self._before: list[dict[str, float]] = []
        self._first_metrics: dict[str, float] = {}
        self._schedule = schedule
        self._steps_per_epoch = steps_per_epoch
        self._metrics = metrics
        self.recording = Recording(output_dir, schedule, steps_per_epoch, steps)
        self._sum = 0.0
        self._last_logged = self._told = 0  # steps whose loss, and whose metrics, are in a line
        self.rest: dict[str, float] = {}  # the metrics of the run's last line
        self._total, self._ends = 0.0, -1
        self.first = 0  # the step that the run goes on from
        self._evaluating: float | None = None  # when the evaluation began
        self._clock = StepClock()
        self._clock.begin()
        self._begun = self._reported = self._epoch_ended = self._evaluated = -1
        self._evaluates = False  # whether Tunix has evaluated, which it does in front of the first step, too
        self._stopping = Stopping()
        self._evaluations: list[dict[str, float]] = []
        self.started: float | None = None  # time.perf_counter() at the start of the run
        self.asked: tuple[int | None, Any] | None = None  # max_steps and the checkpoints' folder of the first training

    def anew(self) -> None:
        """Another training of the same trainer follows, see `rt.start_anew`."""
        self.history, self.started = [], None
        self._events.anew()
        self.recording.anew()

    def on_train_start(self, train_ctx: Any) -> None:
        steps, managed = train_ctx.config.max_steps, getattr(train_ctx, "is_managed_externally", False)
        if managed and self._trains:  # the next epoch of `rt.train_epoch`
            return
        if self.started is not None and not managed and steps is not None and train_ctx.train_steps >= steps:
            raise RuntimeError(
                f"train() is called again, and Tunix's trainer has made its {steps} steps: transformers would start "
                "anew. Make batches, optimizer and trainer anew to train on"
            )
        self.history.clear()  # of evaluations before the training
        self.state.log_history.clear()
        if self._first_metrics:  # a metric that isn't there is told before training
            self._events.check_best(train_ctx, self._first_metrics)
        self.asked = self.asked or (steps, train_ctx.config.checkpoint_root_directory)
        begin_runs(train_ctx)
        self.norms = self.norms and (self.norms_unclipped or clips(train_ctx))
        self.started, self._trains = time.perf_counter(), True
        self._clock.begin()
        self._sum, self._begun, self.rest = 0.0, -1, {}
        self._last_logged = self._told = train_ctx.train_steps
        self._total, self.first, self._ends = 0.0, int(train_ctx.train_steps), -1
        self._reported = self._epoch_ended = self._evaluated = -1
        if self._events.at_once:
            _report_at_once(train_ctx)
        if self._steps is not None and self._steps < 1:
            self._steps = interval(self._steps, train_ctx.config.max_steps)
        self._stopping.begin(train_ctx)
        self._events.begin(train_ctx)
        self.recording.begin(train_ctx, self.state)
        for line in self._before:
            self.recording.evaluated(train_ctx, self.state, line)
            self._say(line, train_ctx)
        self._before = []

    def on_train_step_end(self, train_ctx: Any, train_step: int, train_loss: float) -> None:
        loss = float(train_loss)
        if self.recording.on:
            found = self._found(train_ctx, train_step - 1, train_step)
            self.recording.step(train_ctx, self.state, train_step, loss, found)
        if not math.isfinite(loss):  # the Trainer's logging_nan_inf_filter
            loss = self._sum / (train_step - self._last_logged)
        self._sum += loss
        self._total += loss
        self._reported = train_step
        self._events.step(train_ctx, train_step)
        if "logging" not in self.by_epoch or (train_step == 1 and self._first_step):
            self._say_step(train_ctx, train_step)
        evaluated_yet = not self._events.at_once or not self._evaluates_at(train_ctx, train_step)
        if evaluated_yet and "eval" not in self.by_epoch:
            self._say_evaluations(train_ctx, train_step)
            self._end_epoch(train_ctx, train_step)
        elif "eval" in self.by_epoch:
            self._end_epoch(train_ctx, train_step)
            self._say_evaluations(train_ctx, train_step)
        self._events.saved(train_ctx, train_step)
        if train_step == self._ends:
            self._say(self._summary(train_ctx, train_step), train_ctx)
        self._events.finish(train_ctx, train_step)

    def on_eval_step_end(self, train_ctx: Any, eval_loss: float) -> None:
        # The argument is a sum over batches; the logged value is their mean.
        mean = train_ctx.metrics_logger.get_metric_history(train_ctx.metrics_prefix, "loss", "eval")[-1]
        of_set = getattr(train_ctx, "evaluating", "eval")  # MetricsTrainer's, as the metrics that it computes
        own = measured(train_ctx, "eval", 1) | counts(train_ctx, self.first, int(train_ctx.train_steps))
        found = getattr(train_ctx, "evaluated", {}) | {f"eval_{name}": value for name, value in own.items()}
        self._evaluates = True
        if self._evaluating is not None:
            seconds, self._evaluating = time.perf_counter() - self._evaluating, None
            found |= of_evaluation(evaluated(train_ctx), seconds, of_set)
            self._clock.leave_out(seconds)
        line = self._with_epoch({f"{of_set}_loss": float(mean), **found}, train_ctx.train_steps)
        if not self._trains:
            self._first_metrics |= line
            self._before += [line] if self._eval_on_start else []
        else:
            self.recording.evaluated(train_ctx, self.state, line)
            self._evaluated = int(train_ctx.train_steps)
            self._evaluations.append(line)
            if self._reported == train_ctx.train_steps:
                self._say_evaluations(train_ctx, self._reported)
            self._events.evaluated(train_ctx, {name: value for name, value in line.items() if name != "step"})

    def on_train_end(self, train_ctx: Any) -> None:
        """The last step is still to come; of a trainer that is managed from outside there may be more trainings."""
        if getattr(train_ctx, "is_managed_externally", False):
            return
        self._trains, self._ends = False, int(train_ctx.train_steps)
        self._stopping.ended(train_ctx)
        self._events.ended(train_ctx)
        if "save" in self.by_epoch:
            self._end_epoch(train_ctx, self._ends)
        self._events.save_last(train_ctx)
        self.recording.ended(train_ctx, self.state)
        if self._ends in (self.first, self._reported):  # nothing was left to train, or nothing is left to report
            self._end_epoch(train_ctx, self._ends)
            self._say(self._summary(train_ctx, self._ends), train_ctx)
            self._events.finish(train_ctx, self._ends)

    def evaluated(self, train_ctx: Any, metrics: dict[str, Any]) -> None:
        """`Trainer.evaluate()` of the script's own, before the training or behind it: its line, and the callbacks.

        It says nothing of the best checkpoint, as in transformers, and a training that follows has a history of its
        own.
        """
        self._say({**metrics, "step": int(train_ctx.train_steps)}, train_ctx)
        self._events.asked(train_ctx, metrics)

    @property
    def state(self) -> TrainerState:
        """Trainer.state, as far as callbacks see it."""
        return self._events.state

    def add(self, *callbacks: Any) -> None:
        """Trainer.add_callback."""
        self._events.add(*callbacks)

    def on_train_step_start(self, train_ctx: Any) -> None:
        self.recording.micro_batch(train_ctx, self.state)
        if train_ctx.train_steps != self._begun:
            self._begun = train_ctx.train_steps
            self._stopping.check(train_ctx)
            if "save" in self.by_epoch:
                self._end_epoch(train_ctx, self._begun)
            self._events.saved(train_ctx, self._begun)
            self._end_epoch(train_ctx, self._begun)
        self._events.micro_batch(train_ctx)

    def on_eval_step_start(self, train_ctx: Any) -> None:
        """Called for every batch."""
        if self._evaluating is None:
            self._evaluating = time.perf_counter()

    def _end_epoch(self, train_ctx: Any, step: int) -> None:
        """on_epoch_end, once, if a step that was reported ends one, and the line that comes by epochs."""
        if step != self._reported or step == self._epoch_ended or not self._events.ends_epoch(step):
            return
        self._epoch_ended = step
        self._events.epoch(train_ctx, step)
        if "logging" in self.by_epoch and self._last_logged < step:
            self._say_step(train_ctx, step)

    def _evaluates_at(self, train_ctx: Any, step: int) -> bool:
        return self._evaluates and step % train_ctx.config.eval_every_n_steps == 0

    def _say_step(self, train_ctx: Any, step: int) -> None:
        if self._steps is not None and (step % self._steps == 0 or (step == 1 and self._first_step)):
            self._say(self._line(train_ctx, step), train_ctx)
            self._sum, self._last_logged = 0.0, step

    def _say_evaluations(self, train_ctx: Any, step: int) -> None:
        while self._evaluations and self._evaluations[0]["step"] <= step:
            self._say(self._evaluations.pop(0), train_ctx)

    def _line(self, train_ctx: Any, step: int) -> dict[str, float]:
        line = {"loss": self._sum / (step - self._last_logged)}
        if self.norms:
            line["grad_norm"] = _grad_norm(train_ctx)
        if self._schedule is not None:
            line["learning_rate"] = float(self._schedule(step if self.rate_of_next else step - 1))
        kept = lines_of(train_ctx)
        if kept is None or not (kept.keeps_at_evaluations and self._evaluates_at(train_ctx, step)):
            line |= self._own(train_ctx, step)
        return self._with_epoch(line, step)

    def _summary(self, train_ctx: Any, step: int) -> dict[str, float]:
        """The Trainer's last line."""
        seconds = time.perf_counter() - (self.started or 0.0)
        line = of_training(getattr(train_ctx, "trains_on", None), seconds, train_ctx.config.max_steps or step)
        line["train_loss"] = of_all_steps(self._total, step)
        kept = lines_of(train_ctx)
        if kept is not None and kept.keeps and (self._evaluated != step or kept.keeps_at_evaluations):
            self.rest = self._own(train_ctx, step)
        return self._with_epoch(line | self.rest, step)

    def _own(self, train_ctx: Any, step: int) -> dict[str, float]:
        """The trainer's own metrics of the steps up to `step` that no line has told."""
        if step <= self._told:
            return {}
        found = {"step_time": self._clock.mean(step - self._told)} if times_steps(train_ctx) else {}
        found |= self._beside(train_ctx, self._told, step)
        self._told = step
        return found

    def _found(self, train_ctx: Any, after: int, until: int) -> dict[str, float]:
        """What is logged beside loss and rate: the last step's gradient norm, means over the steps after `after`."""
        found = {"grad_norm": _grad_norm(train_ctx)} if self.norms else {}
        return found | self._beside(train_ctx, after, until)

    def _beside(self, train_ctx: Any, after: int, until: int) -> dict[str, float]:
        found = measured(train_ctx, "train", until - after) | counts(train_ctx, self.first, until)
        return found if self._metrics is None else found | self._metrics(after, until)

    def _with_epoch(self, line: dict[str, float], step: int) -> dict[str, float]:
        if self._steps_per_epoch:
            line["epoch"] = step / self._steps_per_epoch
        return {**line, "step": step}

    def _say(self, line: dict[str, float], train_ctx: Any) -> None:
        self.history.append(line)
        self._events.log(line, train_ctx)
        if jax.process_index() == 0:
            shown = {name: _shown(value) for name, value in line.items() if name != "step"}
            tqdm.write(str(shown))


def _report_at_once(train_ctx: Any) -> None:
    """Have a step reported when it is made: Tunix waits for the next one, which runs on meanwhile."""
    write = train_ctx._write_train_metrics
    if hasattr(write, "at_once"):
        return

    def writing() -> None:
        write()
        if train_ctx._prev_buffered_train_metrics is not None:
            write()

    writing.at_once = True  # type: ignore[attr-defined]
    train_ctx._write_train_metrics = writing


def _shown(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, int | float) else value


def _grad_norm(train_ctx: Any) -> float:
    """That of the last step, see step_norms.py."""
    return float(
        np.asarray(train_ctx.metrics_logger.get_metric_history(train_ctx.metrics_prefix, "grad_norm", "train")[-1])
    )
