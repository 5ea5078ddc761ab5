"""model.merge_and_unload() → `rt.merge_and_unload(model)`.

What it does: gives an object with `save_pretrained` and `push_to_hub`, which write the whole model, adapters merged in.
Why: a script merges to save; Tunix's model has no such method.
Example: `merged = trainer.model.merge_and_unload()`
Use instead: `merged = rt.merge_and_unload(model)`, or `tpu-port export --merged` after training
Safety: exact up to rounding. A float32 base that the port holds in bfloat16, as autocast multiplies it, is merged in
float32 (`dtype=jnp.float32`). A base in 4 or 8 bits is merged as it was trained, and written in the dtype of the other
weights, where PEFT rounds the sum to 4 or 8 bits again. A type that the merged model is given (`.to(torch.float16)`,
`.half()`) is the one that it is saved in; what moves or switches it goes; `generate` is `rt.generate`. What
else is done with it (`state_dict()`) is an error.
"""

ID = "TP216"
MATCHES = ("@model.merge_and_unload()",)


def apply(site, porting):
    model = porting.names.model
    held = ""
    if (merged := porting.value("model.merged")) is not None:  # the port holds the base in another type
        porting.imports.add("import jax.numpy as jnp")
        held = f", dtype=jnp.{merged.literal}"
    port = f"{porting.rt('merge_and_unload')}({model}{held})"
    porting.replace(site, port, "the same weights, merged when they are saved")
    base = porting.value("model.quantization")
    if base is not None and not base.is_literal(None):
        message = (
            "merge_and_unload: PEFT rounds what it merges into a quantised base to 4 or 8 bits again, and saves that;"
        )
        message += " the port saves the sum in 16 bits, as it was trained."
        fix = "`tpu-port export --merged` adds the adapters to the checkpoint's own weights instead."
        porting.find(ID, "info", message, fix, site.line, site.column)
