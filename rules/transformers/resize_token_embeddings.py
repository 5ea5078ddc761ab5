"""model.resize_token_embeddings(len(tokenizer)) → `rt.resize_vocabulary(model, len(tokenizer))`.

What it does: takes spare rows of the embedding and the head away, as transformers does, and checks when the port starts
that the tokens fit the rows that the model has.
Why: Tunix can't give an embedding new rows. Most checkpoints have rows to spare.
Example: `model.resize_token_embeddings(len(tokenizer))`
Use instead: `rt.resize_vocabulary(model, len(tokenizer))`
Safety: exact where the mesh's tp axis divides the rows that are left. Else they stay, their logits count a little in
the loss, and a line says so when the port runs.
"""

ID = "TP312"
MATCHES = ("@model.resize_token_embeddings()",)


def apply(site, porting):
    given = [
        argument.text if argument.name.startswith("argument ") else f"{argument.name}={argument.text}"
        for argument in site.arguments
    ]
    call = ", ".join([porting.module.code(site.node.func.value), *given])
    reason = "the same rows; tokens that need more of them are refused"
    porting.replace(site, f"{porting.rt('resize_vocabulary')}({call})", reason)
