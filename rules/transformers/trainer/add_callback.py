"""trainer.add_callback(callback) → the training hooks get it.

What it does: the hooks that the port gives Tunix's trainer call the script's callbacks; `add` is add_callback.
Why: Tunix has TrainingHooks with other events; the runtime's hooks call a TrainerCallback where transformers does.
Example: `trainer.add_callback(StopAtLoss(0.1))`
Use instead: `trainer.training_hooks.add(StopAtLoss(0.1))`
Safety: changed. The events come in the Trainer's order, with Tunix's model; a stop that is asked for in on_save, or in
on_epoch_end behind an evaluation by steps, comes one optimizer step later. What a callback does
beyond args, state, logs, metrics, the model, the tokenizer and should_training_stop is refused where it stands.
"""

from .callbacks import judge_callback

ID = "TP360"
MATCHES = ("@trainer.add_callback()",)


def apply(site, porting):
    if len(site.node.args) == 1:
        judge_callback(porting, site.node.args[0].value)
    callbacks = ", ".join(porting.module.code(argument.value) for argument in site.node.args)
    trainer = porting.module.code(site.node.func.value)
    porting.replace(site, f"{trainer}.training_hooks.add({callbacks})", "the hooks call the script's callbacks")
