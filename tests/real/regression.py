"""One regression, y = w x, for the real Trainer and for Tunix's, with log lines, evaluations and checkpoints."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import torch
from flax import nnx
from tunix.sft.peft_trainer import PeftTrainer

from porter.runtime.batches.deal_rows import Deal
from porter.runtime.training.metrics_trainer import MetricsTrainer
from porter.runtime.training.optimizers import clip_by_global_norm, decay_mask, hf_optimizer
from porter.runtime.training.schedules import hf_schedule
from porter.runtime.training.training_settings import (
    training_config,
    training_hooks,
)

ROWS = 20
DRAW = np.random.default_rng(1)
X = DRAW.normal(size=(ROWS, 3)).astype(np.float32)
Y = DRAW.normal(size=(ROWS,)).astype(np.float32)
BATCHES = [{"x": X[at : at + 2], "y": Y[at : at + 2]} for at in range(0, ROWS, 2)]
EVAL = [{"x": X[at : at + 5], "y": Y[at : at + 5]} for at in range(0, ROWS, 5)]
STEPS = len(BATCHES)


class Data(list[Any]):
    """Batches that know the rows of the GPU run, as the runtime's do."""

    def __init__(self, batches: Any, **counts: float) -> None:
        super().__init__(batches)
        vars(self).update(counts)


class Line(nnx.Module):
    """y = w x, from w = 0.1."""

    def __init__(self) -> None:
        self.weight = nnx.Param(jnp.full((3,), 0.1))


def loss_fn(model: Line, x: Any, y: Any) -> Any:
    return ((x @ model.weight[...] - y) ** 2).mean()


class TorchLine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), 0.1))

    def forward(self, x: Any, y: Any) -> dict[str, Any]:
        return {"loss": ((x @ self.weight - y) ** 2).mean()}


def arguments(folder: Path, **settings: Any) -> dict[str, Any]:
    return {
        "output_dir": str(folder), "learning_rate": 0.05, "optim": "adamw_torch", "weight_decay": 0.1,
        "warmup_steps": 2, "max_grad_norm": 1.0, "num_train_epochs": 1, "logging_steps": 3,
        "logging_first_step": True, "eval_strategy": "steps", "eval_steps": 5, "save_strategy": "no",
        "per_device_train_batch_size": 2, "per_device_eval_batch_size": 5, "report_to": "none", **settings,
    }  # fmt: skip


def run_transformers(
    folder: Path, callbacks: Any = (), times: int = 1, sets: Any = None, **settings: Any
) -> list[dict[str, Any]]:
    from transformers import Trainer, TrainingArguments

    rows = [{"x": x, "y": y} for x, y in zip(X, Y, strict=True)]
    args = TrainingArguments(
        **arguments(folder, **settings), use_cpu=True, train_sampling_strategy="sequential", label_names=["y"]
    )
    held_out = {name: rows[:count] for name, count in sets.items()} if sets else rows
    trainer = Trainer(TorchLine(), args, train_dataset=rows, eval_dataset=held_out, callbacks=[*callbacks])
    for _ in range(times):
        trainer.train()
    return [line for line in trainer.state.log_history if any(name.endswith("loss") for name in line)]


def run_tunix(
    folder: Path, data: Any = BATCHES, callbacks: Any = (), held_out: Any = EVAL, **settings: Any
) -> tuple[PeftTrainer, Any]:
    rest = {"logging_strategy": "steps", "save_steps": 500, "save_total_limit": None, "run_name": None}
    args = SimpleNamespace(**{**rest, **arguments(folder, **settings)})
    accumulation = settings.get("gradient_accumulation_steps")
    epoch = STEPS // (accumulation or 1)
    steps = settings.get("max_steps", epoch)
    batches = SimpleNamespace(steps=steps, steps_per_epoch=epoch, accumulation=accumulation)
    schedule = hf_schedule("linear", args.learning_rate, warmup_steps=args.warmup_steps, steps=steps)
    optimizer = optax.chain(
        clip_by_global_norm(args.max_grad_norm),
        hf_optimizer(args.optim, schedule, weight_decay=args.weight_decay, mask=decay_mask),
    )
    trainer = MetricsTrainer(Line(), optimizer, training_config(args, batches, eval=True))
    trainer.with_gen_model_input_fn(lambda batch: batch).with_loss_fn(loss_fn)
    hooks = training_hooks(args, batches, schedule, callbacks)
    trainer.with_training_hooks(hooks)
    if isinstance(data, list):
        rows = Deal(batch_size=2, accumulation=accumulation or 1, processes=1, drop_last=False)
        data = Data(data, trained_rows=rows.trained_rows(ROWS, 1, settings.get("max_steps", -1)))
    if isinstance(held_out, list):
        held_out = Data(held_out, rows=sum(len(batch["y"]) for batch in held_out), gpu_batches=len(held_out))
    trainer.train(data, held_out)
    return trainer, hooks
