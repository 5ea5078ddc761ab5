"""Unsloth that a flag of the script chooses, beside a way to train without it.

    if args.use_unsloth:
        model, tokenizer = load_with_unsloth()

Unsloth's import changes TRL's defaults, rows and counts, so that a port is of the one way or of the other: of that
which the defaults of the script's arguments choose, where these tell.
"""

from __future__ import annotations

from porter.packs.api import Phase, Severity, step
from porter.packs.script import imports_always, imports_usually
from porter.packs.training import Training

PART_OF = "TP703"
CHANGES = "it changes TRL's defaults and seeds, rows and counts of tokens"


@step(Phase.FIND, reads=("patches",))
def say_chosen_path(porting: Training) -> None:
    """A warning about the way that the port isn't of; an error where nothing tells which it should be."""
    models = porting.of_role("model")
    own = [site for site in models if site.qualified.startswith("unsloth.")]
    if not own or imports_always(porting.module, "unsloth"):
        return
    comes = imports_usually(porting.module, "unsloth")
    if len(own) == len(models) and comes is not False:
        return
    severity: Severity = "warning"
    fix = "Make the other way the default and port again for a port of it."
    if comes is None:
        message = f"Only the run knows whether Unsloth is imported, and {CHANGES}: the port is of the way with it, and"
        message += " trains otherwise, or ends, on the other."
        fix = "Take out the way that you don't train, or give its condition a default; port again."
        severity = "error"
    else:
        message = f"Unsloth trains {'unless' if comes else 'only where'} the script's user says so, and {CHANGES}:"
        message += f" the port is of the way {'with' if comes else 'without'} it, the default, and trains so on both."
    porting.find(PART_OF, severity, message, fix, own[0].line, own[0].column)
