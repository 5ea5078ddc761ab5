"""trainer.remove_callback(PrinterCallback) → gone.

What it does: takes out that a callback of transformers' is removed which does no more than print.
Why: the port hasn't these callbacks; `rt.log_every` prints its lines, and Tunix its progress bar.
Example: `trainer.remove_callback(PrinterCallback)`
Use instead: nothing
Safety: exact for what is trained. The log lines of the port are printed all the same, which an info says. Any other
callback is left to a person.
"""

from porter.packs.api import made_by

ID = "TP368"
MATCHES = ("@trainer.remove_callback()",)
POSITIONAL = ("callback",)
PRINTS = (
    *("transformers.trainer_callback.PrinterCallback", "transformers.PrinterCallback"),
    *("transformers.trainer_callback.ProgressCallback", "transformers.ProgressCallback"),
    *("transformers.utils.notebook.NotebookProgressCallback", "transformers.integrations.NotebookProgressCallback"),
)


def apply(site, porting):
    callback = site.argument("callback")
    name = porting.module.qualified(callback.node) if callback is not None else None
    if callback is None or (name not in PRINTS and made_by(porting, callback.node) not in PRINTS):
        return porting.NOT_MINE
    message = f"{porting.module.code(site.node)}: the port prints its log lines all the same."
    porting.find(ID, "info", message, "", site.line, site.column)
    porting.remove_statement(site.node, ID, "the port hasn't this callback")
