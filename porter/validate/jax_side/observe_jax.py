"""Runs a ported script under Tunix and writes down what it trained on and how.

    python -m porter.validate.jax_side.observe_jax TRACE_FOLDER SETTINGS.json SCRIPT ARGS...

The script is not modified. Tunix, qwix, optax and the port's runtime are wrapped first, in this process: the model
and the data are the same substitutes as the source's, the mesh is the one asked for, training starts from the source's
initial weights and stops after the wanted steps; the schedule keeps its whole length. Nothing here imports torch, but
for a port that does.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..observing.clock import tell_alike
from ..observing.events import Events
from ..observing.guard import keep_to_copy
from ..observing.settings import Settings
from ..observing.unseeded import begin_alike
from ..running.script import run_script, search_only_libraries, uses_torch
from ..stand_ins.command_line.answers import answer_questions
from ..stand_ins.command_line.variables import provide_environment
from ..stand_ins.loading import (
    AUTO_MODELS,
    patch_adapters,
    patch_from_pretrained,
    patch_loaders,
    patch_save_pretrained,
)
from ..stand_ins.substitutes import Substitutes
from ..world.metrics import stand_in_metrics
from ..world.start import stand_in_world
from .asked_for_jax import asked_for, watch_outputs, watch_torch_saves
from .observe_runtime import leave_gguf_out, patch_runtime, runtimes
from .observer_jax import Observer
from .optax_settings import patch_optax
from .read_jax import recorded_norm


def main() -> int:
    folder, settings_file, script, *arguments = sys.argv[1:]
    search_only_libraries(folder)
    settings = Settings.load(settings_file)
    folder = disk(folder, settings)
    Path(folder).mkdir(parents=True, exist_ok=True)
    torch = uses_torch(Path(script))
    if not torch:
        without_torch()
    substitutes = Substitutes(settings, "port", arguments, Path(folder))
    stand_in_world(substitutes, "port", settings.sources, settings.work)
    patch_loaders(substitutes)
    stand_in_metrics(settings.sources, substitutes.note)
    if torch:
        patch_kept_models(substitutes)
    events = Events(Path(folder), substitutes.outside, script)
    if torch:
        watch_torch_saves(events)
    observer = Observer(settings, substitutes, Path(folder), events)
    patch_mesh(settings)
    patch_optax(observer.optimizer, observer.clip)
    patch_qwix(observer)
    for runtime in runtimes(Path(script)):
        patch_runtime(observer, runtime)
        watch_outputs(observer, runtime)
        observer.replay(runtime)
        leave_gguf_out(runtime, substitutes.note)
    patch_trainer(observer)
    provide_environment(script, substitutes.note)
    answer_questions(substitutes.note)
    keep_to_copy(settings, substitutes)
    begin_alike(settings.sources, substitutes.note)
    tell_alike(Path(settings.work), substitutes.note)
    status = run_script(script, arguments, Path(folder), substitutes.note, lambda: observer.started)
    if status and settings.hosts > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # JAX would have it wait for the other processes, and these wait for it
    return status


def disk(folder: str, settings: Settings) -> str:
    """The folder that this process writes to: several ones have disks of their own."""
    index = os.environ.get("JAX_PROCESS_ID", "0")
    return folder if settings.hosts == 1 or index == "0" else str(Path(folder) / f"host{index}")


def patch_kept_models(substitutes: Substitutes) -> None:
    """What a port goes on doing with a torch model beside its training is done with the source's stand-in."""
    import torch
    import transformers

    from ..torch_side.cuda.half_precision import keep_float32

    def adjust(kwargs: dict[str, Any]) -> dict[str, Any]:
        for name in ("quantization_config", "load_in_4bit", "load_in_8bit", "device_map", "attn_implementation"):
            kwargs.pop(name, None)
        if substitutes.settings.dtype == "float32":  # as the source's
            kwargs.pop("torch_dtype", None)
            kwargs["dtype"] = torch.float32
        return kwargs

    if substitutes.settings.dtype == "float32":
        keep_float32(substitutes.note)
    for name in ("PreTrainedModel", *AUTO_MODELS):
        if hasattr(transformers, name):
            patch_from_pretrained(getattr(transformers, name), substitutes, adjust)
    patch_save_pretrained(transformers.PreTrainedModel, substitutes)
    with contextlib.suppress(ImportError):
        import peft

        patch_save_pretrained(peft.PeftModel, substitutes)
        patch_adapters(peft.PeftModel, substitutes)


