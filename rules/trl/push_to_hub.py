"""trainer.push_to_hub() → `rt.save_adapter(...)` and `rt.push_to_hub(...)`.

What it does: saves the trained weights to the output folder, unless the line before did, and uploads it from one host.
Why: Tunix has no upload of its own.
Example: `trainer.push_to_hub()`
Use instead: `rt.push_to_hub("out", "me/model")`, after `rt.save_adapter(model, "out")`
Safety: the model card is not generated.
"""

ID = "TP113"
MATCHES = ("@trainer.push_to_hub()", "@trainer.model.push_to_hub()", "@model.push_to_hub()")
REASON = "uploaded from one host, without a generated model card"


def apply(site, porting):
    names = porting.names
    folder = porting.output_dir()
    repository = porting.text("run.hub_model_id") if porting.value("run.hub_model_id") is not None else "None"
    first = site.argument("repo_id")
    if first is not None:
        repository = first.text
    push = f"{porting.rt('push_to_hub')}({folder}{'' if repository == 'None' else f', {repository}'})"
    saved = any(edit.rule == "TP112" and f"({names.model}, {folder}" in edit.new for edit in porting.edits)
    if saved or not (site.alone or site.variable):
        porting.replace(site, push, REASON)
    else:
        save = porting.rt("save_adapter" if porting.saves_adapter else "save_model")
        tokenizer = f", tokenizer={names.tokenizer}" if names.tokenizer else ""
        result = f"{site.variable} = {push}" if site.variable else push
        new = f"{save}({names.model}, {folder}{tokenizer})\n{site.indent}{result}"
        porting.replace_statement(site, new, REASON)
    ignored = [argument.name for argument in site.arguments if argument is not first and argument.name]
    if ignored:
        message = f"push_to_hub({', '.join(ignored)}): the model card that uses it is not generated."
        porting.find(ID, "info", message, "", site.line, site.column)
