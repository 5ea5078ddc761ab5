"""model.save_lora(folder) → `rt.save_adapter(model, folder)`.

What it does: writes the adapter in PEFT's format where Unsloth's method wrote it.
Why: Tunix's model has no such method, which Unsloth gives a model that vLLM samples (`fast_inference=True`).
Example: `model.save_lora("grpo_saved_lora")`
Use instead: `rt.save_adapter(model, "grpo_saved_lora")`
Safety: the same tensors in float32; Unsloth rounds them to the model's 16 bits.
"""

ID = "TP723"
MATCHES = ("@model.save_lora()",)
POSITIONAL = ("save_directory",)


def apply(site, porting):
    folder = site.argument("save_directory")
    if folder is None or site.unknown_keywords or len(site.arguments) > 1 or not porting.saves_adapter:
        return porting.NOT_MINE
    model = porting.module.code(site.node.func.value)
    porting.replace(site, f"{porting.rt('save_adapter')}({model}, {folder.text})", "the adapter as PEFT writes it")
    message = "model.save_lora(...): the port saves the adapter in float32; Unsloth rounds it to the model's 16 bits."
    porting.find(ID, "info", message, "", site.line, site.column)
