"""trainer.save_metrics("train", metrics) → `rt.save_metrics(folder, "train", metrics)`.

What it does: `train_results.json`, `eval_results.json` and `all_results.json` in the output folder, and the table that
`log_metrics` prints, as transformers' Trainer writes them.
Why: PeftTrainer has neither; people and scripts read these files.
Example: `trainer.save_metrics("train", result.metrics)`
Use instead: `rt.save_metrics("out", "train", result.metrics)`
Safety: exact for what the script gives it. What `rt.train_result` and `rt.evaluate` measure has transformers' names;
`total_flos` isn't among it, and the report says so.
"""

ID = "TP133"
MATCHES = ("@trainer.save_metrics()", "@trainer.log_metrics()")
POSITIONAL = ("split", "metrics", "combined")
LACKING = "total_flos, an estimate that transformers makes from the torch model"


def apply(site, porting):
    module, call = porting.module, site.node
    saves = site.qualified == "@trainer.save_metrics()"
    reason = "the files that the Trainer writes" if saves else "the table that the Trainer prints"
    porting.edit(*module.span(call.func), porting.rt("save_metrics" if saves else "log_metrics"), ID, reason)
    if saves and call.args:
        start = module.span(call.args[0])[0]
        porting.edit(start, start, f"{porting.output_dir()}, ", ID, reason)
    say_lacking(porting)


def say_lacking(porting):
    """What the port doesn't measure: said once, at the trainer, however often figures are written or shown."""
    made = porting.trainer
    message = f"Of what the Trainer measures the port's figures lack {LACKING}."
    porting.find(ID, "info", message, "", made.line, made.column)
