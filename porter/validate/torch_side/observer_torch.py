"""What a run on torch shows of itself, collected into a trace."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from ..comparing import preferences
from ..comparing.adapter_starts import starts_of
from ..comparing.configuration import one_dtype
from ..comparing.trace import Row, Step, Trace, epoch_means, numbers
from ..observing.events import Events
from ..observing.settings import LATE, Settings
from ..stand_ins.sampled import rollouts
from ..stand_ins.substitutes import Substitutes
from .asked_for import asked_for
from .gpu_libraries.bitsandbytes_weights import held_format
from .gpu_libraries.deepspeed import weights_dtype
from .near_ties import NearTies
from .observe_loops import settings_of
from .read_torch import describe, documents, token_losses, trained_tensors, typical_gradients, whole_schedule

FEWEST = 2  # steps of a source that takes too long
TOLD_BY_ROW = 4  # steps whose rows tell their losses: micro-batches of one may have equal means by chance


class Observer:
    """Collects the trace of the first training run of the process."""

    def __init__(self, settings: Settings, substitutes: Substitutes, folder: Path, events: Events) -> None:
        self.settings = settings
        self.events = events
        self.substitutes = substitutes
        self.folder = folder
        self.config: dict[str, Any] = {}
        self.schedule: list[float] = []
        self.steps: list[Step] = []
        self.evaluations: list[tuple[int, float]] = []
        self._evaluated: dict[int, list[float]] = {}
        self.measured: dict[int, dict[str, float]] = {}
        self.initial: dict[str, np.ndarray] = {}
        self.near_ties = NearTies()
        self.tied: dict[str, float] = {}
        self.loads: list[str] = []
        self.flash = False  # whether a model was to be loaded with flash attention
        self.dataset: list[int] = []
        self.done = False
        self.stopped = False  # by this observer, before the training's own end
        self._started = 0.0
        self._rows: list[Row] = []
        self._micro: list[int] = []
        self._losses: list[float] = []
        self._last_split: list[Any] = []
        self._row_losses: list[list[float]] = []
        self._metrics: list[dict[str, float]] = []
        self._norm: float | None = None
        self._rate: float | None = None
        self._optimizer: Any = None
        self._hook: Any = None
        self._samples = False
        self._sampled: list[Any] = []
        self._distilled: list[Any] = []

    @property
    def started(self) -> bool:
        """Whether a training has begun."""
        return self._started > 0

    def fold(self, args: Any) -> None:
        """Let one process see the batch of N: rows of all of them together, once per arguments object."""
        if self.settings.fold > 1 and not getattr(args, "_porter_folded", False):
            args.per_device_train_batch_size *= self.settings.fold
            args.per_device_eval_batch_size *= self.settings.fold
            # GRPOConfig has calculated it from the former already, of one process where it isn't told of the others.
            if getattr(args, "generation_batch_size", None) and not getattr(args, "_porter_counted", False):
                args.generation_batch_size *= self.settings.fold
            args._porter_folded = True

    def callback(self, trainer: Any) -> Any:
        """What watches `trainer`; its optimizer and schedule are asked of itself, as some releases hand on None."""
        from transformers import TrainerCallback

        observer = self

        class Watch(TrainerCallback):
            def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
                observer.begin(args, state, trainer, given)

            def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
                # Before transformers 4.45 nothing is told behind the gradients.
                observer.rate(trainer.optimizer)

            def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
                observer.rate(trainer.optimizer)

            def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:
                observer.step()
                if state.global_step >= observer.settings.steps or observer.is_late():
                    control.should_training_stop = observer.stopped = True
                return control

            def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:
                # Stopping ends the epoch for the Trainer, which then evaluates as if it were whole.
                if state.global_step < state.max_steps and abs(state.epoch - round(state.epoch)) > 1e-6:
                    control.should_evaluate = False
                return control

            def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **given: Any) -> None:
                losses = [value for name, value in (metrics or {}).items() if name.endswith("_loss")]
                if losses and not observer.done:  # eval_loss, or eval_NAME_loss of one of several sets
                    step = int(state.global_step)
                    observer.evaluations.append((step, float(metrics.get("eval_loss", losses[0]))))
                    observer.measured[step] = observer.measured.get(step, {}) | numbers(metrics)
                    observer.tied[str(int(state.global_step))] = observer.near_ties.take()

        return Watch()

    def begin(self, args: Any, state: Any, trainer: Any, given: dict[str, Any]) -> None:
        if self.done:
            return
        self._started = time.monotonic()
        model, optimizer, schedule = given["model"], trainer.optimizer, trainer.lr_scheduler
        self.initial = trained_tensors(model)
        self.schedule = whole_schedule(schedule, int(state.max_steps))
        self.config = describe(args, state, model, optimizer, {name: a.shape for name, a in self.initial.items()})
        self.config["starts"] = starts_of(self.initial)
        self.config["quantization"] = held_format(model)
        self.config["processes"] *= self.settings.fold
        self._hook = model.register_forward_hook(self.row_loss, with_kwargs=True)
        self.events.when = "during"
        asked_for(self.events, args, state, given.get("train_dataloader"))

    def begin_loop(self, model: Any, optimizer: Any, settings: Any) -> None:
        """A loop written by hand begins: before its first step."""
        self._started = time.monotonic()
        self.initial = trained_tensors(model)
        self.config = settings_of(settings, model, optimizer, self.initial)
        self.config["starts"] = starts_of(self.initial)
        self.config["loop"] = True

    def evaluated(self, outputs: Any) -> None:
        """What a loop written by hand computes without gradients is a batch of an evaluation at this step."""
        loss = getattr(outputs, "loss", None)
        if loss is not None:
            self._evaluated.setdefault(len(self.steps), []).append(float(loss))

    def samples(self) -> None:
        """A trainer that samples what it trains on."""
        self._samples = True
        self.substitutes.note(rollouts.NOTE)

    def sampled(self, prompts: list[list[int]], completions: list[list[int]]) -> None:
        if not self.done:
            self._sampled.append([prompts, completions])

    def distilled(self, found: Any) -> None:
        if not self.done:
            self._distilled.append(found)

    def rollouts(self, inputs: Any) -> None:
        if not self.done:
            rows = rollouts.rows_of_torch(inputs)
            self._rows += rows
            self._micro.append(len(rows))

    def batch(self, inputs: Any, trainer: Any = None) -> None:
        if self.done or self._samples:
            return
        if getattr(trainer, "optimizer", None) is not None:  # a step that begins within a group is told to nobody
            self.rate(trainer.optimizer)
        tensors = {key: value.detach().cpu().numpy() for key, value in inputs.items() if hasattr(value, "detach")}
        if preferences.is_preference(tensors):
            rows = preferences.documents(tensors, preferences.cut_of(trainer))
            self._last_split = []
            self._rows += rows
            self._micro.append(len(rows))
            return
        if tensors["labels"].shape != tensors["input_ids"].shape:
            return  # the model refuses it in its own words
        self._last_split = split = documents(tensors)
        self._rows += [row for row, _ in split]
        self._micro.append(len(split))

    def loss(self, loss: Any, whole: float = 1.0) -> None:
        """What a micro-step gives back, its part of the step's loss; `whole`: what their sum is divided by."""
        if not self.done:
            self._losses.append(float(loss) / whole)

    def metrics(self, found: dict[str, float]) -> None:
        if not self.done:
            self._metrics.append(found)

    def norm(self, norm: Any) -> None:
        # Clipped twice (once by a threshold, once by infinity to read it): the first is the norm before clipping.
        if self._norm is None:
            self._norm = float(norm)

    def rate(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._rate = float(optimizer.param_groups[0]["lr"])

    def step(self) -> None:
        if self.done:
            return
        row_loss = tuple(value for micro in self._row_losses for value in micro)
        self.steps.append(
            Step(
                rows=tuple(self._rows),
                micro=tuple(self._micro),
                learning_rate=self._rate,
                loss=sum(self._losses),
                grad_norm=self._norm,
                row_loss=row_loss if len(row_loss) == len(self._rows) else None,
                metrics=preferences.means(self._metrics),
            )
        )
        if self._hook is not None and len(self.steps) >= TOLD_BY_ROW:
            self._hook.remove()
            self._hook = None
        self._rows, self._micro, self._losses, self._row_losses, self._norm = [], [], [], [], None
        self._metrics = []
        print(f"step {len(self.steps)} loss {self.steps[-1].loss:.6f}", flush=True)

    def is_late(self) -> bool:
        """Whether more steps would take longer than there is: a few are compared then."""
        patience = self.settings.patience
        if patience is None or len(self.steps) < FEWEST or time.monotonic() - self._started < patience:
            return False
        self.substitutes.note(f"{LATE} that {len(self.steps)} were compared, not {self.settings.steps}")
        return True

    def has_all_steps(self, trainer: Any) -> bool:
        """Whether the steps that are compared have been trained, however few there is time for, or all there are."""
        state = trainer.state
        return (
            self.stopped or len(self.steps) >= self.settings.steps or 0 < int(state.max_steps or 0) <= state.global_step
        )

    def finished(self, trainer: Any) -> None:
        if self.done:
            return
        self.done = True
        self.events.when = "after"
        if self._samples:
            self.config |= {"rollouts": self._sampled, "loss_floor": rollouts.LOSS_FLOOR}
        if any(self.tied.values()):
            self.config["near_ties"] = self.tied
        frozen = bool(self.config.get("lora_scaling"))
        args = getattr(trainer, "args", None)
        self.config["weights_dtype"] = weights_dtype(args, one_dtype(self.loads), frozen=frozen)
        if any(self._distilled):
            self.config |= {"distilled": self._distilled}
            self.substitutes.note(rollouts.NOTE)
        Trace(
            config=self.config,
            steps=tuple(self.steps),
            schedule=tuple(self.schedule),
            initial=self.initial,
            final=trained_tensors(trainer.model),
            gradients=typical_gradients(trainer.model, self._optimizer),
            evaluations=(*self.evaluations, *(epoch_means(self._evaluated) if self.config.get("loop") else ())),
            measured=self.measured,
            dataset=tuple(self.dataset),
            notes=tuple(self.substitutes.notes),
            seconds=time.monotonic() - self._started,
        ).save(self.folder)

    def row_loss(self, module: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        """The summed loss of each document of this micro-batch, from what TRL's fused head or the logits say."""
        import torch

        if self.done or self._samples or not torch.is_grad_enabled() or not self._last_split:
            return
        nll = token_losses(outputs, kwargs.get("labels"))
        if nll is None:
            self._row_losses.append([])
            return
        self._row_losses.append([float(nll[place].sum()) for _, place in self._last_split])
