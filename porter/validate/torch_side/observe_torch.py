"""Runs a TRL or transformers Trainer script on torch and CPU, and writes down what it trained on and how.

    python -m porter.validate.torch_side.observe_torch TRACE_FOLDER SETTINGS.json SCRIPT ARGS...

The script is not modified. The libraries' entry points are wrapped first, in this process: models and datasets are
replaced by what `Substitutes` answers, precision and dropout are set, outputs go to the work folder, and the
trainer tells a callback what it does. Training stops after the wanted steps; the schedule keeps its whole length.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from ...runtime.facts.field_tables import version_key
from ..comparing import preferences
from ..comparing.configuration import dtype_class
from ..observing.clock import tell_alike
from ..observing.events import Events
from ..observing.guard import keep_to_copy
from ..observing.remedies import INPUT_GRADIENTS, MIXED_ROWS, REWARDS, said_of
from ..observing.settings import Settings
from ..observing.spelling import by_place
from ..observing.unseeded import begin_alike
from ..running.script import run_script, search_only_libraries
from ..stand_ins.command_line.answers import answer_questions
from ..stand_ins.command_line.arguments import provide_arguments
from ..stand_ins.command_line.variables import provide_environment
from ..stand_ins.sampled import distilled, rewards, rollouts
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
from . import left_padding
from .asked_for import (
    ASKED,
    keep_asked,
    keep_turned_off,
    named_folder,
    stops_early,
    watch_outputs,
    without_reports,
)
from .causal_masks import cut_causal_masks
from .cuda.cuda import APPLE
from .cuda.half_precision import float32_again
from .gpu_libraries.bitsandbytes_weights import asked_in, format_of, hold
from .gpu_libraries.deepspeed import take_deepspeed
from .gpu_libraries.flash_attention import is_asked_for, leave_padding_out, part_rows, without_kernels
from .gpu_libraries.generation import without_gpu_settings
from .gpu_libraries.torch_optimizers import LION, on_cpu, patch_lion
from .gpu_libraries.unsloth_parts import counts as unsloth_counts
from .gpu_libraries.unsloth_parts.trl import tell_release
from .left_padding import untrain_firsts
from .mixed_rows import take_texts
from .multimodal_means import mean_as_multimodal, sums_means
from .new_rows import average_new_rows
from .observe_loops import patch_loops
from .observer_torch import Observer
from .read_torch import DROPOUT_STAYS, keep_own_keyword, marks

# What of the arguments a CPU doesn't do, or does without a difference.
ON_A_GPU = (
    *("tf32", "fsdp", "fsdp_config", "fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap", "deepspeed"),
    *("torch_compile", "torch_compile_backend", "torch_compile_mode", "torchdynamo", "use_liger_kernel", "use_ipex"),
    "use_mps_device",
    *("dataloader_num_workers", "dataloader_prefetch_factor", "dataloader_persistent_workers", "sharded_ddp"),
)


def main() -> int:
    folder, settings_file, script, *arguments = sys.argv[1:]
    search_only_libraries(folder)
    settings = Settings.load(settings_file)
    trace_folder = Path(folder) / f"rank{os.environ['RANK']}" if "RANK" in os.environ else Path(folder)
    trace_folder.mkdir(parents=True, exist_ok=True)
    tell_release(settings.unsloth, settings.unsloth_day)
    substitutes = Substitutes(settings, "source", arguments, Path(folder))
    stand_in_world(substitutes, "source", settings.sources, settings.work)
    patch_loaders(substitutes)
    stand_in_metrics(settings.sources, substitutes.note)
    events = Events(trace_folder, substitutes.outside, script)
    observer = Observer(settings, substitutes, trace_folder, events)
    patch_models(settings, substitutes, observer)
    patch_arguments(settings, substitutes)
    patch_lion()
    patch_trainer(observer)
    if settings.remedy == MIXED_ROWS:
        take_texts()
        substitutes.note(said_of(MIXED_ROWS, settings.ended_with))
    rounded = functools.partial(observer.substitutes.note, rollouts.ROUNDED)
    if settings.remedy == REWARDS:
        rewards.of_source(settings.work, settings.ended_with, substitutes.note)
    rollouts.watch_source(observer.samples, observer.sampled, observer.rollouts, rounded)
    watch_outputs(observer)
    loop = patch_loops(observer)
    provide_environment(script, substitutes.note)
    answer_questions(substitutes.note)
    arguments = provide_arguments(script, settings.work, substitutes.note, arguments, as_shown=settings.as_shown)
    keep_to_copy(settings, substitutes)
    begin_alike(settings.sources, substitutes.note)
    tell_alike(Path(settings.work), substitutes.note)
    code = run_script(script, arguments, trace_folder, substitutes.note, lambda: observer.started)
    loop.ended()
    return code


def patch_models(settings: Settings, substitutes: Substitutes, observer: Observer) -> None:
    """Models load the substitute, in float32 unless bf16 is compared, on the CPU and with dropout 0.

    A base that bitsandbytes would quantise gets the weights that it would compute with.
    """
    import torch
    import transformers

    pending: list[Any] = []
    dtype_keyword = "dtype" if version_key(transformers.__version__) >= (4, 56, 0) else "torch_dtype"
    depth = 0  # an Auto class loads through its model's own

    def finish(model: Any) -> None:
        nonlocal depth
        depth -= 1
        seeing.loaded(model)
        cut_causal_masks(model)
        mean_as_multimodal(model)
        config = pending.pop() if pending else None
        kind = format_of(config) if config is not None else None
        if kind is None:
            return
        hold(model, config)
        substitutes.note(f"the base is held in {kind} on both sides, the source's by bitsandbytes' formula")
        if kind == "int8":
            substitutes.note("LLM.int8()'s rounding of activations was left out on both sides")
        elif getattr(config, "bnb_4bit_use_double_quant", False):
            substitutes.note("the scales were not quantised again on either side")

    def adjust(kwargs: dict[str, Any]) -> dict[str, Any]:
        observer.flash |= is_asked_for(kwargs)
        without_kernels(kwargs, substitutes.note)
        nonlocal depth
        depth += 1
        asked = kwargs.get("dtype") or kwargs.get("torch_dtype")  # as transformers prefers them
        if depth == 1:
            release = int(transformers.__version__.split(".")[0])
            observer.loads.append(dtype_class(asked, "checkpoint" if release >= 5 else "float32"))
        quantization = asked_in(kwargs)
        if quantization is not None:
            observer.loads.append("quantised")
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
            older, asked = kwargs.pop("torch_dtype", None), kwargs.pop("dtype", None)
            asked = asked or older
            if asked not in (None, "float32", torch.float32):
                substitutes.note(f"model weights in float32 instead of {str(asked).removeprefix('torch.')}")
            kwargs[dtype_keyword] = torch.float32
        return kwargs

    on_cpu = left_padding.trains_on_cpu(settings.sources[0] if settings.sources else "")
    seeing = left_padding.Seeing(substitutes.note, on_cpu=on_cpu)
    average_new_rows(transformers.PreTrainedModel, substitutes.note)
    patch_from_pretrained(transformers.PreTrainedModel, substitutes, adjust, finish)
    for name in AUTO_MODELS:
        if hasattr(transformers, name):
            patch_from_pretrained(getattr(transformers, name), substitutes, adjust, finish)
    patch_save_pretrained(transformers.PreTrainedModel, substitutes)

    try:
        import peft
    except ImportError:
        return
    patch_save_pretrained(peft.PeftModel, substitutes)
    patch_adapters(peft.PeftModel, substitutes)
    if settings.chance is None:
        without_dropout(peft.LoraConfig, substitutes)
    else:
        own_chance(peft.tuners.lora.layer.LoraLayer, settings.chance)


def own_chance(cls: Any, seed: int) -> None:
    """Adapters start as this seed has it, whatever the script's, and so do all masks that are drawn behind them."""
    import torch

    original, count = cls.reset_lora_parameters, 0

    @functools.wraps(original)
    def reset_lora_parameters(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        with torch.random.fork_rng():
            torch.manual_seed(1_000_003 * seed + count)
            return original(self, *args, **kwargs)

    cls.reset_lora_parameters = reset_lora_parameters


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
    known = fields(transformers.TrainingArguments)
    defaults = {each.name: None if each.default is MISSING else each.default for each in known}

    @functools.wraps(original)
    def post_init(self: Any) -> None:
        half = bool(self.bf16 or self.fp16)
        if settings.dtype == "float32":
            if self.bf16 or self.fp16:
                substitutes.note(f"float32 instead of {'bf16' if self.bf16 else 'fp16'} on both sides")
            self.bf16 = self.fp16 = False
            self.bf16_full_eval = self.fp16_full_eval = False
            if "half_precision_backend" in defaults:
                self.half_precision_backend = "auto"
        if getattr(self, "neftune_noise_alpha", None):
            substitutes.note(no_noise(self.neftune_noise_alpha))
            self.neftune_noise_alpha = None
        setattr(self, "use_cpu" if "use_cpu" in defaults else "no_cuda", True)
        self.ddp_backend = "gloo" if "RANK" in os.environ else None
        take_deepspeed(self, substitutes.note, half=half)
        without_gpu_settings(self, substitutes.note)
        if getattr(self, "use_mps_device", False):
            substitutes.note(APPLE)
        for name in ON_A_GPU:
            if name in defaults:
                setattr(self, name, defaults[name])
        keep_asked(self, half=half)
        self.output_dir = substitutes.output(named_folder(self.output_dir))
        ASKED[str(self.output_dir)] = self._porter_asked  # a trainer may make its own arguments of these
        self.report_to = "none"
        self.save_strategy = "no"
        if "overwrite_output_dir" in defaults:
            self.overwrite_output_dir = True
        if self.load_best_model_at_end and self.metric_for_best_model is None:
            self.metric_for_best_model = "loss"  # what early stopping compares
        self.load_best_model_at_end = False
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
        averages = getattr(self, "average_tokens_across_devices", None)
        original(self)
        if averages is not None:  # transformers 4.46 to 4.56 turn it off in one process, which a folded source is
            self.average_tokens_across_devices = averages
        keep_turned_off(self)

    transformers.TrainingArguments.__post_init__ = post_init


def seed_masks(trainer: Any, seed: int) -> None:
    """Draw the masks of each step from this seed; what is drawn between steps, as the order of rows, stays as it is."""
    import torch
    import transformers

    kept: list[Any] = []

    class Seeds(transformers.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            kept[:] = [torch.get_rng_state()]
            torch.manual_seed(1_000_033 * seed + state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            torch.set_rng_state(kept.pop())

    trainer.add_callback(Seeds())


def no_noise(alpha: float) -> str:
    return f"no NEFTune noise instead of neftune_noise_alpha={alpha} on both sides"


def patch_trainer(observer: Observer) -> None:
    """Trainer tells the observer its batches, losses and gradient norms; it saves nothing where the user does."""
    import accelerate
    import transformers

    stops_early(transformers.EarlyStoppingCallback)
    hides_tokens = transformers.__version__ in (
        "4.47.0",
        "4.48.0",
    )  # whose loss is a sum of means, see runtime/releases
    trainer = transformers.Trainer
    init, train, training_step = trainer.__init__, trainer.train, trainer.training_step
    prediction_step = trainer.prediction_step
    save_model, clip = trainer.save_model, accelerate.Accelerator.clip_grad_norm_

    @functools.wraps(init)
    def patched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = kwargs.get("args") or next((a for a in args if isinstance(a, transformers.TrainingArguments)), None)
        if given is not None:
            observer.fold(given)
            without_reports(given)
            if keep_own_keyword(given, sys._getframe(1), leaves_on=observer.settings.keeps_dropout):
                observer.substitutes.note(DROPOUT_STAYS)
        distilled.watch(type(self), observer.distilled)
        init(self, *args, **kwargs)
        if observer.flash:
            part_rows(self.data_collator, getattr(self.model, "config", None))
            leave_padding_out(self.model)
        self.add_callback(observer.callback(self))
        observer.near_ties.watch(self)

    @functools.wraps(train)
    def patched_train(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = by_place(train, (self, *args), kwargs, 2)
        args = (None, *args[2:])  # whatever it was to resume from
        alpha = getattr(self, "neftune_noise_alpha", None)
        if alpha is not None:  # a trainer's own keyword; that of its arguments went when these were made
            observer.substitutes.note(no_noise(alpha))
            self.neftune_noise_alpha = None
        if observer.settings.dtype == "float32":
            float32_again(self.model, observer.substitutes.note)
        if observer.settings.remedy == INPUT_GRADIENTS:
            self.model.enable_input_require_grads()
            observer.substitutes.note(said_of(INPUT_GRADIENTS, observer.settings.ended_with))
        observer.dataset = marks(self.train_dataset)
        if observer.settings.chance is not None:
            seed_masks(self, observer.settings.chance)
        later = observer.done
        try:
            result = train(self, **{name: value for name, value in kwargs.items() if name != "model_path"})
        except Exception:
            if observer.has_all_steps(self):  # a callback's last word, a last evaluation or save: the training is whole
                observer.finished(self)
            raise
        observer.finished(self)
        if later:
            observer.events.trained(result.global_step, result.training_loss)
        return result

    @functools.wraps(training_step)
    def patched_step(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if left_padding.concerns(self) and untrain_firsts(inputs):
            observer.substitutes.note(left_padding.NOTE)
        observer.batch(inputs, self)
        marked = set(inputs) if isinstance(inputs, Mapping) else set()
        before = {name: len(values) for name, values in preferences.stored_metrics(self).items()}
        loss = training_step(self, model, inputs, *args, **kwargs)
        summed = hides_tokens and "labels" in marked and not unsloth_counts.counts(trainer)
        summed = summed or ("labels" in marked and sums_means(self.model))
        observer.loss(loss, self.args.gradient_accumulation_steps if summed else 1.0)
        after = preferences.stored_metrics(self).items()
        observer.metrics({name: values[-1] for name, values in after if len(values) > before.get(name, 0)})
        return loss

    @functools.wraps(prediction_step)
    def patched_prediction(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if left_padding.concerns(self):
            untrain_firsts(inputs)
        return prediction_step(self, model, inputs, *args, **kwargs)

    @functools.wraps(clip)
    def patched_clip(self: Any, *args: Any, **kwargs: Any) -> Any:
        norm = clip(self, *args, **kwargs)
        if norm is not None:  # accelerate gives it back from 0.24 on; torch's own clipping is watched too
            observer.norm(norm)
        return norm

    @functools.wraps(save_model)
    def patched_save(self: Any, output_dir: Any = None, *args: Any, **kwargs: Any) -> Any:
        if output_dir is not None:
            output_dir = observer.substitutes.output(output_dir)
        return save_model(self, output_dir, *args, **kwargs)

    trainer.__init__, trainer.train, trainer.training_step = patched_init, patched_train, patched_step
    trainer.save_model, trainer.prediction_step = patched_save, patched_prediction
    accelerate.Accelerator.clip_grad_norm_ = patched_clip


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Leaving by os._exit would lose the buffers; gloo's threads must still not keep the process alive.
    sys.exit(code)
