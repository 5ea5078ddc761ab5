"""Unsloth's count of a step's tokens, which it puts into transformers' Trainer when it loads a model.

Trainer.get_batch_samples of transformers 4.46 to 5.9 counts every label; Unsloth's leaves out each row's first, which
nothing predicts. It is there for every trainer of the script, whichever of the libraries was imported first.
"""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import imports_usually, version_key
from porter.packs.training import Training

from ._release import unsloth_version

PART_OF = "unsloth"

COUNTS_SINCE = (2024, 10, 2)  # Unsloth's first release with a count of its own


@step(Phase.READ, of="trainer", reads=("model",), fills=("loaded_by", "counted_by"))
def read_counting(porting: Training) -> None:
    """Unsloth's release, where it loads the model, and where it counts the tokens of its steps."""
    if porting.model is None or not porting.model.qualified.startswith("unsloth."):
        return
    if imports_usually(porting.module, "unsloth") is False:
        return
    porting.loaded_by = version = unsloth_version(porting)
    if porting.loop is None and version_key(version) >= COUNTS_SINCE:
        porting.counted_by = version
