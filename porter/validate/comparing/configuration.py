"""The first check: settings as both libraries understood them, before a number is computed from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from . import causes
from .adapter_starts import unlike
from .trace import Trace
from .verdict import Check

CONFIGURATION = "configuration"

# Setting -> what a user calls it. Both observers write these keys.
SETTINGS = {
    "optimizer": "optimizer",
    "optimizer_arguments": "the optimizer's own arguments",
    "beta1": "Adam's beta1",
    "beta2": "Adam's beta2",
    "epsilon": "Adam's epsilon",
    "weight_decay": "weight decay",
    "decayed": "weight elements that decay, of all trained",
    "max_grad_norm": "gradient clipping",
    "steps": "optimizer steps of the whole run",
    "processes": "processes of the GPU run",
    "average_tokens": "average_tokens_across_devices",
    "lora_scaling": "LoRA scaling (alpha / r)",
    "lora_dropout": "LoRA dropout",
    "quantization": "the frozen base's quantisation",
    "weights_dtype": "dtype in which the weights are loaded",
}
ADAM = ("adam", "adamw")
# A port shows them when it feeds the runtime's batches and takes an optimizer by its whole name, else not.
UNSEEN_IS_EQUAL = ("decayed", "processes", "average_tokens", "optimizer_arguments")
FEW = 0.01  # share by which the trained weights may differ for those that decay to be comparable


def check_configuration(source: Trace, port: Trace) -> Check:
    """The settings both libraries understood, how adapters start, and the names and shapes of the trained tensors."""
    problems: list[str] = list(port.config.get("problems", ()))
    cause = problems[0] if problems else ""
    if not port.config.get("optimizer"):
        problems.append("the port made no Optax optimizer that could be seen")
    for key, name in SETTINGS.items():
        if key in source.config and not same_setting(key, source.config, port.config):
            problems.append(f"{name}: source {_shown(source.config[key])}, port {_shown(port.config.get(key))}")
            cause = cause or causes.of_setting(key, source.config.get(key), port.config.get(key))
    wanted, got = source.config.get("tensors", {}), port.config.get("tensors", {})
    if got:
        missing, extra = sorted(set(wanted) - set(got)), sorted(set(got) - set(wanted))
        shapes = sorted(name for name in set(wanted) & set(got) if list(wanted[name]) != list(got[name]))
        if missing:
            problems.append(f"{len(missing)} tensors that the source trains have none in the port: {some(missing)}")
        if extra:
            problems.append(f"{len(extra)} tensors that only the port trains: {some(extra)}")
        if shapes:
            name = shapes[0]
            problems.append(f"{len(shapes)} tensors of another shape: {name}: source {wanted[name]}, port {got[name]}")
        if missing or extra or shapes:
            cause = cause or causes.of_tensors(missing, extra, shapes)
    elif source.config.get("lora_scaling"):
        problems.append("the source trains LoRA adapters, the port none")
        cause = cause or "the port never applied LoRA"
    drawn = unlike(source.config.get("starts", {}), port.config.get("starts", {}))
    if drawn:
        problems.append(drawn)
        cause = cause or causes.ADAPTER_START
    if problems:
        return Check(CONFIGURATION, "differs", "; ".join(problems), cause=cause)
    count = sum(key in source.config for key in SETTINGS) + 1
    return Check(CONFIGURATION, "equal", f"{count} settings, {len(wanted)} trained tensors")


def same_setting(key: str, source: Mapping[str, Any], port: Mapping[str, Any]) -> bool:
    """Whether setting `key` means the same in both configurations."""
    a, b = source.get(key), port.get(key)
    if key in UNSEEN_IS_EQUAL and (a is None or b is None):
        return True
    if key == "optimizer":
        # Adam without decay is AdamW without decay.
        return a == b or (a in ADAM and b in ADAM and not source.get("weight_decay") and not port.get("weight_decay"))
    if key == "decayed" and a and b:
        return _same_decay(a, b, lora=bool(source.get("lora_scaling")))
    if key == "weights_dtype":
        # What a checkpoint holds isn't known of a stand-in: only a source that says float32 or half is compared. A TPU
        # has no float16: its weights become float32, as DeepSpeed and a gradient scaler keep them, or bfloat16.
        return a == "float16" or a in (None, "checkpoint") or b is None or a == b or {a, b} == {"half", "checkpoint"}
    if key == "average_tokens" and source.get("processes", 1) == 1:
        return True
    if a is None and (key.startswith("beta") or key == "epsilon"):
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return all(math.isclose(a[name], b[name], rel_tol=1e-6) for name in set(a) & set(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-6) for x, y in zip(a, b, strict=True))
    if isinstance(a, float | int) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-6)
    return bool(a == b)


def dtype_class(asked: Any, default: str) -> str:
    """`float32`, `half` (bfloat16), `float16` or `checkpoint`, as asked."""
    name = str(getattr(asked, "__name__", asked)).rsplit(".", 1)[-1]
    if asked is None:
        return default
    return {"auto": "checkpoint", "float32": "float32", "float": "float32", "float16": "float16"}.get(name, "half")


def one_dtype(loads: Sequence[str]) -> str | None:
    """The dtype of all models that a script loads; None where they differ or a base is quantised."""
    return loads[0] if len(set(loads)) == 1 and loads[0] != "quantised" else None


def some(names: Sequence[str]) -> str:
    """The first two names, and how many more."""
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _same_decay(source: Sequence[int], port: Sequence[int], *, lora: bool) -> bool:
    """Counts of [decaying, trained] elements.

    A fused adapter holds zeros that PEFT's doesn't, so that of adapters the share counts. Of whole models either
    count may be off by what only one side holds (gemma4's scales are buffers in transformers), not both; a vision
    tower that only the source trains leaves nothing to compare.
    """
    (ours, all_ours), (theirs, all_theirs) = source, port
    if lora:
        return math.isclose(ours * all_theirs, theirs * all_ours)
    if ours == theirs or all_ours - ours == all_theirs - theirs:
        return True
    return abs(all_ours - all_theirs) > FEW * all_ours


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}={each:g}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(f"{each:g}" for each in value) or "none"
    return str(value)
