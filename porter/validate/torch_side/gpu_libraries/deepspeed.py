"""DeepSpeed without GPUs: ZeRO places weights and changes no value; its engine, optimizer and schedules are torch's.

What a config changes about a training of transformers' Trainer is read as transformers reads it: "auto" is the
arguments' value; an optimizer gets all weights in one group; a schedule takes the place of `lr_scheduler_type`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ....runtime.settings.zero_config import contradictions, leaves
from .optimizers import adamw

ADAM = ("adamw", "adam")
PRECISIONS = ("bf16", "bfloat16", "fp16")
CONFIG = "_porter_deepspeed"
HALF = "_porter_deepspeed_half"
NOTE = "DeepSpeed's ZeRO and offloading place weights and were left out; its optimizer and schedule were torch's"


def modules() -> dict[str, Callable[[], dict[str, Any]]]:
    fused = {"FusedAdam": adamw("FusedAdam", 0.0), "DeepSpeedCPUAdam": adamw("DeepSpeedCPUAdam", 0.0)}
    zero = {"Init": Whole, "GatheredParameters": Whole, "register_external_parameter": _nothing}
    return {
        "deepspeed": lambda: {
            "__version__": "0.17.0",
            "initialize": initialize,
            "init_distributed": _nothing,
            "add_config_arguments": add_config_arguments,
            "DeepSpeedEngine": Engine,
            "OnDevice": Whole,
        },
        "deepspeed.zero": lambda: zero,
        "deepspeed.runtime.zero": lambda: zero,
        "deepspeed.runtime.zero.partition_parameters": lambda: {**zero, "ZeroParamStatus": ZeroParamStatus},
        "deepspeed.ops.adam": lambda: fused,
        "deepspeed.accelerator": lambda: {"get_accelerator": Accelerator},
        "deepspeed.comm": _comm,
    }


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Nothing is placed or started here."""


def _comm() -> dict[str, Any]:
    return {"get_rank": lambda *a: 0, "get_world_size": lambda *a: 1, "barrier": _nothing, "init_distributed": _nothing}


class Whole(contextlib.nullcontext):
    """zero.Init and zero.GatheredParameters: every weight is whole."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()


class ZeroParamStatus:
    """The states of a sharded weight."""

    AVAILABLE, NOT_AVAILABLE, INFLIGHT = 1, 2, 3


class HfDeepSpeedConfig:
    """transformers' class of this name, made for its own sake before a model is loaded: nothing is sharded."""

    def __init__(self, config_file_or_dict: Any) -> None:
        self.config = read_config(config_file_or_dict)

    def get_value(self, name: str, default: Any = None) -> Any:
        found: Any = self.config
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return default if found is None else found

    def is_zero3(self) -> bool:
        return False

    is_zero2 = is_offload = is_zero3


class Accelerator:
    """deepspeed.accelerator.get_accelerator(): the CPU."""

    def device_name(self, index: int | None = None) -> str:
        return "cpu"

    current_device_name = device_name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: 0


def read_config(given: Any) -> dict[str, Any]:
    """A DeepSpeed config given as a dict or a JSON file. ValueError when it can't be read."""
    if isinstance(given, dict):
        return given
    if hasattr(given, "config"):  # HfDeepSpeedConfig
        return dict(given.config)
    try:
        found = json.loads(Path(str(given)).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"deepspeed={str(given)!r} can't be read: {error.strerror}; put the file there") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"deepspeed={str(given)!r} is no JSON (line {error.lineno}: {error.msg})") from None
    return dict(found)


def add_config_arguments(parser: Any) -> Any:
    """DeepSpeed's own words on the command line."""
    group = parser.add_argument_group("DeepSpeed")
    group.add_argument("--deepspeed", default=False, action="store_true")
    group.add_argument("--deepspeed_config", default=None, type=str)
    return parser


def take_deepspeed(args: Any, note: Callable[[str], None], *, half: bool = False) -> None:
    """`deepspeed=` of TrainingArguments: kept beside them for `patch_trainer`, and None for transformers.

    `half`: the arguments ask for bf16 or fp16, which "auto" of the config means.
    """
    given, args.deepspeed = getattr(args, "deepspeed", None), None
    if not given:
        return
    config = read_config(given)
    # Of precision the arguments say nothing any more.
    settings = {".".join(names): value for names, value in leaves(config) if names[0] not in PRECISIONS}
    if wrong := [*contradictions(args, settings)]:
        raise ValueError(f"DeepSpeed's config contradicts the arguments: {'; '.join(wrong)}")
    kind = str(config.get("optimizer", {}).get("type", "adamw")).lower()
    if kind not in ADAM:
        raise ValueError(f"DeepSpeed's optimizer {kind!r} has no counterpart on the CPU: this source can't be compared")
    note(NOTE)
    if "gradient_clipping" not in config:
        args.max_grad_norm = 0.0  # the engine clips, and does so only when its config asks for it
    object.__setattr__(args, CONFIG, config)
    asked = [config.get(name, {}).get("enabled", False) for name in PRECISIONS]
    object.__setattr__(args, HALF, any(half if each == "auto" else bool(each) for each in asked))


