"""Runs a ported script under Tunix and writes down what it trained on and how.

    python -m porter.validate.observe_jax TRACE_FOLDER SETTINGS.json SCRIPT ARGS...

The script is not modified. Tunix, qwix, optax and the port's runtime are wrapped first, in this process: the model
and the data are the same substitutes as the source's, the mesh is the one asked for, training starts from the source's
initial weights and stops after the wanted steps; the schedule keeps its whole length. Nothing here imports torch.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from . import rollouts
from .folded import fold_batches
from .optax_settings import decayed, of_hf_optimizer, patch_optax, telling
from .preferences import METRICS, means
from .read_jax import adapter_of, documents, evaluate_schedule, norm_of, recorded_norm, trainer_mesh
from .script import run_script
from .settings import Settings
from .starts import starts_of
from .substitutes import Substitutes, patch_loaders
from .trace import Row, Step, Trace


def main() -> int:
    folder, settings_file, script, *arguments = sys.argv[1:]
    settings = Settings.load(settings_file)
    Path(folder).mkdir(parents=True, exist_ok=True)
    if not uses_torch(Path(script)):
        without_torch()
    substitutes = Substitutes(settings, "port", arguments)
    patch_loaders(substitutes)
    observer = Observer(settings, substitutes, Path(folder))
    patch_mesh(settings)
    patch_optax(observer.optimizer, observer.clip)
    patch_qwix(observer)
    for runtime in runtimes(Path(script)):
        patch_runtime(observer, runtime)
        observer.replay(runtime)
    patch_trainer(observer)
    return run_script(script, arguments, Path(folder))


def uses_torch(script: Path) -> bool:
    """Whether a port keeps torch for its data: transformers may be asked for its tensors then."""
    return re.search(r"^\s*(import|from)\s+torch\b", script.read_text("utf-8", "replace"), re.MULTILINE) is not None


def without_torch() -> None:
    """Let transformers believe that torch is not installed, as on a TPU host.

    It also saves the seconds that importing torch takes.
    """
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        from transformers.utils import is_torch_available

        is_torch_available()  # the answer is cached
    finally:
        del sys.modules["torch"]


def runtimes(script: Path) -> list[ModuleType]:
    """The runtime packages that the script can import: ours, and the copy beside it that `--vendor` made."""
    found = [importlib.import_module("porter.runtime")]
    if (script.absolute().parent / "porter_runtime").is_dir():
        sys.path.insert(1, str(script.absolute().parent))
        found.append(importlib.import_module("porter_runtime"))
    return found


def patch_mesh(settings: Settings) -> None:
    """`jax.make_mesh` makes the mesh asked for; without one, the script's own, fitted to the devices there are."""
    import jax

    original = jax.make_mesh

    @functools.wraps(original)
    def make_mesh(axis_shapes: Any, axis_names: Any, *args: Any, **kwargs: Any) -> Any:
        shape = tuple(axis_shapes)
        there = kwargs.pop("devices", None) or jax.devices()
        if settings.mesh is not None:
            sizes = {"fsdp": settings.mesh[0], "tp": settings.mesh[1]}
            shape = tuple(sizes.get(name, 1) for name in axis_names)
        elif math.prod(shape) != len(there):
            shape = fitted(shape, len(there))
        return original(shape, axis_names, *args, devices=there[: math.prod(shape)], **kwargs)

    jax.make_mesh = make_mesh


def fitted(shape: tuple[int, ...], devices: int) -> tuple[int, ...]:
    """`shape` for another number of devices: later axes keep what divides it, the first takes the rest."""
    sizes, left = [], devices
    for size in reversed(shape[1:]):
        sizes.append(math.gcd(size, left))
        left //= sizes[-1]
    return (left, *reversed(sizes))


