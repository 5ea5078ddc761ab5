"""model.save_lora(folder) → `rt.save_adapter(model, folder)`.

What it does: writes the adapter in PEFT's format where Unsloth's method wrote it.
Why: Tunix's model has no such method, which Unsloth gives a model that vLLM samples (`fast_inference=True`).
Example: `model.save_lora("grpo_saved_lora")`
Use instead: `rt.save_adapter(model, "grpo_saved_lora")`
Safety: the same tensors in float32; Unsloth rounds them to the model's 16 bits. Where vLLM isn't asked for, releases
before 2026.8.9 have no such method, and the GPU run ends there: a warning.
"""

from porter.packs.script import version_key

from ._release import unsloth_version

ID = "TP723"
MATCHES = ("@model.save_lora()",)
POSITIONAL = ("save_directory",)
ALWAYS_SINCE = (2026, 8, 9)


def apply(site, porting):
    folder = site.argument("save_directory")
    if folder is None or site.unknown_keywords or len(site.arguments) > 1 or not porting.saves_adapter:
        return porting.NOT_MINE
    model = porting.module.code(site.node.func.value)
    porting.replace(site, f"{porting.rt('save_adapter')}({model}, {folder.text})", "the adapter as PEFT writes it")
    release, load = unsloth_version(porting), porting.model
    vllm = load.argument("fast_inference") if load is not None else None
    without = load is not None and load.qualified.startswith("unsloth.") and not load.unknown_keywords
    if without and (vllm is None or vllm.value.is_literal(False)) and version_key(release) < ALWAYS_SINCE:
        message = f"Unsloth {release} gives a model no save_lora without fast_inference=True: the GPU run ends here"
        fix = "Name the release if it was another (unsloth==VERSION); model.save_pretrained saves in all of them."
        porting.find(ID, "warning", f"{message}; the port saves the adapter and goes on.", fix, site.line, site.column)
        return
    message = "model.save_lora(...): the port saves the adapter in float32; Unsloth rounds it to the model's 16 bits."
    porting.find(ID, "info", message, "", site.line, site.column)
