"""What a training loop did besides training that its port doesn't do, each kind of it said once, with what to do."""

from __future__ import annotations

from ..script.training import Training
from .besides.filled_names import read_behind
from .besides.watching import is_saved_elsewhere
from .parts import loop_parts
from .statements.facts import Loop

ENDS = (
    "The port makes all steps: let an EarlyStoppingCallback of porter.runtime.callbacks end it by an evaluation, as a "
    "callback of rt.log_every."
)
GUARDS = {
    "guard": (
        "Batches whose loss isn't finite are left out here; the port trains on them.",
        "Look at the loss of the port's first steps.",
    ),
    "memory": (
        "Batches for which the GPU's memory doesn't suffice are left out here; the port trains on all, or ends.",
        "tpu-port plan says what fits.",
    ),
}
HISTORY = "trainer.training_hooks.history holds the lines of rt.log_every, with loss, learning_rate and step."
CHECKPOINTS = "for checkpoints give TrainingConfig a checkpoint_root_directory."
UNSAVED = (
    "Nothing else saves the model: rt.save_model(model, folder), of adapters rt.save_adapter, behind the training does;"
)
SAID = {
    "saving": ("checkpoints that the loop saves", f"The model is saved behind the loop; {CHECKPOINTS}"),
    "evaluation": ("evaluations inside the loop", ""),
    "sampling": ("texts that the loop generates", "Sample behind the training, with rt.generate."),
    "stopping": ("ends of its own", ENDS),
    "resuming": ("resuming at an epoch", f"Tunix resumes from checkpoints of its own: {CHECKPOINTS}"),
}


def say_left_out(porting: Training, loop: Loop) -> None:
    """One finding for each kind of thing that the loop did besides training."""
    site = porting.trainer
    assert site is not None
    for what, (said, _) in SAID.items():
        lines = [porting.module.line_in_file(left.node) for left in loop.left if left.what == what]
        if lines:
            where = ", ".join(map(str, lines[:6]))
            message = f"The loop is replaced by Tunix's trainer; {said} (line {where}) are not in the port."
            porting.find(site.rule, "error", message, _advice_for(porting, loop, what), site.line, site.column)
    for left in loop.left:
        if left.what in GUARDS:
            message, fix = GUARDS[left.what]
            porting.find(site.rule, "warning", message, fix, *porting.module.location(left.node), todo=False)
    for use, name, filled in read_behind(porting.module, loop) if loop.kept is None else ():
        line = porting.module.line_in_file(filled)
        message = f"{name} is read here, and the loop that filled it (line {line}) is Tunix's trainer now."
        porting.find(site.rule, "error", message, HISTORY, *porting.module.location(use))
    lines = [porting.module.line_in_file(left.node) for left in loop.left if left.what == "logging"]
    if lines:
        where = ", ".join(map(str, lines[:6])) + (" and more" if len(lines) > 6 else "")
        message = f"What the loop prints and logs (line {where}) is replaced by rt.log_every's lines."
        porting.find(site.rule, "info", message, "", site.line, site.column)
    if loop.max_steps is not None and loop.epochs is not None:
        first = f"after {porting.text('run.epochs')} epochs or {porting.text('run.max_steps')} steps"
        message = f"The loop ends {first}, whichever comes first; the port after the steps, if there are any."
        if not loop.ends_all:
            message += " Each later epoch of the loop would train one more batch."
        porting.find(
            site.rule, "warning", message, "Check that the epochs have that many steps.", site.line, site.column
        )
    if loop.accumulation is not None and not (loop.accumulates or loop.steps_at_last):
        batches = porting.module.code(loop.accumulation)
        does = "leaves the rest out" if loop.drops_rest else "carries the rest into the next step"
        message = f"Where {batches} doesn't divide an epoch's batches, the loop {does}; the port makes a step of its "
        message += "own of them."
        fix = f"Give the DataLoader a number of batches that {batches} divides if the GPU run had another."
        porting.find(site.rule, "warning", message, fix, site.line, site.column)


def _advice_for(porting: Training, loop: Loop, what: str) -> str:
    """What to do about a kind of thing that the loop did besides training."""
    if what == "evaluation":
        others = [
            site for site in porting.sites if site.role == "loader" and site.node is not loop_parts(porting)[0].node
        ]
        told = [others[0].argument(name) for name in ("dataset", "batch_size")] if len(others) == 1 else []
        rows, size = (each.text if each is not None else "" for each in told) if told else ("rows", "8")
        evaluated = f"batches.evaluation({rows or 'rows'}, batch_size={size or 1})"
        return f"trainer.train(batches, {evaluated}) evaluates every eval_every_n_steps of TrainingConfig."
    if what == "saving" and not is_saved_elsewhere(porting.module, loop.gone):
        return f"{UNSAVED} {CHECKPOINTS}"
    return SAID[what][1]
