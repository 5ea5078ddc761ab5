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
import importlib
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from ...runtime.facts.stored_formats import base_name
from ..comparing.configuration import dtype_class
from ..observing.clock import tell_alike
from ..observing.events import Events
from ..observing.guard import keep_to_copy
from ..observing.settings import Settings
from ..observing.unseeded import begin_alike
from ..running.script import run_script, search_only_libraries, uses_torch
from ..stand_ins.command_line.answers import answer_questions
from ..stand_ins.command_line.variables import provide_environment
from ..stand_ins.substitutes import (
    AUTO_MODELS,
    Substitutes,
    patch_adapters,
    patch_from_pretrained,
    patch_loaders,
    patch_save_pretrained,
)
from ..world.metrics import stand_in_metrics
from ..world.start import stand_in_world
from .asked_for_jax import asked_for, watch_outputs, watch_torch_saves
from .folded_batches import fold_batches
from .multimodal_stand_ins import answer_as_multimodal
from .observer_jax import Observer
from .optax_settings import patch_optax, telling
from .read_jax import recorded_norm
from .replacing import replace_everywhere


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


def runtimes(script: Path) -> list[ModuleType]:
    """The runtime packages that the script can import: ours, and the copy beside it that `--vendor` made."""
    found = [importlib.import_module("porter.runtime")]
    if (script.absolute().parent / "porter_runtime").is_dir():
        sys.path.insert(1, str(script.absolute().parent))
        found.append(importlib.import_module("porter_runtime"))
    return found


def leave_gguf_out(runtime: ModuleType, note: Callable[[str], None]) -> None:
    """The merged model is saved, and llama.cpp makes no file of it, as on the source's side."""
    home = importlib.import_module(f"{runtime.__name__}.saving.gguf")

    def converted(*arguments: Any) -> list[str]:
        note("no GGUF was written")
        return []

    home.__dict__.update(find_llama_cpp=lambda: None, _convert=converted)


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


def patch_merging(observer: Observer, runtime: ModuleType) -> None:
    """An adapter that is merged before the training is weights by then: its rules are none of the training's."""
    merge_adapter = runtime.merge_adapter

    @functools.wraps(merge_adapter)
    def patched_merge(*args: Any, **kwargs: Any) -> Any:
        with observer.without_rules():
            return merge_adapter(*args, **kwargs)

    replace_everywhere(runtime, "merge_adapter", patched_merge)


def patch_runtime(observer: Observer, runtime: ModuleType) -> None:
    """The runtime loads the substitute in the precision compared and writes nothing outside the work folder."""
    settings, substitutes = observer.settings, observer.substitutes
    observer.runtime = runtime
    load_model, separate_kv = runtime.load_model, runtime.separate_kv

    @functools.wraps(load_model)
    def patched_load(model_id: Any, mesh: Any, **kwargs: Any) -> Any:
        kwargs.pop("revision", None)
        if base_name(str(model_id)) != str(model_id):
            kwargs["quantization"] = "nf4"  # as load_model does, which gets the stand-in
        observer.loads.append(
            "quantised" if kwargs.get("quantization") else dtype_class(kwargs.get("dtype"), "checkpoint")
        )
        if settings.dtype == "float32":
            import jax.numpy as jnp

            kwargs["dtype"], kwargs["compute_dtype"] = jnp.float32, None
        return load_model(substitutes.model(str(model_id)), mesh, **kwargs)

    @functools.wraps(separate_kv)
    def patched_separate(model: Any) -> Any:
        import optax

        observer.norm_inside = True
        return optax.chain(separate_kv(model), recorded_norm())

    _record_scaled(observer)
    if (losses := getattr(runtime, "EvaluationLosses", None)) is not None:  # an older runtime beside a port has none
        _watch_losses(observer, losses)
    replace_everywhere(runtime, "adamw_hf", telling("adamw", runtime.adamw_hf, observer.optimizer))
    replace_everywhere(runtime, "hf_optimizer", telling("hf_optimizer", runtime.hf_optimizer, observer.hf_optimizer))
    kinds = (runtime.SFTBatches, runtime.TrainerBatches, runtime.PreferenceBatches, runtime.KTOBatches)
    for batches in (*kinds, runtime.GRPOBatches):
        fold_batches(batches, settings.fold, observer.batching)
    replace_everywhere(runtime, "load_model", patched_load)
    answer_as_multimodal(runtime)
    average_new_rows(importlib.import_module(f"{runtime.__name__}.models.vocabulary"))
    replace_everywhere(runtime, "separate_kv", patched_separate)
    apply_adapter, load_trained = runtime.apply_adapter, runtime.load_trained

    @functools.wraps(apply_adapter)
    def patched_adapter(model: Any, adapter: Any, *args: Any, **kwargs: Any) -> Any:
        found = substitutes.adapter(adapter, model.porter.path, kwargs.get("subfolder"))
        return apply_adapter(model, found, *args, **kwargs)

    @functools.wraps(load_trained)
    def patched_trained(path: Any, *args: Any, **kwargs: Any) -> Any:
        saved = substitutes.saved(path)
        known = saved != path or Path(str(path)).is_dir()
        return (load_trained if known else runtime.load_model)(saved, *args, **kwargs)

    replace_everywhere(runtime, "apply_adapter", patched_adapter)
    patch_merging(observer, runtime)
    replace_everywhere(runtime, "load_trained", patched_trained)
    for name in ("fresh_dir", "resume_dir"):
        replace_everywhere(runtime, name, lambda path: str(Path(substitutes.output(path)).absolute()))
    for name in ("save_adapter", "save_model"):
        replace_everywhere(runtime, name, _saving(getattr(runtime, name), substitutes))
    merged = importlib.import_module(f"{runtime.__name__}.saving.merging").MergedModel
    merged.save_pretrained = _saving(merged.save_pretrained, substitutes)


def _watch_losses(observer: Observer, losses: Any) -> None:
    """The batches that a loop of the script's own evaluates."""
    every = losses.__iter__

    @functools.wraps(every)
    def patched_iter(self: Any) -> Iterator[Any]:
        for loss in every(self):
            observer.evaluated(self._trainer.train_steps, float(loss))
            yield loss

    losses.__iter__ = patched_iter


def _record_scaled(observer: Observer) -> None:
    """A port that repeats a release's second division scales first: the source's norm is that of what is left."""
    import optax

    scale = optax.scale

    @functools.wraps(scale)
    def patched_scale(step_size: float) -> Any:
        observer.norm_inside = True
        return optax.chain(scale(step_size), recorded_norm())

    optax.scale = patched_scale


def _saving(original: Any, substitutes: Substitutes) -> Any:
    @functools.wraps(original)
    def save(model: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        return original(model, substitutes.output(path), *args, **kwargs)

    return save


def average_new_rows(vocabulary: Any) -> None:
    """Rows that a vocabulary gets are the mean of the others, as on the source's side, whatever its release drew."""
    original = vocabulary.new_rows

    @functools.wraps(original)
    def new_rows(value: Any, axis: int, count: int, *_: Any) -> Any:
        return original(value, axis, count, None, 0)

    vocabulary.new_rows = new_rows


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
