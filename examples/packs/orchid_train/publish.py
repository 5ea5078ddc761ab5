"""trainer.publish(name) → the weights saved, for a person to upload.

What it does: saves the trained weights to a folder of that name, as PEFT and transformers write them.
Why: Orchid's registry takes uploads from its GPU clusters alone.
Example: `trainer.publish("orchid/support")`
Use instead: `rt.save_model(model, "support")`, and Orchid's own upload from where the registry is seen
Safety: changed, and said: nothing is uploaded.
"""

from porter.packs.api import say_keywords

ID = "ORC201"
MATCHES = ("@trainer.publish()",)
POSITIONAL = ("name",)
SETTLED = {"wait": ("dropped", "", "nothing is uploaded that could be waited for")}


def apply(site, porting):
    name = site.argument("name")
    if name is None or not name.value.known:
        return porting.NOT_MINE
    folder = str(name.value.literal).rpartition("/")[2]
    save = porting.rt("save_adapter" if porting.saves_adapter else "save_model")
    porting.replace(site, f'{save}({porting.names.model}, "{folder}")', "the weights, for a person to upload")
    message = f"{name.text} is saved to {folder}/, not uploaded."
    porting.find(ID, "warning", message, "Upload the folder from where Orchid's registry is seen.", site.line, 1)
    say_keywords(porting, site, SETTLED, "name")