def without_torch() -> None:
    """Let transformers and tensorboardX, which Tunix imports, believe that torch is not installed, as on a TPU host.

    It also saves the seconds that importing torch takes.
    """
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        from transformers.utils import is_torch_available

        is_torch_available()  # the answer is cached
        with contextlib.suppress(ImportError):
            import tensorboardX  # noqa: F401
    finally:
        del sys.modules["torch"]


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
        chosen = there[: math.prod(shape)]
        if settings.across:
            import numpy as np

            apart = np.array(chosen).reshape(settings.hosts, -1).T.reshape(shape)
            return jax.sharding.Mesh(apart, axis_names, *args, **kwargs)
        return original(shape, axis_names, *args, devices=chosen, **kwargs)

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


def losses_of(trainer: Any) -> list[float]:
    """The loss of each optimizer step that Tunix has logged."""
    logger, prefix = trainer.metrics_logger, trainer.metrics_prefix
    known = logger.metric_exists(prefix, "loss", "train")
    return [float(loss) for loss in logger.get_metric_history(prefix, "loss", "train")] if known else []


@contextlib.contextmanager
def told_where_whole(observer: Any, trainer: Any) -> Iterator[None]:
    """A training that fails once it has all steps, in a callback's last word or a last evaluation, is told whole."""
    try:
        yield
    except Exception:
        if observer.has_all_steps:
            observer.finished(trainer)
        raise


def patch_trainer(observer: Observer) -> None:
    """PeftTrainer starts from the source's weights, feeds the wanted steps, and tells losses and norms."""
    from tunix.sft import peft_trainer

    trainer = peft_trainer.PeftTrainer
    init, train, after_step = trainer.__init__, trainer.train, trainer._post_process_train_step
    write_metrics, close = trainer._write_metrics, trainer.close

    @functools.wraps(init)
    def patched_init(self: Any, model: Any, optimizer: Any, training_config: Any, *args: Any, **kwargs: Any) -> None:
        observer.start_from_source(model)
        if not observer.norm_inside:
            import optax

            optimizer = optax.chain(recorded_norm(), optimizer)
        asked_for(observer.events, training_config)
        config = replace(training_config, checkpoint_root_directory=None, metrics_logging_options=None)
        init(self, model, optimizer, config, *args, **kwargs)

    @functools.wraps(train)
    def patched_train(self: Any, train_ds: Any, eval_ds: Any = None, *args: Any, **kwargs: Any) -> None:
        observer.begin(self)
        if hasattr(getattr(self, "training_hooks", None), "recording"):
            self.training_hooks.recording.off()  # it would lie where the script says
        later, before = observer.done, len(losses_of(self))
        with told_where_whole(observer, self):
            train(self, observer.batches(self, train_ds), eval_ds, *args, **kwargs)
        if self.is_managed_externally and not later:  # an epoch: what follows the last one is the loop's own
            if observer.has_all_steps:
                observer.finished(self)
                observer.events.add("cut")
                raise SystemExit(0)  # as the source's loop is ended there
            return
        observer.finished(self)
        if later:
            losses = losses_of(self)[before:]
            observer.events.trained(len(losses), sum(losses) / max(1, len(losses)))

    @functools.wraps(close)
    def patched_close(self: Any) -> None:
        if self.is_managed_externally:
            observer.finished(self)
        close(self)

    @functools.wraps(after_step)
    def patched_after(self: Any, aux: Any) -> None:
        observer.micro_step(self)
        after_step(self, aux)

    @functools.wraps(write_metrics)
    def patched_write(self: Any, metrics_buffer: Any) -> None:
        if self._mode == "eval" or str(self._mode).endswith(("EVAL", "eval")):
            of_set, loss = getattr(self, "evaluating", "eval"), float(metrics_buffer.loss)
            named = {} if of_set == "eval" else {f"{of_set}_loss": loss}  # of one of several sets
            observer.evaluation(int(metrics_buffer.step), loss, getattr(self, "evaluated", {}) | named)
        write_metrics(self, metrics_buffer)

    trainer.__init__, trainer.train, trainer.close = patched_init, patched_train, patched_close
    trainer._post_process_train_step, trainer._write_metrics = patched_after, patched_write


if __name__ == "__main__":
    sys.exit(main())
