"""model.save_pretrained_merged(folder, tokenizer) → `rt.merge_and_unload(model).save_pretrained(folder)`.

What it does: Unsloth's `save_method="merged_16bit"` writes the whole model with its adapters merged in, `"lora"` the
adapter alone, each with the tokenizer beside it; `push_to_hub_merged` uploads that.
Why: Tunix's model has no such methods.
Example: `model.save_pretrained_merged("out", tokenizer, save_method="merged_16bit")`
Use instead: `rt.merge_and_unload(model).save_pretrained("out")` and `tokenizer.save_pretrained("out")`
Safety: exact up to rounding. Of a base held in 4 bits Unsloth from 2025.6 on adds the adapters to the 16-bit
checkpoint (`unquantized=True`), earlier releases to the weights that they were trained on. `merged_4bit` and other
methods are findings, and so is a call in front of `get_peft_model`, whose model has nothing to merge.
"""

from ._release import is_before

ID = "TP719"
MATCHES = ("@model.save_pretrained_merged()", "@model.push_to_hub_merged()")
POSITIONAL = {
    "@model.save_pretrained_merged()": ("save_directory", "tokenizer", "save_method"),
    "@model.push_to_hub_merged()": ("repo_id", "tokenizer", "save_method"),
}
FOLDERS = ("save_directory", "repo_id")
FIX = (
    "Save the adapter with rt.save_adapter; `tpu-port export --merged` writes the whole model in safetensors, which "
    "llama.cpp and vLLM read."
)


def apply(site, porting):
    folder, tokenizer = site.argument(*FOLDERS), site.argument("tokenizer")
    method = _method(site)
    name = site.qualified.removeprefix("@model.")
    if folder is None or method is None or not site.alone:
        text = f"{porting.names.model}.{name.removesuffix('()')}(...)"
        why = "which folder or method isn't known when porting"
        porting.find(ID, "error", f"{text}: the port can't merge here: {why}.", FIX, site.line, site.column)
        return
    if _is_before_adapters(porting, site):
        message = f"{porting.names.model} has no adapters here: Unsloth writes the base in 16 bits, the port ends."
        fix = f"Write {porting.rt('save_model')}({porting.names.model}, {folder.text}) for that."
        if is_quantized(porting):
            fix = "Load the model once more without load_in_4bit, and write rt.save_model of that."
        porting.find(ID, "error", message, fix, site.line, site.column)
        return
    pushes = name.startswith("push")
    token = site.argument("token")
    extra = f", token={token.text}" if pushes and token is not None else ""
    if method == "lora" and pushes:
        new = f"{porting.rt('push_to_hub')}({porting.names.model}, {folder.text}{extra})"
        if tokenizer is not None:
            new += f"\n{site.indent}{tokenizer.text}.push_to_hub({folder.text}{extra})"
    elif method == "lora":
        own = f", tokenizer={tokenizer.text}" if tokenizer is not None else ""
        new = f"{porting.rt('save_adapter')}({porting.names.model}, {folder.text}{own})"
    else:
        call = "push_to_hub" if pushes else "save_pretrained"
        whole = ", unquantized=True" if adds_to_checkpoint(porting) else ""
        new = f"{porting.rt('merge_and_unload')}({porting.names.model}{whole}).{call}({folder.text}{extra})"
        if tokenizer is not None:
            new += f"\n{site.indent}{tokenizer.text}.{call}({folder.text}{extra})"
    porting.replace_statement(site, new, "the same weights, merged when they are saved")


def _is_before_adapters(porting, site):
    """Whether adapters are put in behind a call alone, on lines of the same function."""
    puts = porting.of_role("inject")
    return bool(puts) and all(each.scope is site.scope and each.start > site.end for each in puts)


def _method(site):
    """Unsloth's `save_method`; None where it isn't known or not one that the runtime has."""
    method = site.argument("save_method")
    if method is None:
        return "merged_16bit"
    return method.value.literal if method.value.is_literal("merged_16bit", "lora") else None


def adds_to_checkpoint(porting):
    """Whether Unsloth's release leaves a base in 4 bits out, and merges into the 16-bit checkpoint."""
    return is_quantized(porting) and not is_before(porting, "2025.6")


def is_quantized(porting):
    """Whether the base may be held in 4 or 8 bits."""
    value = porting.value("model.quantization")
    return value is not None and not value.is_literal(None)