def weights_dtype(args: Any, loaded: str | None, *, frozen: bool) -> str | None:
    """The dtype in which a frozen base computes: DeepSpeed casts what was `loaded` where its config asks for half.

    None for a model that is trained whole: DeepSpeed keeps float32 weights of it beside those. None as well where
    autocast multiplies a frozen base in half: whether its weights are held so or in float32 changes no product.
    """
    if loaded is not None and getattr(args, HALF, False):
        return "half" if frozen else None
    autocast = getattr(args, "_porter_asked", {}).get("half")
    return None if frozen and autocast and loaded == "float32" else loaded


def patch_config() -> None:
    """transformers' HfDeepSpeedConfig can be made without DeepSpeed."""
    import transformers.integrations

    places = [transformers.integrations]
    for name in ("transformers.integrations.deepspeed", "transformers.deepspeed"):  # from 4.33 on, and before 5
        with contextlib.suppress(ImportError):
            places.append(importlib.import_module(name))
    for place in places:
        place.HfDeepSpeedConfig = HfDeepSpeedConfig


def patch_trainer() -> None:
    """Trainer makes the optimizer and the schedule that a DeepSpeed config asks for."""
    import torch
    import transformers

    trainer = transformers.Trainer
    create_optimizer, create_scheduler = trainer.create_optimizer, trainer.create_scheduler

    @functools.wraps(create_optimizer)
    def optimizer(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked = getattr(self.args, CONFIG, {}).get("optimizer")
        if asked is None or self.optimizer is not None:
            return create_optimizer(self, *args, **kwargs)
        settings = adam_settings(asked.get("params", {}), self.args)
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(weights, **settings)
        return self.optimizer

    @functools.wraps(create_scheduler)
    def scheduler(self: Any, num_training_steps: int, optimizer: Any = None) -> Any:
        asked = getattr(self.args, CONFIG, {}).get("scheduler")
        if asked is None:
            return create_scheduler(self, num_training_steps, optimizer)
        params = schedule_settings(asked.get("params", {}), self.args, num_training_steps)
        rate = schedule(asked["type"], **params)
        made = optimizer or self.optimizer
        peaks = [group["lr"] for group in made.param_groups]
        factors = [lambda count, peak=peak: rate(count, peak) / peak for peak in peaks]
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(made, factors)
        return self.lr_scheduler

    trainer.create_optimizer, trainer.create_scheduler = optimizer, scheduler


def adam_settings(params: dict[str, Any], args: Any) -> dict[str, Any]:
    """AdamW's keywords: "auto" is the arguments' value, what is left out DeepSpeed's default."""
    theirs = {
        "lr": args.learning_rate,
        "betas": (args.adam_beta1, args.adam_beta2),
        "eps": args.adam_epsilon,
        "weight_decay": args.weight_decay,
    }
    defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
    found = {name: params.get(name, default) for name, default in defaults.items()}
    found = {name: theirs[name] if value == "auto" else value for name, value in found.items()}
    return {name: tuple(map(float, value)) if name == "betas" else float(value) for name, value in found.items()}


def schedule_settings(params: dict[str, Any], args: Any, steps: int) -> dict[str, Any]:
    """A schedule's keywords with "auto" filled in."""
    theirs = {
        "warmup_min_lr": 0.0,
        "warmup_max_lr": args.learning_rate,
        "warmup_num_steps": args.get_warmup_steps(steps),
        "total_num_steps": steps,
    }
    return {name: theirs[name] if value == "auto" else value for name, value in params.items()}


def schedule(
    kind: str,
    *,
    warmup_min_lr: float = 0.0,
    warmup_max_lr: float = 1e-3,
    warmup_num_steps: int = 1000,
    total_num_steps: int = 0,
    warmup_type: str = "log",
    warmup_min_ratio: float = 0.0,
    cos_min_ratio: float = 1e-4,
    last_batch_iteration: int = -1,
) -> Callable[[int, float], float]:
    """From the updates made so far and the optimizer's rate: the next one's. DeepSpeed's lags a step behind.

    ValueError for a kind other than WarmupLR, WarmupDecayLR and WarmupCosineLR.
    """
    warmup = max(2, int(warmup_num_steps))
    low, high = float(warmup_min_lr), float(warmup_max_lr)

    def rise(last: int) -> float:
        return last / warmup if warmup_type == "linear" else math.log(last + 1) / math.log(warmup)

    def warm(count: int, peak: float) -> float:
        return low + (high - low) * (rise(last) if (last := max(0, count - 1)) < warmup else 1.0)

    def decay(count: int, peak: float) -> float:
        last = max(0, count - 1)
        if last < warmup:
            return warm(count, peak)
        return low + (high - low) * max(0.0, (total_num_steps - last) / max(1.0, total_num_steps - warmup))

    def cosine(count: int, peak: float) -> float:
        last = count - 1
        if last < 0:
            return 0.0
        if last < warmup:
            return peak * (warmup_min_ratio + (1 - warmup_min_ratio) * rise(last))
        share = min(1.0, (last - warmup + 1) / max(1, total_num_steps - warmup))
        return peak * max(0.0, cos_min_ratio + (1 - cos_min_ratio) * (1 + math.cos(math.pi * share)) / 2)

    known = {"WarmupLR": warm, "WarmupDecayLR": decay, "WarmupCosineLR": cosine}
    if kind not in known:
        raise ValueError(f"DeepSpeed's schedule {kind!r} has no counterpart here: this source can't be compared")
    return known[kind]


def initialize(
    args: Any = None,
    model: Any = None,
    optimizer: Any = None,
    model_parameters: Any = None,
    training_data: Any = None,
    lr_scheduler: Any = None,
    *more: Any,
    config: Any = None,
    config_params: Any = None,
    collate_fn: Any = None,
    **kwargs: Any,
) -> tuple[Any, Any, Any, Any]:
    """deepspeed.initialize of one process: (engine, optimizer, dataloader or None, schedule or None)."""
    import torch

    given = config or config_params or getattr(args, "deepspeed_config", None)
    if model is None or given is None:
        raise ValueError("deepspeed.initialize needs a model and config= (a dict or a JSON file)")
    settings = read_config(given)
    if callable(optimizer):
        optimizer = optimizer(model_parameters or model.parameters())
    if optimizer is None and (asked := settings.get("optimizer")):
        if str(asked.get("type", "")).lower() not in ADAM:
            raise ValueError(f"DeepSpeed's optimizer {asked.get('type')!r} has no counterpart on the CPU")
        params = {name: value for name, value in asked.get("params", {}).items() if value != "auto"}
        weights = list(model_parameters) if model_parameters is not None else list(model.parameters())
        optimizer = adamw(str(asked["type"]), 0.0)(weights, **params)
    if callable(lr_scheduler):
        lr_scheduler = lr_scheduler(optimizer)
    if lr_scheduler is None and (asked := settings.get("scheduler")):
        rate = schedule(asked["type"], **asked.get("params", {}))
        peak = optimizer.param_groups[0]["lr"]
        lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda count: rate(count, peak) / peak)
    batch = settings.get("train_micro_batch_size_per_gpu", 1)
    loader = None
    if training_data is not None:
        loader = torch.utils.data.DataLoader(training_data, batch_size=batch, shuffle=True, collate_fn=collate_fn)
    return Engine(model, optimizer, lr_scheduler, settings), optimizer, loader, lr_scheduler


