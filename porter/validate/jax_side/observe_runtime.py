"""The port's runtime: it loads the substitutes, writes below the work folder, and tells what its optimizers are."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ...runtime.facts.stored_formats import base_name
from ..comparing.configuration import dtype_class
from ..stand_ins.substitutes import Substitutes
from .folded_batches import fold_batches
from .multimodal_stand_ins import answer_as_multimodal
from .observer_jax import Observer
from .optax_settings import telling
from .read_jax import recorded_norm
from .replacing import replace_everywhere


def runtimes(script: Path) -> list[ModuleType]:
    """The runtime packages that the script can import: ours, and the copy beside it that `--vendor` made."""
    found = [importlib.import_module("porter.runtime")]
    if (script.absolute().parent / "porter_runtime").is_dir():
        sys.path.insert(1, str(script.absolute().parent))
        found.append(importlib.import_module("porter_runtime"))
    return found


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


def leave_gguf_out(runtime: ModuleType, note: Callable[[str], None]) -> None:
    """The merged model is saved, and llama.cpp makes no file of it, as on the source's side."""
    home = importlib.import_module(f"{runtime.__name__}.saving.gguf")

    def converted(*arguments: Any) -> list[str]:
        note("no GGUF was written")
        return []

    home.__dict__.update(find_llama_cpp=lambda: None, _convert=converted)
