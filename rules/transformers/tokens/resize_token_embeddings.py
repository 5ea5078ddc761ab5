"""model.resize_token_embeddings(len(tokenizer)) → `rt.resize_vocabulary(model, len(tokenizer))`.

What it does: gives the embedding and the head the rows that are asked for. New ones are the mean of the others, as from
transformers 4.46 on; of a script of an older release they are drawn as that drew them (`mean_resizing=False`), other
numbers than torch's.
Why: Tunix has no such call.
Example: `model.resize_token_embeddings(len(tokenizer))`
Use instead: `rt.resize_vocabulary(model, len(tokenizer))`
Safety: exact where the mesh's tp axis divides the rows. Where it doesn't, the port ends at its start and asks for
`pad_to_multiple_of=`; rows to spare stay then, their logits count a little in the loss, and a line says so. An adapter
that is saved holds no rows of the embedding, where PEFT writes all of them beside it: they weren't trained. A finding
says so.
"""

import libcst as cst

from porter.packs.api import Phase, Porting, is_before, step
from porter.packs.script import role_uses

ID = "TP312"
MATCHES = ("@model.resize_token_embeddings()", "@reference.resize_token_embeddings()")


def apply(site, porting):
    given = [
        argument.text if argument.name.startswith("argument ") else f"{argument.name}={argument.text}"
        for argument in site.arguments
    ]
    if is_before(porting, "transformers", "4.46"):
        given.append("mean_resizing=False")
    call = ", ".join([porting.module.code(site.node.func.value), *given])
    porting.replace(site, f"{porting.rt('resize_vocabulary')}({call})", "the same rows")
    if site.qualified == MATCHES[0] and (porting.saves_adapter or _may_adapt(porting)):
        message = "PEFT saves the resized embedding and head beside an adapter; the port saves the adapter alone."
        fix = "They weren't trained: resize the base in the same way before the adapter is put on it."
        porting.find(ID, "info", message, fix, site.line, site.column)


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def drop_repeated_sizes(porting: Porting) -> None:
    """`model.config.vocab_size = len(tokenizer)` behind a resize to the same number, which has set it."""
    module = porting.module
    resized: dict[str, int] = {}
    for use in role_uses(porting):
        call = use.outer
        if use.chain.removeprefix("model.") == "resize_token_embeddings" and isinstance(call, cst.Call):
            if len(call.args) == 1:
                resized.setdefault(module.code(call.args[0].value), module.span(use.name)[0])
    for use in role_uses(porting):
        assign = module.parents[module.parents[use.outer]]
        if use.kind != "assign" or use.chain.removeprefix("model.") != "config.vocab_size":
            continue
        if not isinstance(assign, cst.Assign) or len(assign.targets) > 1:
            continue
        place = resized.get(module.code(assign.value))
        if place is not None and place < module.span(use.name)[0]:
            porting.remove_statement(use.outer, ID, "resize_token_embeddings has set it")


def _may_adapt(porting: Porting) -> bool:
    """Whether the run decides that there are adapters: `if args.use_lora:`, a `peft_config` that may be None."""
    given = porting.trainer.argument("peft_config") if porting.trainer is not None else None
    return bool(porting.of_role("inject")) or (given is not None and not given.value.is_literal(None))