class Engine:
    """DeepSpeed's engine of one process: backward divides by the accumulation, step makes an update when it is due."""

    def __init__(self, model: Any, optimizer: Any, scheduler: Any, settings: dict[str, Any]) -> None:
        self.module, self.optimizer, self.lr_scheduler = model, optimizer, scheduler
        self.config = settings
        self.global_steps = self.micro_steps = 0
        self.local_rank = self.global_rank = 0
        self._clipping = float(settings.get("gradient_clipping", 0.0))

    def gradient_accumulation_steps(self) -> int:
        """Said by the config, or what its batch sizes make of it for one process."""
        micro = self.train_micro_batch_size_per_gpu()
        given = self.config.get("gradient_accumulation_steps", self.config.get("train_batch_size", micro) // micro)
        return max(1, int(given))

    def train_micro_batch_size_per_gpu(self) -> int:
        return int(self.config.get("train_micro_batch_size_per_gpu", self.config.get("train_batch_size", 1)))

    def train_batch_size(self) -> int:
        return self.train_micro_batch_size_per_gpu() * self.gradient_accumulation_steps()

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cpu")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    forward = __call__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "module":
            raise AttributeError(name)
        return getattr(self.module, name)

    def backward(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        (loss / self.gradient_accumulation_steps()).backward()
        return loss

    def is_gradient_accumulation_boundary(self) -> bool:
        return (self.micro_steps + 1) % self.gradient_accumulation_steps() == 0

    def step(self, *args: Any, **kwargs: Any) -> None:
        import torch

        if self.is_gradient_accumulation_boundary():
            if self._clipping > 0:
                torch.nn.utils.clip_grad_norm_(self.module.parameters(), self._clipping)
            self.optimizer.step()
            if self.lr_scheduler is not None:
                self.lr_scheduler.step()
            self.optimizer.zero_grad()
            self.global_steps += 1
        self.micro_steps += 1

    def zero_grad(self) -> None:
        """The engine does so itself after an update."""

    def get_lr(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_global_grad_norm(self) -> float | None:
        return None

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> bool:
        return True

    save_16bit_model = save_fp16_model = save_checkpoint

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        yield
