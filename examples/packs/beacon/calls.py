"""beacon.log_model(trainer.model, name) → `beacon.log_folder(...)` of the saved weights.

What it does: saves the trained weights and hands beacon the folder.
Why: beacon pickles torch modules, and Tunix's model is none.
Example: `beacon.log_model(trainer.model, "support")`
Use instead: `rt.save_model(model, "support")` and `beacon.log_folder("support")`
Safety: changed. Beacon has the same weights as files.
"""

from porter.packs.api import Porting, Site

ID = "BEA201"
MATCHES = ("beacon.log_model()",)
POSITIONAL = ("model", "name")


def apply(site: Site, porting: Porting) -> object:
    name = site.argument("name")
    if name is None or not site.alone:
        message = "beacon.log_model: it pickles a torch module, and Tunix's model is none."
        return porting.find(ID, "error", message, "Save the model, and log its folder.", site.line, site.column)
    save = porting.rt("save_adapter" if porting.saves_adapter else "save_model")
    new = f"{save}({porting.names.model}, {name.text})\n{site.indent}beacon.log_folder({name.text})"
    porting.replace_statement(site, new, "beacon gets the files", "import beacon")
