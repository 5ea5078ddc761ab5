"""trainer.train() → `with mesh: trainer.train(batches)`.

What it does: Tunix's trainer takes its batches here and needs the mesh as a context (`with mesh:`; with
`jax.set_mesh` Tunix 0.1.7 leaves the batches unsharded).
Why: TRL's trainer holds its data; Tunix's is given it.
Example: `trainer.train()`
Use instead: `with mesh:` and `trainer.train(batches, eval_batches)`
Safety: exact. `resume_from_checkpoint=True` becomes `rt.resume_dir` at the trainer; a path to a torch checkpoint
can't be read and is refused. A call that comes again, in a loop or behind another, has `rt.start_anew(trainer)` in
front of it. What `train()` returned is `rt.train_result(trainer, batches)`, where something reads it.
"""

import libcst as cst

from porter.packs.api import Field, evaluates_in_training, loads_best, say_keywords, strategy_when_run
from porter.packs.training import shuffling_in
from porter.packs.writing import TRAINING

from .saving.save_metrics import say_lacking
from .saving.uploading import upload_code
from .trained_again import trained_again, why_not_anew

ID = "TP111"
MATCHES = ("@trainer.train()",)
POSITIONAL = ("resume_from_checkpoint",)
SETTLED = {
    "ignore_keys_for_eval": ("dropped", "", "Tunix's model gives logits and nothing else"),
    "trial": ("manual", "", "a search over hyper-parameters has no counterpart"),
}
UNMEASURED = "total_flos"
ANEW = "# its schedule from the start; weights and moments go on"


def apply(site, porting):
    names = porting.names
    resume = site.argument("resume_from_checkpoint")
    if resume is not None:
        text = resume.text
        if resume.value.is_literal(True):
            porting.fate(_row(site, resume, "exact", "rt.resume_dir at the trainer", ""))
        elif resume.value.is_literal(None, False):
            porting.fate(_row(site, resume, "dropped", "", "no resuming was asked for"))
        elif porting.arguments_object and text == f"{porting.arguments_object}.resume_from_checkpoint":
            porting.fate(_row(site, resume, "exact", "rt.training_config", "Orbax checkpoints of the same folder"))
        elif resume.value.known:
            reason = "a checkpoint of transformers' Trainer can't be read by Orbax"
            porting.fate(_row(site, resume, "manual", "", reason))
            message = (
                f"resume_from_checkpoint={text}: the GPU run goes on from this checkpoint of transformers' Trainer, "
            )
            message += "with its optimizer and from its step. It can't be read by Orbax: the port starts at step 0."
            fix = "Take the keyword out to train anew, on the source's side too; its adapters alone: rt.load_adapter."
            porting.find(ID, "error", message, fix, resume.line, resume.column)
        else:
            porting.fate(_row(site, resume, "changed", "rt.resume_dir", f"resumes when {text} is set"))
    say_keywords(porting, site, SETTLED, "resume_from_checkpoint")
    data = [names.batches]
    if evaluates_in_training(porting):
        strategy = strategy_when_run(porting) if porting.evaluates else ""
        data.append(f'{names.eval_batches} if {strategy} != "no" else None' if strategy else names.eval_batches)
    call = f"{names.trainer}.train({', '.join(data)})"
    inner = site.indent + porting.module.indent
    anew = f"{porting.rt('start_anew')}({names.trainer})  {ANEW}\n{site.indent}" if _starts_anew(site, porting) else ""
    new = f"{anew}with {names.mesh}:\n{inner}{call}"
    if site.variable is not None and _is_read(site, porting):
        code = f"{porting.rt('train_result')}({names.trainer}, {names.batches})"
        new += f"\n{site.indent}{site.variable} = {code}"
        if UNMEASURED in porting.module.text:
            message = f"{site.variable}: {UNMEASURED} is an estimate that transformers makes from the torch model."
            porting.find(ID, "error", message, "Leave it out.", site.line, site.column)
        elif _is_shown_whole(porting.module, site.variable, site.scope):
            say_lacking(porting)
    if loads_best(porting):
        new += f"\n{site.indent}{porting.rt('load_best')}({names.trainer})"
    new += upload_code(porting, site)
    porting.replace_statement(site, new, "Tunix's trainer is given its batches, inside the mesh", part=TRAINING)


def _starts_anew(site, porting):
    """Whether the trainer may have trained before."""
    if site.node not in trained_again(porting) or why_not_anew(porting):
        return False
    drawn = shuffling_in(porting, porting.known("mesh.processes", 1))
    if drawn[0] == "drawn":
        message = f"{drawn[1]} draw other orders of the rows for each training; the port's trainings have one."
        porting.find(ID, "info", message, "", site.line, site.column)
    return True


def _is_read(site, porting):
    """Whether something reads what train() returned."""
    return any(porting.module.references(site.variable, site.scope))


def _is_shown_whole(module, name, scope, *, metrics=False):
    """Whether something gets all figures at once, of what train() returned or of its `metrics`, by whatever name."""
    for use in module.references(name, scope):
        parent = module.parents[use]
        if not metrics and isinstance(parent, cst.Attribute):
            if parent.attr.value != "metrics":
                continue
            use, parent = parent, module.parents[parent]
        if isinstance(parent, cst.Subscript | cst.Attribute) and parent.value is use:
            continue  # one of them
        target = parent.targets[0].target if isinstance(parent, cst.Assign) else None
        if not isinstance(target, cst.Name) or _is_shown_whole(module, target.value, scope, metrics=True):
            return True
    return False


def _row(site, argument, fate, target, reason):
    source = f"train.{argument.name}"
    return Field(source, argument.text, fate, target, reason, ID, argument.line, argument.column)
