"""model.resize_token_embeddings(len(tokenizer)) → `rt.resize_vocabulary(model, len(tokenizer))`.

What it does: takes spare rows of the embedding and the head away, as transformers does, and checks when the port starts
that the tokens fit the rows that the model has. A script that adds tokens of its own gets a warning.
Why: Tunix can't give an embedding new rows. Most checkpoints have rows to spare.
Example: `model.resize_token_embeddings(len(tokenizer))`
Use instead: `rt.resize_vocabulary(model, len(tokenizer))`
Safety: exact where the mesh's tp axis divides the rows that are left. Else they stay, their logits count a little in
the loss, and a line says so when the port runs.
"""

import re

ID = "TP312"
MATCHES = ("@model.resize_token_embeddings()",)
ADDS = re.compile(r"\.(?:add_special_tokens|add_tokens)\(")


def apply(site, porting):
    given = [
        argument.text if argument.name.startswith("argument ") else f"{argument.name}={argument.text}"
        for argument in site.arguments
    ]
    call = ", ".join([porting.module.code(site.node.func.value), *given])
    reason = "the same rows; tokens that need more of them are refused"
    porting.replace(site, f"{porting.rt('resize_vocabulary')}({call})", reason)
    message = (
        "The script adds tokens: where the tokenizer then has more than the model's embedding has rows, the port ends "
        "at its start (Llama 2, Mistral and TinyLlama have none to spare)."
    )
    if ADDS.search(porting.module.text) and all(found.message != message for found in porting.recipe.findings):
        fix = "Use tokens that the tokenizer has, such as its end token to pad with, or a model with spare rows."
        porting.find(ID, "warning", message, fix, site.line, site.column, False)
