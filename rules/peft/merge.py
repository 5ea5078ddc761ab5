"""model.merge_and_unload() → `rt.merge_and_unload(model)`.

What it does: gives an object with `save_pretrained` and `push_to_hub`, which write the whole model, adapters merged in.
Why: a script merges to save; Tunix's model has no such method.
Example: `merged = trainer.model.merge_and_unload()`
Use instead: `merged = rt.merge_and_unload(model)`, or `tpu-port export --merged` after training
Safety: exact up to rounding. What else is done with the merged model (generate) has no counterpart and fails by name.
"""

ID = "TP216"
MATCHES = ("@model.merge_and_unload()",)


def apply(site, porting):
    model = porting.names.model
    porting.replace(site, f"{porting.rt('merge_and_unload')}({model})", "the same weights, merged when they are saved")
