"""What the hooks of `rt.log_every` note of each optimizer step for `trainer_state.json`, see record.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..callbacks import TrainerState
from ..hosts.global_arrays import whole
from ..saving.record import Record
from .run_facts import facts, learning_rate
from .speeds import of_training
from .train_result import of_all_steps

IGNORED = -100
TOKENS = "num_tokens"  # TRL's name of the tokens fed so far, padding left out
TRAINED = "num_trained_tokens"


class Recording:
    """Notes a run and writes its record into the folder of its checkpoints, else into `output_dir`.

    Without either nothing is written, nor on other processes than the first, which asks nothing of the others for it.
    `schedule`: the learning rate by optimizer step, for an optimizer whose own can't be read. `logged`: the script's
    logging_steps.
    """

    def __init__(
        self, output_dir: Any, schedule: optax.Schedule | None, steps_per_epoch: int | None, logged: float | None
    ) -> None:
        self._output_dir, self._schedule, self._steps_per_epoch = output_dir, schedule, steps_per_epoch
        self._logged = logged
        self._off = False
        self._record: Record | None = None
        self._counts: list[Any] = []  # of the micro-batches of steps that weren't reported yet
        self._totals: dict[str, float] = {}  # none once a batch came whose tokens aren't counted
        self._losses: list[float] = []
        self._last = 0.0
        self._ends: int | None = None
        self._reported = -1
        self._saved: set[int] = set()

    @property
    def on(self) -> bool:
        """Whether this process writes a record."""
        return self._record is not None

    def off(self) -> None:
        """Write nothing."""
        self._off = True

    def anew(self) -> None:
        """Another training of the same trainer."""
        self._saved = set()

    def begin(self, train_ctx: Any, state: TrainerState) -> None:
        """The run starts, or goes on behind `train_ctx.train_steps`."""
        folder = _folder(train_ctx) or self._output_dir
        self._ends, self._losses, self._counts, self._reported = None, [], [], -1
        self._began = self._last = time.perf_counter()
        self._first = int(train_ctx.train_steps)
        self._data, self._max_steps = getattr(train_ctx, "trains_on", None), train_ctx.config.max_steps
        if self._off or folder is None or jax.process_index() != 0:
            self._record = None
            return
        known = facts(train_ctx) | {"logging_steps": self._logged}
        self._record = Record(folder, known)
        self._rate = learning_rate(train_ctx) or self._schedule
        self._record.begin(self._first)
        self._totals = {name: self._record.total(name) for name in (TOKENS, TRAINED)}
        self._count(train_ctx)
        self._follow(train_ctx, state)
        self._write(train_ctx, state, now=True)

    def micro_batch(self, train_ctx: Any, state: TrainerState) -> None:
        """A micro-batch starts: a checkpoint behind which it comes needs the step that Tunix reports later."""
        step, pending = int(train_ctx.train_steps), train_ctx._prev_buffered_train_metrics
        if self._record is None or step in self._saved or train_ctx.checkpoint_manager.latest_step() != step:
            return
        self._saved.add(step)
        if pending is not None and pending.step == step - 1:
            line = self._line(step, float(np.asarray(pending.loss)), self._counted(train_ctx))
            self._record.add(line, reported=False)
            self._write(train_ctx, state, now=True)
        elif self._reported == step:  # at once
            self._write(train_ctx, state, now=True)

    def step(self, train_ctx: Any, state: TrainerState, step: int, loss: float, found: Mapping[str, float]) -> None:
        """Tunix reports a step; `found`: what is logged beside its loss."""
        if self._record is None:
            return
        self._totals = self._counted(train_ctx)
        del self._counts[: train_ctx.config.gradient_accumulation_steps or 1]
        self._losses.append(loss)
        self._reported = step
        now = time.perf_counter()
        speed = {"steps_per_second": 1 / (now - self._last)} if now > self._last else {}
        self._last = now
        self._record.add(self._line(step, loss, {**found, **self._totals, **speed}))
        if step == self._ends:
            self._record.add(self._summary(step))
        self._write(train_ctx, state, now=step == self._ends)

    def evaluated(self, train_ctx: Any, state: TrainerState, line: Mapping[str, Any]) -> None:
        """A line of evaluation."""
        if self._record is not None:
            self._record.add(line)
            self._write(train_ctx, state)

    def ended(self, train_ctx: Any, state: TrainerState) -> None:
        """The loop is over; its last step is still to come, unless there was none."""
        self._ends = int(train_ctx.train_steps)
        if self._record is not None:
            if self._ends == self._first:
                self._record.add(self._summary(self._ends))
            self._write(train_ctx, state, now=True)

    def _counted(self, train_ctx: Any) -> dict[str, float]:
        """The tokens up to the next step that Tunix reports; nothing where they can't be told."""
        of_step = self._counts[: train_ctx.config.gradient_accumulation_steps or 1]
        if not self._totals or any(each is None for each in of_step):
            return {}
        fed, trained = (sum(float(each[place]) for each in of_step) for place in (0, 1))
        return {TOKENS: self._totals[TOKENS] + fed, TRAINED: self._totals[TRAINED] + trained}

    def _line(self, step: int, loss: float, more: Mapping[str, Any]) -> dict[str, Any]:
        line: dict[str, Any] = {"loss": loss, **more}
        if self._rate is not None:
            line["learning_rate"] = self._rate
        if self._steps_per_epoch:
            line["epoch"] = step / self._steps_per_epoch
        return {**line, "step": step}

    def _summary(self, step: int) -> dict[str, Any]:
        """The Trainer's last line."""
        seconds = time.perf_counter() - self._began
        line: dict[str, Any] = {**of_training(self._data, seconds, self._max_steps or step)}
        line["train_loss"] = of_all_steps(float(np.sum(self._losses)), step)
        if self._steps_per_epoch:
            line["epoch"] = step / self._steps_per_epoch
        return {**line, "step": step}

    def _write(self, train_ctx: Any, state: TrainerState, *, now: bool = False) -> None:
        assert self._record is not None
        self._record.write(lambda lines: self._state(lines, state), rates, now=now)
        steps = _checkpoints(train_ctx)
        self._record.in_checkpoints(lambda lines: self._state(lines, state), rates, steps, now=now)

    def _state(self, lines: list[dict[str, Any]], state: TrainerState) -> dict[str, Any]:
        """The fields of transformers' TrainerState that `lines` are the history of."""
        step = max((line["step"] for line in lines), default=0)
        tokens = next((line[TOKENS] for line in reversed(lines) if TOKENS in line), 0)
        best = next((each for each in reversed(state.bests) if each.best_global_step <= step), None)
        return {
            "global_step": step,
            "epoch": step / self._steps_per_epoch if self._steps_per_epoch else 0,
            "max_steps": state.max_steps,
            "num_train_epochs": state.num_train_epochs,
            "num_input_tokens_seen": int(tokens),
            **(best._asdict() if best is not None else {}),
        }

    def _follow(self, train_ctx: Any, state: TrainerState) -> None:
        """Write once more when the trainer has closed: it saves the last checkpoint, and after SIGTERM reports the last
        step, behind all hooks."""
        close = train_ctx.close

        def closing() -> None:
            close()
            if self._record is not None:
                self._write(train_ctx, state, now=True)

        if not hasattr(close, "follows"):
            closing.follows = True  # type: ignore[attr-defined]
            train_ctx.close = closing

    def _count(self, train_ctx: Any) -> None:
        """Count the tokens of each training batch as the trainer takes it."""
        prepare = train_ctx._prepare_inputs
        if hasattr(prepare, "counts_tokens"):
            prepare = prepare.counts_tokens

        def counting(batch: Any) -> Any:
            if self._record is not None and str(train_ctx._mode) == "train":
                self._counts.append(_tokens(batch, getattr(train_ctx, "counted_rows", slice(None))))
            return prepare(batch)

        counting.counts_tokens = prepare  # type: ignore[attr-defined]
        train_ctx._prepare_inputs = counting


