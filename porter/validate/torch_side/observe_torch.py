"""Runs a TRL or transformers Trainer script on torch and CPU, and writes down what it trained on and how.

    python -m porter.validate.torch_side.observe_torch TRACE_FOLDER SETTINGS.json SCRIPT ARGS...

The script is not modified. The libraries' entry points are wrapped first, in this process: models and datasets are
replaced by what `Substitutes` answers, precision and dropout are set, outputs go to the work folder, and the
trainer tells a callback what it does. Training stops after the wanted steps; the schedule keeps its whole length.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..comparing import preferences
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
from ..stand_ins.loading import patch_loaders
from ..stand_ins.sampled import distilled, rewards, rollouts
from ..stand_ins.substitutes import Substitutes
from ..world.metrics import stand_in_metrics
from ..world.start import stand_in_world
from . import left_padding
from .asked_for import (
    stops_early,
    watch_outputs,
    without_reports,
)
from .cuda.half_precision import float32_again
from .gpu_libraries.flash_attention import leave_padding_out, part_rows
from .gpu_libraries.torch_optimizers import patch_lion
from .gpu_libraries.unsloth_parts import counts as unsloth_counts
from .gpu_libraries.unsloth_parts.trl import tell_release
from .left_padding import untrain_firsts
from .mixed_rows import take_texts
from .multimodal_means import sums_means
from .observe_arguments import no_noise, patch_arguments
from .observe_loops import patch_loops
from .observe_models import patch_models
from .observer_torch import Observer
from .read_torch import DROPOUT_STAYS, keep_own_keyword, marks


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
