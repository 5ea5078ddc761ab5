"""trainer.add_callback(callback) → the training hooks get it.

What it does: the hooks that the port gives Tunix's trainer call the script's callbacks; `add` is add_callback.
Why: Tunix has TrainingHooks with other events; the runtime's hooks call a TrainerCallback where transformers does.
Example: `trainer.add_callback(StopAtLoss(0.1))`
Use instead: `trainer.training_hooks.add(StopAtLoss(0.1))`
Safety: changed. Tunix reports losses one step late: on_step_end, on_log and on_epoch_end see a model one step further,
and a stop asked for there comes one optimizer step later; on_evaluate and on_save come at once. What a callback does
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