def rates(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines with the rate of their step in the place of the schedule that they were noted with."""
    pending = [line for line in lines if callable(line.get("learning_rate"))]
    by_schedule: dict[Any, list[dict[str, Any]]] = {}
    for line in pending:
        by_schedule.setdefault(line["learning_rate"], []).append(line)
    for schedule, of_it in by_schedule.items():
        counts = np.array([line["step"] - 1 for line in of_it], np.int32)
        for line, rate in zip(of_it, _evaluated(schedule, counts), strict=True):
            line["learning_rate"] = float(rate)
    return lines


def _evaluated(schedule: Callable[[Any], Any], counts: np.ndarray) -> Any:
    try:
        return np.broadcast_to(np.asarray(jax.vmap(schedule)(counts)), counts.shape)
    except Exception:  # a schedule in Python alone
        return [schedule(int(count)) for count in counts]


def _folder(train_ctx: Any) -> Any:
    return getattr(train_ctx.config, "checkpoint_root_directory", None)


def _checkpoints(train_ctx: Any) -> list[int]:
    """Steps of the checkpoints that are there, or on their way."""
    manager = getattr(train_ctx.checkpoint_manager, "_checkpoint_manager", None)
    return [] if manager is None else [int(step) for step in manager.all_steps()]


def _tokens(batch: Any, rows: slice | None) -> tuple[Any, Any] | None:
    """How many tokens some rows of a batch feed, and how many of them are trained, as TRL counts them.

    None where that can't be told, or is another number in each run: sampled completions, whose batches have no labels,
    batches of another form, global arrays that another process holds rows of. `rows`: None for no rows that count.
    """
    get = batch.get if isinstance(batch, Mapping) else lambda name: getattr(batch, name, None)
    segments, labels = whole(get("segment_ids")), whole(get("labels"))
    if rows is None or getattr(segments, "ndim", 0) != 2 or getattr(labels, "ndim", 0) != 2:
        return None
    total: Callable[[Any], Any] = jnp.sum if isinstance(segments, jax.Array) else np.sum
    return total(segments[rows] > 0), total(labels[rows, 1:] != IGNORED)
