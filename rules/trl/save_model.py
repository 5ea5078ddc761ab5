"""trainer.save_model(dir) → `rt.save_adapter(model, dir)` or `rt.save_model(model, dir)`.

What it does: writes the trained weights where the source wrote them, as PEFT or transformers write them.
Why: Tunix saves Orbax checkpoints; people use adapters and safetensors.
Example: `trainer.save_model("out/adapter")`
Use instead: `rt.save_adapter(model, "out/adapter")`
Safety: exact. The adapter is `adapter_model.safetensors` with `adapter_config.json`, which PEFT loads.
"""

ID = "TP112"
MATCHES = (
    "@trainer.save_model()",
    "@trainer.model.save_pretrained()",
    "@model.save_pretrained()",
)


def apply(site, porting):
    target = site.argument("output_dir", "save_directory")
    path = target.text if target is not None else porting.output_dir()
    lora = porting.saves_adapter
    function = porting.rt("save_adapter" if lora else "save_model")
    arguments = [porting.names.model, path]
    if site.qualified == "@trainer.save_model()" and porting.names.tokenizer:
        arguments.append(f"tokenizer={porting.names.tokenizer}")
    new = f"{function}({', '.join(arguments)})"
    porting.replace(site, new, "the adapter as PEFT writes it" if lora else "the weights as transformers writes them")
