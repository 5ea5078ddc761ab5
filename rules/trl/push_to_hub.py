"""trainer.push_to_hub() → `rt.push_to_hub(...)`.

What it does: saves the trained weights and uploads the folder with huggingface_hub, from one host.
Why: Tunix has no upload of its own.
Example: `trainer.push_to_hub()`
Use instead: `rt.push_to_hub(...)` with the folder and the repository's name
Safety: the model card is not generated.
"""

ID = "TP113"
MATCHES = ("@trainer.push_to_hub()", "@model.push_to_hub()")


def apply(site, porting):
    names = porting.names
    folder = porting.text("run.output_dir") if porting.value("run.output_dir") is not None else '"trainer_output"'
    repository = porting.value("run.hub_model_id")
    first = site.argument("repo_id")
    if first is None and site.qualified.startswith("@model") and site.arguments and not site.arguments[0].name:
        first = site.arguments[0]
    name = first.text if first is not None else porting.text("run.hub_model_id") if repository is not None else "None"
    new = f"{porting.rt('push_to_hub')}({folder}, {name})"
    porting.replace(site, new, "uploaded from one host, without a generated model card")
    ignored = [argument.name for argument in site.arguments if argument is not first and argument.name]
    if ignored:
        message = f"push_to_hub({', '.join(ignored)}): the model card that uses it is not generated."
        porting.find(ID, "info", message, "", site.line, site.column)
    del names
