"""What a run under Tunix shows of itself, collected into a trace; it starts from the source's weights."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..comparing.adapter_starts import starts_of
from ..comparing.configuration import one_dtype
from ..comparing.preferences import METRICS, means
from ..comparing.trace import Row, Step, Trace, epoch_means, numbers
from ..observing.events import Events
from ..observing.settings import Settings
from ..stand_ins.sampled import distilled, rewards, rollouts
from ..stand_ins.substitutes import Substitutes
from .asked_for_jax import log_lines
from .optax_settings import decayed, of_hf_optimizer
from .read_jax import adapter_of, documents, evaluate_schedule, norm_of, on_host, trainer_mesh


class Observer:
    """Collects the trace of the first training run of the process."""

    def __init__(self, settings: Settings, substitutes: Substitutes, folder: Path, events: Events) -> None:
        self.settings = settings
        self.events = events
        self.reading = False  # the observer itself saves the weights, to read them
        self.substitutes = substitutes
        self.folder = folder
        self.runtime: Any = None
        self.norm_inside = False
        self._optimizer: tuple[str, dict[str, Any]] | None = None
        self._clip: float | None = None
        self._scalings: set[float] = set()
        self._dropouts: dict[str, float] = {}
        self._starts: dict[str, list[float]] = {}
        self.batching: dict[str, Any] = {}
        self.loads: list[str] = []
        self._problems: list[str] = []
        self._done = self._running = False
        self._rows: list[Row] = []
        self._micro: list[int] = []
        self._losses: list[float] = []
        self._metrics: list[dict[str, float]] = []
        self._steps: list[Step] = []
        self._evaluations: list[tuple[int, float]] = []
        self._evaluated: dict[int, list[float]] = {}
        self._measured: dict[int, dict[str, float]] = {}
        self._initial: dict[str, np.ndarray] = {}
        self._schedule: list[float] = []
        self._config: dict[str, Any] = {}
        self._started = 0.0

    @property
    def started(self) -> bool:
        """Whether a training has begun."""
        return self._started > 0

    def replay(self, runtime: ModuleType) -> None:
        """Give the port the completions that the source sampled, if it sampled any, and what stood in for rewards."""
        rewards.of_port(runtime.__name__, self.settings.work)
        trace = Path(self.settings.initial or "") / "trace.json"
        config = json.loads(trace.read_text("utf-8"))["config"] if trace.is_file() else {}
        if recorded := config.get("rollouts"):
            rollouts.replay(runtime.__name__, recorded, self._problems)
        if recorded := config.get("distilled"):
            distilled.replay(runtime.__name__, recorded, self._problems)

    def optimizer(self, name: str, arguments: dict[str, Any]) -> None:
        if not self._running:
            self._optimizer = (name, arguments)

    def clip(self, max_norm: float) -> None:
        if not self._running:
            self._clip = float(max_norm)

    def rule(self, rule: Any, dropout: float) -> None:
        self._scalings.add(round(float(rule.alpha / rule.rank), 9))
        self._dropouts.setdefault(rule.module_path, dropout)  # a copy of a rule is made with ours

    @contextmanager
    def without_rules(self) -> Iterator[None]:
        """Rules that are made meanwhile are not those of the training."""
        before = set(self._scalings), dict(self._dropouts)
        yield
        self._scalings, self._dropouts = before

    def hf_optimizer(self, _: str, arguments: dict[str, Any]) -> None:
        self.optimizer(*of_hf_optimizer(arguments))

    def evaluation(self, step: int, loss: float, measured: Mapping[str, Any]) -> None:
        """`measured`: what the port's MetricsTrainer computed at this step."""
        if not self._done:
            self._evaluations.append((step, loss))
            self._measured[step] = self._measured.get(step, {}) | numbers(measured)

    def evaluated(self, step: int, loss: float) -> None:
        """A batch of an evaluation that a loop makes at this step, by `rt.EvaluationLosses`."""
        if not self._done:
            self._evaluated.setdefault(step, []).append(loss)

    def start_from_source(self, model: Any) -> None:
        """Give the model the source's initial adapter; what doesn't fit stays its own, and shows in the comparison."""
        if self._initial:
            return
        adapter = adapter_of(self.runtime, model)
        self._starts = starts_of(adapter)
        if adapter and self.settings.initial:
            with np.load(Path(self.settings.initial) / "initial.npz") as packed:
                source = {name: packed[name] for name in packed.files}
            fits = {n: a for n, a in source.items() if n in adapter and adapter[n].shape == a.shape}
            try:
                self.runtime.load_adapter(model, fits)
            except (KeyError, ValueError) as error:
                self._problems.append(f"the source's initial adapter doesn't fit the port: {error}")
            adapter = adapter_of(self.runtime, model)
        self._initial = adapter

    @property
    def done(self) -> bool:
        """Whether the training that is watched step by step is over."""
        return self._done

    @property
    def has_all_steps(self) -> bool:
        """Whether the steps that are compared have been trained."""
        return len(self._steps) >= self.settings.steps

    def begin(self, trainer: Any) -> None:
        if self._done or self._running:  # an epoch of a loop that keeps them
            return
        self._running = True
        self._started = time.monotonic()
        steps = trainer.config.max_steps
        self.events.when = "during"
        log_lines(self.events, getattr(trainer, "training_hooks", None), steps)
        self._config = self._describe(trainer, steps)
        rate = self._optimizer[1].get("learning_rate") if self._optimizer else None
        self._schedule = evaluate_schedule(rate, steps or self.settings.steps)

    def batches(self, trainer: Any, data: Any) -> Iterator[Any]:
        """The script's own batches, noted down, until the wanted steps are done."""
        accumulation = trainer.config.get_with_default("gradient_accumulation_steps", 1)
        buckets = getattr(data, "buckets", ()) or getattr(data, "shapes", ())
        if buckets and not self._done:
            self._config["buckets"] = list(buckets)  # which deal or pack the rows of a step by length
        before = 0 if self._done else len(self._steps) * accumulation  # epochs of a loop that keeps them
        for number, batch in enumerate(data, before):
            if number >= self.settings.steps * accumulation:
                return
            if not self._done:
                sampled = isinstance(batch, dict) and "completion_mask" in batch
                shown = on_host(batch)
                rows = rollouts.rows_of_jax(shown) if sampled else documents(shown)
                self._rows += rows
                self._micro.append(len(rows))
            yield batch

    def micro_step(self, trainer: Any) -> None:
        if self._done:
            return
        buffer = trainer._buffered_train_metrics
        self._losses.append(float(np.asarray(buffer.losses[-1])))
        logged = buffer.additional_metrics
        self._metrics.append({name: float(np.asarray(logged[name][0][-1])) for name in METRICS if name in logged})
        accumulation = trainer.config.get_with_default("gradient_accumulation_steps", 1)
        if len(self._losses) < accumulation:
            return
        number = len(self._steps)
        self._steps.append(
            Step(
                rows=tuple(self._rows),
                micro=tuple(self._micro),
                learning_rate=self._schedule[number] if number < len(self._schedule) else None,
                loss=float(np.mean(self._losses)),
                grad_norm=norm_of(trainer.optimizer.opt_state),
                metrics=means(self._metrics),
            )
        )
        self._rows, self._micro, self._losses, self._metrics = [], [], [], []
        print(f"step {len(self._steps)} loss {self._steps[-1].loss:.6f}", flush=True)

    def finished(self, trainer: Any) -> None:
        if self._done:
            return
        self._done, self._running = True, False
        self.events.when = "after"
        final = self._final(trainer.model)
        if self.settings.hosts > 1:
            self._config["apart"] = self._apart(final if adapter_of(self.runtime, trainer.model) else {})
        Trace(
            config=self._config,
            steps=tuple(self._steps),
            schedule=tuple(self._schedule),
            initial=self._initial,
            final=final,
            evaluations=(*self._evaluations, *epoch_means(self._evaluated)),
            measured=self._measured,
            notes=tuple(self.substitutes.notes),
            seconds=time.monotonic() - self._started,
        ).save(self.folder)

    def _apart(self, final: Mapping[str, np.ndarray]) -> list[int]:
        """The JAX processes whose losses, norms or weights are others than the first one's."""
        steps = [(step.loss, step.grad_norm) for step in self._steps]
        weights = [float(np.sum(array, dtype=np.float64)) for _, array in sorted(final.items())]
        hosts = importlib.import_module(f"{self.runtime.__name__}.hosts.processes")
        said = hosts.gathered("losses and weights", json.dumps([steps, weights]))
        return [number for number, each in enumerate(said) if each != said[0]]

    def _final(self, model: Any) -> dict[str, np.ndarray]:
        try:
            adapter = adapter_of(self.runtime, model)
        except ValueError as error:
            self._problems.append(f"what the port trained is no PEFT adapter: {error}")
            return {}
        if adapter:
            return adapter
        from safetensors.numpy import load_file

        folder = self.folder / "weights"
        self.reading = True
        self.runtime.save_model(model, str(folder))
        self.reading = False
        tensors: dict[str, np.ndarray] = {}
        for file in sorted(Path(self.substitutes.output(folder)).glob("*.safetensors")):
            tensors.update({name: np.asarray(array, np.float32) for name, array in load_file(file).items()})
        return tensors

    def _describe(self, trainer: Any, steps: int | None) -> dict[str, Any]:
        name, given = self._optimizer or ("", {})
        mesh = trainer_mesh()
        return {
            "optimizer": name or None,
            "beta1": given.get("b1"),
            "beta2": given.get("b2"),
            "epsilon": given.get("eps"),
            "weight_decay": given.get("weight_decay", 0.0),
            "optimizer_arguments": given.get("arguments"),
            "decayed": self._decayed(trainer, given),
            "max_grad_norm": self._clip,
            "steps": steps,
            "accumulation": trainer.config.get_with_default("gradient_accumulation_steps", 1),
            "mesh": mesh,
            "lora_scaling": sorted(self._scalings),
            "lora_dropout": sorted(set(self._dropouts.values())),
            "starts": self._starts,
            "quantization": quantization_of(trainer.model),
            "weights_dtype": one_dtype(self.loads),
            **self.batching,
            "tensors": {key: list(array.shape) for key, array in self._initial.items()},
            "problems": self._problems,
        }

    def _decayed(self, trainer: Any, given: dict[str, Any]) -> list[int] | None:
        from flax import nnx

        params = nnx.state(trainer.model, trainer.optimizer.wrt)
        return decayed(given.get("weight_decay", 0.0), given.get("mask"), params)


def quantization_of(model: Any) -> str | None:
    """The format in which the port holds its base: `nf4`, `fp4`, `int8`, or None."""
    held = getattr(getattr(model, "porter", None), "quantization", None)
    return held.qtype if held is not None else None
