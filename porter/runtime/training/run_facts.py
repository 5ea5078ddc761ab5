"""What made a run, for its record: the script, the versions, the devices and their mesh, the optimizer as it runs.

Optax keeps an optimizer's settings in the closures of its functions alone; they are read from there, so that what is
recorded is what trains, whatever the script says it is.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import optax
from flax import nnx

PACKAGES = (
    "tpu-port", "jax", "jaxlib", "libtpu", "flax", "optax", "orbax-checkpoint", "google-tunix", "qwix", "transformers",
    "tokenizers", "datasets", "numpy",
)  # fmt: skip
# Free variables of Optax's functions, and TrainingArguments' names of them.
SETTINGS = {
    ("clip_by_global_norm", "max_norm"): "max_grad_norm",
    ("add_decayed_weights", "weight_decay"): "weight_decay",
    ("scale_by_adam", "b1"): "adam_beta1",
    ("scale_by_adam", "b2"): "adam_beta2",
    ("scale_by_adam", "eps"): "adam_epsilon",
}
RATE = ("scale_by_learning_rate", "scale_by_schedule")


def facts(train_ctx: Any) -> dict[str, Any]:
    """Of a PeftTrainer: plain JSON values. `settings` are by the names of TrainingArguments and LoraConfig."""
    devices = jax.devices()
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {
        "format": 1,
        "port": _script(),
        "versions": {"python": platform.python_version(), **dict(_versions())},
        "devices": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "count": len(devices),
            "processes": jax.process_count(),
            "slice": os.environ.get("TPU_ACCELERATOR_TYPE"),
        },
        "mesh": _or_nothing(_mesh, train_ctx.model),
        "settings": _or_nothing(settings, train_ctx) or {},
        "run": {"from_step": int(train_ctx.train_steps), "started": started},
    }


def _or_nothing(read: Callable[[Any], Any], of: Any) -> Any:
    """What another library's objects show of themselves, None where they don't: no run ends for its record."""
    try:
        return read(of)
    except Exception:
        return None


def settings(train_ctx: Any) -> dict[str, Any]:
    """What the optimizer and the adapters train with; a setting that isn't found isn't there.

    `max_grad_norm` is 0 where nothing clips, as TrainingArguments has it, if the optimizer could be read at all.
    """
    found: dict[str, Any] = {}
    for owner, name, value in free_variables(train_ctx.optimizer.tx.update):
        key = SETTINGS.get((owner, name))
        if key is not None and isinstance(value, int | float):
            found.setdefault(key, float(value))
    if "adam_beta1" in found:
        found = {"max_grad_norm": 0.0, "weight_decay": 0.0} | found
    lora = getattr(train_ctx.model, "lora", None)
    if lora is not None:
        spec = lora.spec
        found |= {
            "lora_alpha": spec.lora_alpha,
            "r": spec.r,
            "adapted_linears": sum(len(each.blocks) for each in lora.sites),
        }
    return found


def clips(train_ctx: Any) -> bool:
    """Whether the optimizer clips to a global norm; true where that can't be read."""
    return _or_nothing(_clips, train_ctx) is not False


def _clips(train_ctx: Any) -> bool:
    return any(owner == "clip_by_global_norm" for owner, _, _ in free_variables(train_ctx.optimizer.tx.update))


def learning_rate(train_ctx: Any) -> Callable[[Any], Any] | None:
    """The optimizer's own rate by the number of updates before; None where it can't be read."""
    found: Callable[[Any], Any] | None = _or_nothing(_rate, train_ctx)
    return found


def _rate(train_ctx: Any) -> Callable[[Any], Any] | None:
    for owner, name, value in free_variables(train_ctx.optimizer.tx.update):
        if owner in RATE and name in ("learning_rate", "step_size_fn"):
            if callable(value):  # Optax's optimizers count downwards, by a schedule that is negated somewhere
                return lambda count, value=value: abs(value(count))  # type: ignore[misc]
            if isinstance(value, int | float):
                return lambda count, value=value: abs(value)  # type: ignore[misc]
        if (owner, name) == ("scale", "step_size") and isinstance(value, int | float) and value < 0:
            return lambda count, value=value: -value  # type: ignore[misc]
    return None


def free_variables(function: Any) -> Iterator[tuple[str, str, Any]]:
    """(function that made it, name, value) of all that the closures of an Optax update hold, outermost first."""
    pending, seen = [function], set()
    while pending:
        value = pending.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, optax.GradientTransformation):
            pending.append(value.update)
        elif isinstance(value, tuple | list):
            pending += list(value)
        elif isinstance(value, partial):
            pending += [value.func, *value.args, *value.keywords.values()]
        elif hasattr(value, "__self__") and isinstance(value.__self__, optax.MultiSteps):
            pending.append(value.__self__.inner_opt)
        elif getattr(value, "__closure__", None):
            owner = value.__qualname__.split(".")[0]
            for name, cell in zip(value.__code__.co_freevars, value.__closure__, strict=True):
                try:
                    held = cell.cell_contents
                except ValueError:
                    continue
                yield owner, name, held
                if not isinstance(held, nnx.Module):
                    pending.append(held)


def _script() -> dict[str, Any]:
    path = Path(sys.argv[0] or "")
    try:
        content = path.read_bytes()
    except OSError:
        return {"path": str(path)}
    return {"path": os.path.abspath(path), "sha256": hashlib.sha256(content).hexdigest()}


def _versions() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue


def _mesh(model: Any) -> dict[str, int] | None:
    for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)):
        if isinstance(leaf.sharding, jax.sharding.NamedSharding):
            return {str(name): int(size) for name, size in leaf.sharding.mesh.shape.items()}
    return None
