"""A ported script's TrainingArguments at run time: Tunix's TrainingConfig, log lines and evaluation.

A script whose settings are literals prints all this as plain Tunix code. One that parses its command line
learns its strategies and shares of steps only when it runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import optax
import orbax.checkpoint as ocp
from flax import nnx
from tunix.sft.metrics_logger import MetricsLoggerOptions, TensorboardBackend
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig
from tunix.sft.sharding_utils import shard_input

from ..batches.evaluation_sets import EvaluationSets
from ..callbacks import KeepBest
from ..facts.releases import release
from ..facts.releases.habits import names_runs
from ..saving.checkpoints import fresh_dir, resume_dir
from ..saving.main_process import main_print
from ..saving.saving_policy import save_policy
from ..settings.intervals import interval
from .hooks import LogLines, log_every
from .metrics_trainer import MetricsTrainer
from .own_metrics import lines_of
from .own_metrics import of_evaluation as own_of_evaluation
from .speeds import of_evaluation
from .trackers import WandbRun, is_installed, log_beside


def training_config(
    args: Any,
    batches: Any,
    *,
    eval: bool = False,
    best: bool = False,
    uploads: bool = False,
    saves: bool = True,
    transformers: str | None = None,
) -> TrainingConfig:
    """The TrainingConfig that does what `args` ask for.

    Args:
        args: the parsed SFTConfig or TrainingArguments.
        batches: rt.SFTBatches, for the optimizer steps of the run and of an epoch and for the accumulation.
        eval: whether train() gets evaluation data.
        best: whether rt.load_best follows the training, for load_best_model_at_end.
        uploads: whether rt.push_to_hub follows the training, for push_to_hub.
        saves: whether the trainer saves what `args` ask for: one that only evaluates saves nothing.
        transformers: the source's release, where it isn't the one of its TRL's day.

    Evaluation and checkpoints come every `eval_steps` and `save_steps` optimizer steps or at the end of an
    epoch; a number below 1 is a share of the run. Checkpoints go to `output_dir`, the last step included but
    for arguments of transformers before 4.42; only `resume_from_checkpoint` resumes. Tunix evaluates before
    the first step too, which is logged for `eval_on_start` alone.
    """
    if _loads_best(args) and not best:
        raise ValueError("load_best_model_at_end: this port was made of a script without it; port it with it set there")
    if getattr(args, "push_to_hub", False) and not uploads:
        raise ValueError("push_to_hub: this port was made of a script without it; port it with it set there")
    if getattr(args, "neftune_noise_alpha", None) and getattr(batches, "neftune_noise_alpha", None) is None:
        raise ValueError(f"neftune_noise_alpha: {type(batches).__name__} has no noise, SFTBatches alone; leave it out")
    folder = None
    options = None
    transformers = transformers or _release_of(args, batches)
    save_strategy = str(getattr(args.save_strategy, "value", args.save_strategy))
    save_every = _interval(save_strategy, args.save_steps, batches)
    if save_strategy == "steps" and args.save_steps <= 0:
        save_every = 0  # never due
    if save_every is not None and saves:
        folder = _checkpoint_folder(args)
        # save_interval_steps would save the first step as well.
        options = ocp.CheckpointManagerOptions(
            save_decision_policy=save_policy(save_every, transformers, save_strategy),
            **(
                {"preservation_policy": KeepBest(args.save_total_limit, transformers=transformers)}
                if _keeps_best(args)
                else {"max_to_keep": args.save_total_limit}
            ),
        )
    elif saves and _resumes(args):
        raise ValueError(
            'resume_from_checkpoint needs save_strategy "steps" or "epoch": Tunix resumes and saves in one place'
        )
    eval_every = None
    if eval:
        last = release(None, transformers).evaluates_last or _is_epoch(args.eval_strategy)
        eval_every = _interval(args.eval_strategy, args.eval_steps, batches, last=last)
    return TrainingConfig(
        eval_every_n_steps=eval_every or batches.steps,
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        checkpoint_root_directory=folder,
        checkpointing_options=options,
        metrics_logging_options=metrics_options(
            args.report_to,
            getattr(args, "logging_dir", None) or os.path.join(args.output_dir, "runs"),
            args.run_name or (args.output_dir if names_runs(transformers) else None),
        ),
    )


def training_hooks(
    args: Any,
    batches: Any,
    schedule: optax.Schedule | None = None,
    callbacks: Sequence[Any] = (),
    processing_class: Any = None,
) -> LogLines:
    """`log_every` as `args` ask for it and their release did: logging_strategy, logging_steps, logging_first_step."""
    every: float | None = args.logging_steps
    if args.logging_strategy != "steps":
        epochs = _is_epoch(args.logging_strategy)
        every = interval(batches.steps_per_epoch, batches.steps, last=True) if epochs else None
    strategies = {"logging": args.logging_strategy, "eval": args.eval_strategy, "save": args.save_strategy}
    return log_every(
        every,
        first_step=args.logging_first_step,
        eval_on_start=getattr(args, "eval_on_start", False),
        schedule=schedule,
        steps_per_epoch=batches.steps_per_epoch,
        callbacks=callbacks,
        args=args,
        metrics=getattr(batches, "metrics", None),
        metric_for_best_model=getattr(args, "metric_for_best_model", None),
        greater_is_better=getattr(args, "greater_is_better", None),
        processing_class=processing_class,
        transformers=_release_of(args, batches),
        by_epoch=[name for name, strategy in strategies.items() if _is_epoch(strategy)],
    )


def _release_of(args: Any, batches: Any) -> str | None:
    """The source's transformers. A module that the port leaves as it is makes the installed one's own arguments."""
    return args.of_transformers if hasattr(args, "of_transformers") else getattr(batches, "transformers", None)


def metrics_options(
    report_to: str | Sequence[str] | None,
    log_dir: str | os.PathLike[str],
    run_name: str | None = None,
) -> MetricsLoggerOptions | None:
    """Options for the trackers in `report_to` and no others; None for none.

    Tunix on its own writes TensorBoard files always and starts a W&B run wherever wandb is installed. Trackers
    that it doesn't know are named in one line and left out. As in transformers the environment says when training
    begins which project, entity and name a W&B run has; now it says the folder, by `TENSORBOARD_LOGGING_DIR`.
    """
    log_dir = os.path.expanduser(os.environ.get("TENSORBOARD_LOGGING_DIR") or log_dir)
    wanted = [report_to] if isinstance(report_to, str) else list(report_to or [])
    if "all" in wanted:
        wanted = ["tensorboard", "wandb"] if is_installed("wandb") else ["tensorboard"]
    backends = []
    for name in (name for name in wanted if name != "none"):
        if name == "tensorboard":
            backends.append(partial(TensorboardBackend, log_dir=os.fspath(log_dir), flush_every_n_steps=100))
        elif name == "wandb":
            backends.append(partial(WandbRun, name=run_name))
        else:
            main_print(f"report_to={name!r}: Tunix has no such tracker; nothing is sent to it")
    if not backends:
        return None
    return MetricsLoggerOptions(log_dir=os.fspath(log_dir), backend_kwargs={"custom_backend": backends})


def evaluate(trainer: PeftTrainer, eval_batches: Iterable[Any], *, metric_key_prefix: str = "eval") -> dict[str, Any]:
    """`Trainer.evaluate()`: the loss over `eval_batches`, as `{"eval_loss": ...}`, before or after training.

    The batches come from `SFTBatches.evaluation`, whose scales make the mean over batches transformers' loss. A
    `MetricsTrainer` adds its metrics. Speed and epoch are under transformers' names, steps those of the GPU run. Of
    several sets by their names each has its own: `{"eval_NAME_loss": ...}`. As the Trainer's it is logged: a line of
    `rt.log_every`, to the callbacks and the trackers, under transformers' names. What TRL's trainer measures beside the
    loss (`eval_rewards/margins`) is in the line, and returned where its release does.
    """
    if isinstance(eval_batches, EvaluationSets):
        each = ((f"{metric_key_prefix}_{name}", batches) for name, batches in eval_batches.items())
        sets = [evaluate(trainer, batches, metric_key_prefix=prefix) for prefix, batches in each]
        return {name: value for found in sets for name, value in found.items()}
    started = time.perf_counter()
    step = nnx.jit(trainer.create_eval_step_fn())
    gathered = trainer.gather(eval_batches) if isinstance(trainer, MetricsTrainer) else None
    losses, beside = [], []
    with mesh_of(trainer.model):
        for batch in eval_batches if gathered is None else gathered.batches:
            inputs = trainer._prepare_inputs(batch)  # a reference model's log-probabilities
            loss, aux = step(trainer.model, shard_input(inputs, trainer.config.data_sharding_axis))
            losses.append(float(loss))
            if gathered is not None:
                gathered.add(aux)
            elif isinstance(aux, Mapping):
                beside.append(aux)
    if not losses:
        raise ValueError("there is nothing to evaluate: the evaluation data has no batches")
    found = {f"{metric_key_prefix}_loss": sum(losses) / len(losses)}
    found |= {} if gathered is None else gathered.metrics(metric_key_prefix)
    found |= of_evaluation(eval_batches, time.perf_counter() - started, metric_key_prefix)
    line = found | _epoch(trainer)
    first = getattr(getattr(trainer, "training_hooks", None), "first", 0)
    own = own_of_evaluation(trainer, eval_batches, beside, first)
    if isinstance(hooks := getattr(trainer, "training_hooks", None), LogLines):
        hooks.evaluated(trainer, line | own)
    log_beside(trainer, line | own, int(trainer.train_steps))
    kept = lines_of(trainer, eval_batches)
    returned = line if kept is None or kept.returns_epoch else found
    return returned | (own if kept is not None and kept.in_results else {})


def _epoch(trainer: Any) -> dict[str, float]:
    """How far the training is, 0 before it; nothing where its epochs have no known steps."""
    state = getattr(getattr(trainer, "training_hooks", None), "state", None)
    if state is None or (state.epoch is None and trainer.train_steps):
        return {}
    return {"epoch": state.epoch or 0}


def _is_epoch(strategy: Any) -> bool:
    return str(getattr(strategy, "value", strategy)) == "epoch"


def _interval(strategy: Any, steps: float | None, batches: Any, *, last: bool = False) -> int | None:
    """Optimizer steps between two events; None where there are none. `last`: the run's last step has one, too."""
    strategy = str(getattr(strategy, "value", strategy))
    if strategy == "no":
        return None
    if strategy == "epoch":
        if getattr(batches, "uneven_epochs", False):
            main_print(
                f"strategy epoch: every {batches.steps_per_epoch} steps; the GPU run's epochs filled no whole steps"
            )
        return interval(int(batches.steps_per_epoch), batches.steps, last=last)
    if strategy != "steps":
        raise ValueError(f"Tunix can't follow the strategy {strategy!r}; choose steps or epoch")
    return interval(steps, batches.steps, last=last)


def _loads_best(args: Any) -> bool:
    return bool(getattr(args, "load_best_model_at_end", False))


def _keeps_best(args: Any) -> bool:
    """Whether save_total_limit spares the best checkpoint: it is loaded, or named by what evaluations are compared."""
    strategy = str(getattr(args.eval_strategy, "value", args.eval_strategy))
    named = getattr(args, "metric_for_best_model", None) is not None and strategy != "no"
    return _loads_best(args) or (named and args.save_total_limit is not None)


def _resumes(args: Any) -> bool:
    return getattr(args, "resume_from_checkpoint", None) not in (None, False, "", "False", "false")


def _checkpoint_folder(args: Any) -> str:
    if not _resumes(args):
        return fresh_dir(args.output_dir)
    asked = args.resume_from_checkpoint
    return resume_dir(args.output_dir if asked in (True, "True", "true") else asked)


def mesh_of(model: nnx.Module) -> jax.sharding.Mesh:
    for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)):
        if isinstance(leaf.sharding, jax.sharding.NamedSharding):
            return leaf.sharding.mesh
    return jax.sharding.Mesh(jax.devices()[:1], ("fsdp",))
