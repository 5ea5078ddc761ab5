"""len(trainer.get_train_dataloader()) → `batches.gpu_batches`.

What it does: the number of batches that each GPU process takes of an epoch, or of an evaluation.
Why: Tunix's trainer has no DataLoader; it is given its batches, whose size is the mesh's.
Example: `steps = len(trainer.get_train_dataloader()) // args.gradient_accumulation_steps`
Use instead: `steps = batches.gpu_batches // args.gradient_accumulation_steps`
Safety: exact. What takes batches out of a DataLoader is left to a person: the port's have other names and other sizes.
So is the number of a trainer that samples (GRPO, GKD).
"""

import libcst as cst

from porter.packs.training import evaluation_sets, is_in_reach, table_of

ID = "TP367"
MATCHES = ("@trainer.get_train_dataloader()", "@trainer.get_eval_dataloader()")
KINDS = ("sft", "causal-lm", "dpo", "orpo", "cpo", "kto")  # those whose batches count them


def apply(site, porting):
    trains = site.qualified.endswith("get_train_dataloader()")
    sets = None if trains else evaluation_sets(porting)
    batches = porting.names.batches if trains else porting.names.eval_batches
    call = _counted(site, porting) if table_of(porting, porting.trainer).kind in KINDS else None
    if call is None or not batches or site.node.args or sets is not None or not is_in_reach(porting, site.node):
        message = f"{porting.module.code(site.node)}: Tunix's trainer has no DataLoader."
        fix = f"Its batches are {batches}, of the mesh's size, with input_tokens and labels." if batches else ""
        porting.find(ID, "error", message, fix or "Replace this line by hand.", site.line, site.column)
        return
    code = f"{batches}.gpu_batches"
    porting.edit(*porting.module.span(call), code, ID, "the batches that each process takes of them")


def _counted(site, porting):
    """The `len(...)` around it."""
    argument = porting.module.parents[site.node]
    call = porting.module.parents[argument]
    counts = isinstance(argument, cst.Arg) and isinstance(call, cst.Call) and porting.module.code(call.func) == "len"
    return call if counts else None
