"""model.upload(name) → `rt.push_to_hub(...)`.

What it does: uploads the trained adapter where Acme's wrapper of the model did.
Why: `upload` is a method that Acme's library puts on the torch model; Tunix's model doesn't have it.
Example: `model.upload("acme/verilog")`
Use instead: `rt.save_adapter(model, "verilog")` and the Hub's own command line
Safety: changed. The adapter is saved, and a person uploads it: the library's token stays on the GPU cluster.
"""

ID = "ACME201"
MATCHES = ("@model.upload()",)


def apply(site, porting):
    name = porting.module.code(site.node.args[0].value) if site.node.args else '"adapter"'
    new = f"{porting.rt('save_adapter')}({porting.names.model}, {name})"
    porting.replace(site, new, "the adapter as PEFT writes it, for a person to upload")
    message = f"{name} is saved, not uploaded."
    porting.find(ID, "warning", message, "Upload the folder with `hf upload`.", site.line, site.column)
