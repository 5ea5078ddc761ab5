"""Runs a TRL or transformers Trainer script on torch and CPU, and writes down what it trained on and how.

    python -m porter.validate.observe_torch TRACE_FOLDER SETTINGS.json SCRIPT ARGS...

The script is not modified. The libraries' entry points are wrapped first, in this process: models and datasets are
replaced by what `Substitutes` answers, precision and dropout are set, outputs go to the work folder, and the
trainer tells a callback what it does. Training stops after the wanted steps; the schedule keeps its whole length.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import preferences, rollouts
from .held import format_of, hold
from .observe_loops import patch_loops, settings_of
from .read_torch import describe, documents, marks, token_losses, trained_tensors, whole_schedule
from .script import run_script
from .settings import Settings
from .starts import starts_of
from .substitutes import Substitutes, patch_from_pretrained, patch_loaders, patch_save_pretrained
from .torch_optimizers import LION, on_cpu, patch_lion
from .trace import Row, Step, Trace

# Each has a from_pretrained of its own, copied from their base class.
AUTO_MODELS = ("AutoModel", "AutoModelForCausalLM", "AutoModelForImageTextToText", "AutoModelForSequenceClassification")


def main() -> int:
    folder, settings_file, script, *arguments = sys.argv[1:]
    settings = Settings.load(settings_file)
    trace_folder = Path(folder) / f"rank{os.environ['RANK']}" if "RANK" in os.environ else Path(folder)
    trace_folder.mkdir(parents=True, exist_ok=True)
    substitutes = Substitutes(settings, "source", arguments)
    patch_loaders(substitutes)
    observer = Observer(settings, substitutes, trace_folder)
    patch_models(settings, substitutes, observer)
    patch_arguments(settings, substitutes)
    patch_lion()
    patch_trainer(observer)
    rollouts.watch_source(observer.samples, observer.sampled, observer.rollouts)
    loop = patch_loops(observer)
    code = run_script(script, arguments, trace_folder)
    loop.ended()
    return code


def patch_models(settings: Settings, substitutes: Substitutes, observer: Observer) -> None:
    """Models load the substitute, in float32 unless bf16 is compared, on the CPU and with dropout 0.

    A base that bitsandbytes would quantise gets the weights that it would compute with.
    """
    import torch
    import transformers

    pending: list[Any] = []

    def finish(model: Any) -> None:
        config = pending.pop() if pending else None
        kind = format_of(config) if config is not None else None
        if kind is None:
            return
        hold(model, config)
        observer.quantization = kind
        substitutes.note(f"the base is held in {kind} on both sides, the source's by bitsandbytes' formula")
        if kind == "int8":
            substitutes.note("LLM.int8()'s rounding of activations was left out on both sides")
        elif getattr(config, "bnb_4bit_use_double_quant", False):
            substitutes.note("the scales were not quantised again on either side")

    def adjust(kwargs: dict[str, Any]) -> dict[str, Any]:
        quantization = kwargs.pop("quantization_config", None)
        bits = {name: kwargs.pop(name) for name in ("load_in_4bit", "load_in_8bit") if name in kwargs}
        if quantization is None and any(bits.values()):
            quantization = transformers.BitsAndBytesConfig(**bits)
        if quantization is not None:
            pending[:] = [quantization]
        if kwargs.pop("device_map", None) is not None:
            kwargs["device_map"] = None
        attention = kwargs.get("attn_implementation")
        if attention not in (None, "eager", "sdpa"):
            kwargs["attn_implementation"] = "eager"
            substitutes.note(f"attention {attention!r} needs a GPU: 'eager' computes the same on the CPU")
        # An Auto class has a from_pretrained of its own, which hands the choice over in the config.
        config: Any = kwargs.get("config")
        attention = getattr(config, "_attn_implementation", None)
        if attention not in (None, "eager", "sdpa"):
            config._attn_implementation = "eager"
            substitutes.note(f"attention {attention!r} needs a GPU: 'eager' computes the same on the CPU")
        if settings.dtype == "float32":
            asked = kwargs.pop("torch_dtype", None) or kwargs.get("dtype")
            if asked not in (None, "float32", torch.float32):
                substitutes.note(f"model weights in float32 instead of {str(asked).removeprefix('torch.')}")
            kwargs["dtype"] = torch.float32
        return kwargs

    patch_from_pretrained(transformers.PreTrainedModel, substitutes, adjust, finish)
    for name in AUTO_MODELS:
        patch_from_pretrained(getattr(transformers, name), substitutes, adjust, finish)
    patch_save_pretrained(transformers.PreTrainedModel, substitutes)

    try:
        import peft
    except ImportError:
        return
    patch_save_pretrained(peft.PeftModel, substitutes)
    without_dropout(peft.LoraConfig, substitutes)


def without_dropout(cls: Any, substitutes: Substitutes) -> None:
    """LoRA configs are made with dropout 0, and remember theirs: two libraries never draw the same masks."""
    original = cls.__post_init__

    @functools.wraps(original)
    def post_init(self: Any) -> None:
        self._porter_dropout = self.lora_dropout
        if self.lora_dropout:
            substitutes.note(f"LoRA dropout 0 instead of {self.lora_dropout} on both sides")
            self.lora_dropout = 0.0
        original(self)

    cls.__post_init__ = post_init


def patch_arguments(settings: Settings, substitutes: Substitutes) -> None:
    """Training arguments for this machine: CPU, the precision compared, no reports, outputs below the work folder."""
    import transformers

    original = transformers.TrainingArguments.__post_init__

    @functools.wraps(original)
    def post_init(self: Any) -> None:
        if settings.dtype == "float32":
            if self.bf16 or self.fp16:
                substitutes.note(f"float32 instead of {'bf16' if self.bf16 else 'fp16'} on both sides")
            self.bf16 = self.fp16 = False
            self.bf16_full_eval = self.fp16_full_eval = False
        self.tf32 = None
        self.use_cpu = True
        self.ddp_backend = "gloo" if "RANK" in os.environ else None
        self.fsdp, self.fsdp_config, self.deepspeed = None, None, None
        self.torch_compile = False
        self.use_liger_kernel = False
        self.output_dir = substitutes.output(self.output_dir or "trainer_output")
        self.push_to_hub = False
        self.report_to = "none"
        self.save_strategy = "no"
        if self.load_best_model_at_end and self.metric_for_best_model is None:
            self.metric_for_best_model = "loss"  # what early stopping compares
        self.load_best_model_at_end = False
        self.dataloader_num_workers = 0
        self.dataloader_prefetch_factor = None
        self.dataloader_persistent_workers = False
        self.dataloader_pin_memory = False
        self.disable_tqdm = True
        self.resume_from_checkpoint = None
        optimizer = str(getattr(self.optim, "value", self.optim))
        plain = on_cpu(optimizer)
        if plain != optimizer:
            substitutes.note(f"optimizer {plain} instead of {optimizer}, which needs a GPU")
            self.optim = plain
        elif re.fullmatch(LION, optimizer):
            substitutes.note(f"Lion with float32 state instead of {optimizer}, which needs a GPU")
        if hasattr(self, "dataset_num_proc"):
            self.dataset_num_proc = None
        original(self)

    transformers.TrainingArguments.__post_init__ = post_init


def patch_trainer(observer: Observer) -> None:
    """Trainer tells the observer its batches, losses and gradient norms; it saves and pushes nothing of the user's."""
    import accelerate
    import transformers

    trainer = transformers.Trainer
    init, train, training_step = trainer.__init__, trainer.train, trainer.training_step
    save_model, clip = trainer.save_model, accelerate.Accelerator.clip_grad_norm_

    @functools.wraps(init)
    def patched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = kwargs.get("args") or next((a for a in args if isinstance(a, transformers.TrainingArguments)), None)
        if given is not None:
            observer.fold(given)
        init(self, *args, **kwargs)
        self.add_callback(observer.callback())

    @functools.wraps(train)
    def patched_train(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["resume_from_checkpoint"] = None
        observer.dataset = marks(self.train_dataset)
        result = train(self, **{name: value for name, value in kwargs.items() if name != "model_path"})
        observer.finished(self)
        return result

    @functools.wraps(training_step)
    def patched_step(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        observer.batch(inputs)
        before = {name: len(values) for name, values in preferences.stored_metrics(self).items()}
        loss = training_step(self, model, inputs, *args, **kwargs)
        observer.loss(loss)
        after = preferences.stored_metrics(self).items()
        observer.metrics({name: values[-1] for name, values in after if len(values) > before.get(name, 0)})
        return loss

    @functools.wraps(clip)
    def patched_clip(self: Any, *args: Any, **kwargs: Any) -> Any:
        norm = clip(self, *args, **kwargs)
        observer.norm(norm)
        return norm

    @functools.wraps(save_model)
    def patched_save(self: Any, output_dir: Any = None, *args: Any, **kwargs: Any) -> Any:
        if output_dir is not None:
            output_dir = observer.substitutes.output(output_dir)
        return save_model(self, output_dir, *args, **kwargs)

    def nothing(*args: Any, **kwargs: Any) -> None:
        observer.substitutes.note("nothing was pushed to the Hub")

    trainer.__init__, trainer.train, trainer.training_step = patched_init, patched_train, patched_step
    trainer.save_model = patched_save
    trainer.push_to_hub = trainer.create_model_card = nothing
    transformers.utils.hub.PushToHubMixin.push_to_hub = nothing
    accelerate.Accelerator.clip_grad_norm_ = patched_clip


class Observer:
    """Collects the trace of the first training run of the process."""

    def __init__(self, settings: Settings, substitutes: Substitutes, folder: Path) -> None:
        self.settings = settings
        self.substitutes = substitutes
        self.folder = folder
        self.config: dict[str, Any] = {}
        self.schedule: list[float] = []
        self.steps: list[Step] = []
        self.evaluations: list[tuple[int, float]] = []
        self.initial: dict[str, np.ndarray] = {}
        self.dataset: list[int] = []
        self.quantization: str | None = None
        self._done = False
        self._started = 0.0
        self._rows: list[Row] = []
        self._micro: list[int] = []
        self._losses: list[float] = []
        self._row_losses: list[list[float]] = []
        self._metrics: list[dict[str, float]] = []
        self._norm: float | None = None
        self._rate: float | None = None
        self._hook: Any = None
        self._samples = False
        self._sampled: list[Any] = []

    def fold(self, args: Any) -> None:
        """Let one process see the batch of N: rows of all of them together, once per arguments object."""
        if self.settings.fold > 1 and not getattr(args, "_porter_folded", False):
            args.per_device_train_batch_size *= self.settings.fold
            args.per_device_eval_batch_size *= self.settings.fold
            if getattr(args, "generation_batch_size", None):  # GRPOConfig has calculated it from the former already
                args.generation_batch_size *= self.settings.fold
            args._porter_folded = True

    def callback(self) -> Any:
        from transformers import TrainerCallback

        observer = self

        class Watch(TrainerCallback):
            def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
                observer.begin(args, state, given)

            def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
                observer.rate(given["optimizer"])

            def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:
                observer.step()
                if state.global_step >= observer.settings.steps:
                    control.should_training_stop = True
                return control

            def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:
                # Stopping ends the epoch for the Trainer, which then evaluates as if it were whole.
                if state.global_step < state.max_steps and abs(state.epoch - round(state.epoch)) > 1e-6:
                    control.should_evaluate = False
                return control

            def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **given: Any) -> None:
                if metrics and "eval_loss" in metrics and not observer._done:
                    observer.evaluations.append((int(state.global_step), float(metrics["eval_loss"])))

        return Watch()

    def begin(self, args: Any, state: Any, given: dict[str, Any]) -> None:
        if self._done:
            return
        self._started = time.monotonic()
        model, optimizer, schedule = given["model"], given["optimizer"], given["lr_scheduler"]
        self.initial = trained_tensors(model)
        self.schedule = whole_schedule(schedule, int(state.max_steps))
        self.config = describe(args, state, model, optimizer, {name: a.shape for name, a in self.initial.items()})
        self.config["starts"] = starts_of(self.initial)
        self.config["quantization"] = self.quantization
        self.config["processes"] *= self.settings.fold
        self._hook = model.register_forward_hook(self._row_loss, with_kwargs=True)

    def begin_loop(self, model: Any, optimizer: Any, settings: Any) -> None:
        """A loop written by hand begins: before its first step."""
        self._started = time.monotonic()
        self.initial = trained_tensors(model)
        self.config = settings_of(settings, model, optimizer, self.initial)
        self.config["starts"] = starts_of(self.initial)

    def samples(self) -> None:
        """A trainer that samples what it trains on."""
        self._samples = True
        self.substitutes.note(rollouts.NOTE)

    def sampled(self, prompts: list[list[int]], completions: list[list[int]]) -> None:
        if not self._done:
            self._sampled.append([prompts, completions])

    def rollouts(self, inputs: Any) -> None:
        if not self._done:
            rows = rollouts.rows_of_torch(inputs)
            self._rows += rows
            self._micro.append(len(rows))

    def batch(self, inputs: Any) -> None:
        if self._done or self._samples:
            return
        tensors = {key: value.detach().cpu().numpy() for key, value in inputs.items() if hasattr(value, "detach")}
        if preferences.is_preference(tensors):
            rows = preferences.documents(tensors)
            self._last_split = []
            self._rows += rows
            self._micro.append(len(rows))
            return
        self._last_split = split = documents(tensors)
        self._rows += [row for row, _ in split]
        self._micro.append(len(split))

    def loss(self, loss: Any) -> None:
        if not self._done:
            self._losses.append(float(loss))

    def metrics(self, found: dict[str, float]) -> None:
        if not self._done:
            self._metrics.append(found)

    def norm(self, norm: Any) -> None:
        # Clipped twice (once by a threshold, once by infinity to read it): the first is the norm before clipping.
        if self._norm is None:
            self._norm = float(norm)

    def rate(self, optimizer: Any) -> None:
        self._rate = float(optimizer.param_groups[0]["lr"])

    def step(self) -> None:
        if self._done:
            return
        row_loss = tuple(value for micro in self._row_losses for value in micro)
        self.steps.append(
            Step(
                rows=tuple(self._rows),
                micro=tuple(self._micro),
                learning_rate=self._rate,
                loss=sum(self._losses),
                grad_norm=self._norm,
                row_loss=row_loss if len(row_loss) == len(self._rows) else None,
                metrics=preferences.means(self._metrics),
            )
        )
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._rows, self._micro, self._losses, self._row_losses, self._norm = [], [], [], [], None
        self._metrics = []
        print(f"step {len(self.steps)} loss {self.steps[-1].loss:.6f}", flush=True)

    def finished(self, trainer: Any) -> None:
        if self._done:
            return
        self._done = True
        if self._samples:
            self.config |= {"rollouts": self._sampled, "loss_floor": rollouts.LOSS_FLOOR}
        Trace(
            config=self.config,
            steps=tuple(self.steps),
            schedule=tuple(self.schedule),
            initial=self.initial,
            final=trained_tensors(trainer.model),
            evaluations=tuple(self.evaluations),
            dataset=tuple(self.dataset),
            notes=tuple(self.substitutes.notes),
            seconds=time.monotonic() - self._started,
        ).save(self.folder)

    def _row_loss(self, module: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        """The summed loss of each document of this micro-batch, from what TRL's fused head or the logits say."""
        if self._done or self._samples or not module.training or not self._last_split:
            return
        nll = token_losses(outputs, kwargs.get("labels"))
        if nll is None:
            self._row_losses.append([])
            return
        self._row_losses.append([float(nll[place].sum()) for _, place in self._last_split])


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Leaving by os._exit would lose the buffers; gloo's threads must still not keep the process alive.
    sys.exit(code)
