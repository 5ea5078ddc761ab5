"""How ORPOTrainer and CPOTrainer of TRL 0.28 to 1.14 cut pairs that are too long: said, since no one means it."""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training

PART_OF = "trl"

BY_LONGER = ((0, 28, 0), (1, 15, 0))
TRAINERS = ("ORPOTrainer", "CPOTrainer")


@step(Phase.READ, of="trainer", reads=("config",))
def say_cut_answers(porting: Training) -> None:
    """Tell that both answers are cut to max_length less the longer one, as in that release."""
    trainer, release = porting.trainer, plain_version(porting.versions.get("trl", ""))
    if trainer is None or not trainer.qualified.startswith("trl.") or not release:
        return
    if trainer.qualified.rpartition(".")[2] not in TRAINERS:
        return
    if not BY_LONGER[0] <= version_key(release) < BY_LONGER[1]:
        return
    message = (
        f"TRL {release} cuts both answers of a pair above max_length to max_length less the longer answer, whatever "
        "the prompt's length, and so does the port: little or nothing of them may be left."
    )
    fix = 'Write trl="1.15.0" in the port to cut each answer to what its prompt leaves, as from that release on.'
    porting.find(trainer.rule, "info", message, fix, trainer.line, trainer.column)
