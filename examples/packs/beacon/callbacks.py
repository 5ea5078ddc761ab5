"""class Mine(beacon.Callback) → a TrainerCallback, where it has nothing but events of transformers.

What it does: gives the class the runtime's base class.
Why: beacon.Callback is transformers' TrainerCallback and hooks for torch's modules.
Example: `class Mine(beacon.Callback):`
Use instead: `class Mine(TrainerCallback):`
Safety: exact for on_log and the other events; a class with `on_module` is left to a person.
"""

from porter.packs.api import methods_of

ID = "BEA203"
CLASSES = ("beacon.Callback",)


def apply(site, porting):
    if "on_module" in methods_of(site):
        message = f"{site.variable}.on_module: it is called by torch's modules."
        return porting.find(ID, "error", message, "Do without it.", site.line, site.column)
    start, end = porting.module.span(site.by)
    porting.edit(start, end, "TrainerCallback", ID, "beacon's hooks are torch's")
    porting.imports.add(f"from {porting.runtime_module('callbacks')} import TrainerCallback")