def patch_qwix(observer: Observer) -> None:
    """LoRA rules have dropout 0, and tell their scaling and the dropout that they were given."""
    import qwix

    original = qwix.LoraRule.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        dropout = kwargs.get("dropout", 0.0)
        if dropout:
            kwargs["dropout"] = 0.0
        original(self, *args, **kwargs)
        observer.rule(self, float(dropout))

    qwix.LoraRule.__init__ = init


def patch_runtime(observer: Observer, runtime: ModuleType) -> None:
    """The runtime loads the substitute in the precision compared and writes nothing outside the work folder."""
    settings, substitutes = observer.settings, observer.substitutes
    observer.runtime = runtime
    load_model, separate_kv = runtime.load_model, runtime.separate_kv

    @functools.wraps(load_model)
    def patched_load(model_id: Any, mesh: Any, **kwargs: Any) -> Any:
        kwargs.pop("revision", None)
        if settings.dtype == "float32":
            import jax.numpy as jnp

            kwargs["dtype"], kwargs["compute_dtype"] = jnp.float32, None
        return load_model(substitutes.model(str(model_id)), mesh, **kwargs)

    @functools.wraps(separate_kv)
    def patched_separate(model: Any) -> Any:
        import optax

        observer.norm_inside = True
        return optax.chain(separate_kv(model), recorded_norm())

    replace_everywhere(runtime, "hf_optimizer", telling("hf_optimizer", runtime.hf_optimizer, observer.hf_optimizer))
    kinds = (runtime.SFTBatches, runtime.TrainerBatches, runtime.PreferenceBatches, runtime.KTOBatches)
    for batches in (*kinds, runtime.GRPOBatches):
        fold_batches(batches, settings.fold, observer.batching)
    replace_everywhere(runtime, "load_model", patched_load)
    replace_everywhere(runtime, "separate_kv", patched_separate)
    for name in ("fresh_dir", "resume_dir"):
        replace_everywhere(runtime, name, lambda path: str(Path(substitutes.output(path)).absolute()))
    for name in ("save_adapter", "save_model"):
        replace_everywhere(runtime, name, _saving(getattr(runtime, name), substitutes))
    replace_everywhere(runtime, "push_to_hub", lambda *a, **k: substitutes.note("nothing was pushed to the Hub"))


