"""model.resize_token_embeddings(len(tokenizer)) → `rt.check_vocabulary(model, len(tokenizer))`.

What it does: checks when the port starts that the tokens fit the rows that the model has.
Why: Tunix can't change the size of an embedding. Most checkpoints have rows to spare.
Example: `model.resize_token_embeddings(len(tokenizer))`
Use instead: `rt.check_vocabulary(model, len(tokenizer))`
Safety: transformers would also take spare rows away. Here they stay, and their logits count a little in the loss.
"""

ID = "TP312"
MATCHES = ("@model.resize_token_embeddings()",)


def apply(site, porting):
    given = [
        argument.text if argument.name.startswith("argument ") else f"{argument.name}={argument.text}"
        for argument in site.arguments
    ]
    call = ", ".join([porting.module.code(site.node.func.value), *given])
    porting.replace(site, f"{porting.rt('check_vocabulary')}({call})", "the rows suffice, or the port says so")
    message = (
        "resize_token_embeddings: the model keeps its rows; where transformers takes spare ones away, the loss differs."
    )
    porting.find(ID, "warning", message, "", site.line, site.column)
