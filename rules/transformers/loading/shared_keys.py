"""Layers of a Gemma 4 E2B or E4B that have no keys and values of their own, but those of a layer before.

transformers 5.5.0 and 5.5.1 hand these on in the cache: where nothing is cached (TRL's trainers, checkpointing of
gradients) each such layer takes projections that the model wasn't trained with, and LoRA trains them. Tunix always
shares.
"""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, usual_texts, version_key
from porter.packs.training import Training

PART_OF = "TP302"
RELEASES = ((5, 5), (5, 5, 2))  # the first that has them, and the first that shares them without a cache
SHARES = ("gemma-4-e2b", "gemma-4-e4b")
FIX = "Train from 5.5.2 on to compare: what the GPU run makes of these layers is an error of that release."


@step(Phase.READ, of="trainer", reads=("model", "family", "model.id"))
def say_unshared_keys(porting: Training) -> None:
    """A warning where the source's release may not share keys and values in training, and the port does."""
    value, family, site = porting.value("model.id"), porting.family, porting.model or porting.trainer
    version = plain_version(porting.versions.get("transformers", ""))
    if value is None or site is None or family is None or family.name != "gemma4" or not version:
        return
    if site.qualified.startswith("unsloth.") or not RELEASES[0] <= version_key(version) < RELEASES[1]:
        return
    names = [str(value.literal)] if value.known else usual_texts(porting.module, value.code)
    if any(shares in name.lower() for name in names for shares in SHARES):
        message = (
            f"transformers {version} shares keys and values between this model's layers only where it caches them,"
        )
        message += " which training mostly doesn't; the port always does."
        porting.find(PART_OF, "warning", message, FIX, site.line, site.column)