def _saving(original: Any, substitutes: Substitutes) -> Any:
    @functools.wraps(original)
    def save(model: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        return original(model, substitutes.output(path), *args, **kwargs)

    return save


def replace_everywhere(runtime: ModuleType, name: str, function: Any) -> None:
    """Put `function` in the package and in the module that defines it."""
    original = getattr(runtime, name)
    home = sys.modules.get(getattr(original, "__module__", ""), runtime)
    setattr(runtime, name, function)
    if getattr(home, name, None) is original:
        setattr(home, name, function)


def patch_trainer(observer: Observer) -> None:
    """PeftTrainer starts from the source's weights, feeds the wanted steps, and tells losses and norms."""
    from tunix.sft import peft_trainer

    trainer = peft_trainer.PeftTrainer
    init, train, after_step = trainer.__init__, trainer.train, trainer._post_process_train_step
    write_metrics = trainer._write_metrics

    @functools.wraps(init)
    def patched_init(self: Any, model: Any, optimizer: Any, training_config: Any, *args: Any, **kwargs: Any) -> None:
        observer.start_from_source(model)
        if not observer.norm_inside:
            import optax

            optimizer = optax.chain(recorded_norm(), optimizer)
        config = replace(training_config, checkpoint_root_directory=None, metrics_logging_options=None)
        init(self, model, optimizer, config, *args, **kwargs)

    @functools.wraps(train)
    def patched_train(self: Any, train_ds: Any, eval_ds: Any = None, *args: Any, **kwargs: Any) -> None:
        observer.begin(self)
        train(self, observer.batches(self, train_ds), eval_ds, *args, **kwargs)
        observer.finished(self)

    @functools.wraps(after_step)
    def patched_after(self: Any, aux: Any) -> None:
        observer.micro_step(self)
        after_step(self, aux)

    @functools.wraps(write_metrics)
    def patched_write(self: Any, metrics_buffer: Any) -> None:
        if self._mode == "eval" or str(self._mode).endswith(("EVAL", "eval")):
            observer.evaluation(int(metrics_buffer.step), float(metrics_buffer.loss))
        write_metrics(self, metrics_buffer)

    trainer.__init__, trainer.train = patched_init, patched_train
    trainer._post_process_train_step, trainer._write_metrics = patched_after, patched_write


class Observer:
    """Collects the trace of the first training run of the process."""

    def __init__(self, settings: Settings, substitutes: Substitutes, folder: Path) -> None:
        self.settings = settings
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
        self._problems: list[str] = []
        self._done = self._running = False
        self._rows: list[Row] = []
        self._micro: list[int] = []
        self._losses: list[float] = []
        self._metrics: list[dict[str, float]] = []
        self._steps: list[Step] = []
        self._evaluations: list[tuple[int, float]] = []
        self._initial: dict[str, np.ndarray] = {}
        self._schedule: list[float] = []
        self._config: dict[str, Any] = {}
        self._started = 0.0

    def replay(self, runtime: ModuleType) -> None:
        """Give the port the completions that the source sampled, if it sampled any."""
        trace = Path(self.settings.initial or "") / "trace.json"
        recorded = json.loads(trace.read_text("utf-8"))["config"].get("rollouts") if trace.is_file() else None
        if recorded:
            rollouts.replay(runtime.__name__, recorded, self._problems)

    def optimizer(self, name: str, arguments: dict[str, Any]) -> None:
        if not self._running:
            self._optimizer = (name, arguments)

    def clip(self, max_norm: float) -> None:
        if not self._running:
            self._clip = float(max_norm)

    def rule(self, rule: Any, dropout: float) -> None:
        self._scalings.add(round(float(rule.alpha / rule.rank), 9))
        self._dropouts.setdefault(rule.module_path, dropout)  # a copy of a rule is made with ours

    def hf_optimizer(self, _: str, arguments: dict[str, Any]) -> None:
        self.optimizer(*of_hf_optimizer(arguments))

    def evaluation(self, step: int, loss: float) -> None:
        if not self._done:
            self._evaluations.append((step, loss))

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

    def begin(self, trainer: Any) -> None:
        if self._done:
            return
        self._running = True
        self._started = time.monotonic()
        steps = trainer.config.max_steps
        self._config = self._describe(trainer, steps)
        rate = self._optimizer[1].get("learning_rate") if self._optimizer else None
        self._schedule = evaluate_schedule(rate, steps or self.settings.steps)

    def batches(self, trainer: Any, data: Any) -> Iterator[Any]:
        """The script's own batches, noted down, until the wanted steps are done."""
        accumulation = trainer.config.get_with_default("gradient_accumulation_steps", 1)
        buckets = getattr(data, "buckets", ()) or getattr(data, "shapes", ())
        if buckets and not self._done:
            self._config["buckets"] = list(buckets)  # which deal or pack the rows of a step by length
        for number, batch in enumerate(data):
            if number >= self.settings.steps * accumulation:
                return
            if not self._done:
                sampled = isinstance(batch, dict) and "completion_mask" in batch
                rows = rollouts.rows_of_jax(batch) if sampled else documents(batch)
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
        final = self._final(trainer.model)
        Trace(
            config=self._config,
            steps=tuple(self._steps),
            schedule=tuple(self._schedule),
            initial=self._initial,
            final=final,
            evaluations=tuple(self._evaluations),
            notes=tuple(self.substitutes.notes),
            seconds=time.monotonic() - self._started,
        ).save(self.folder)

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
        self.runtime.save_model(model, str(folder))
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


if __name__ == "__main__":
    sys.exit(main())
