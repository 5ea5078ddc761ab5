"""setup_chat_format(model, tokenizer) → `rt.setup_chat_format(model, tokenizer)`.

What it does: gives the tokenizer ChatML's template and tokens, and the model the rows that these need.
Why: TRL's adds rows to torch's embedding.
Example: `model, tokenizer = setup_chat_format(model, tokenizer)`
Use instead: `model, tokenizer = rt.setup_chat_format(model, tokenizer)`
A TRL before 0.12 (`trl="0.9.6"`) replaces a template that the tokenizer has, where later ones refuse; a transformers
before 4.46 draws new rows (`mean_resizing=False`), other numbers than torch's.
Safety: exact where the tokens fit the model's embedding; where they don't, the port ends at its start. A model that the
port leaves to torch, as one that is loaded again behind the training, is left to a person.
"""

from porter.packs.api import is_before, stays_torchs
from porter.packs.script import plain_version

ID = "TP126"
MATCHES = ("trl.setup_chat_format()",)
POSITIONAL = ("model", "tokenizer", "format", "resize_to_multiple_of")
REASON = "the same template and tokens; spare rows of the model go"
FIX = (
    "It refuses at start where the tokens don't fit the model's embedding: then run it once with transformers, save "
    "model and tokenizer, and load those."
)


def apply(site, porting):
    model = site.argument("model")
    if model is not None and stays_torchs(porting, model.node):
        message = f"setup_chat_format gets {model.text}, which the port leaves to torch; TRL's newer releases lack it."
        fix = "Load that model with rt.load_model, or give its tokenizer the template that was saved."
        porting.find(ID, "error", message, fix, site.line, site.column)
        return
    start, end = porting.module.span(site.node.func)
    porting.edit(start, end, porting.rt("setup_chat_format"), ID, REASON)
    older = []
    if is_before(porting, "trl", "0.12"):
        older.append(f'trl="{plain_version(porting.versions["trl"])}"')
    if is_before(porting, "transformers", "4.46"):
        older.append("mean_resizing=False")
    if older:
        porting.add_keyword(site.node, ", ".join(older), ID, "as in the source's release")
    porting.find(ID, "warning", "setup_chat_format is rt.setup_chat_format now.", FIX, site.line, site.column)
