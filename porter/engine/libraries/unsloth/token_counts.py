"""Unsloth's count of a step's tokens, which it puts into transformers' Trainer when it loads a model.

Trainer.get_batch_samples of transformers 4.46 to 5.9 counts every label; Unsloth's leaves out each row's first, which
nothing predicts. It is there for every trainer of the script, whichever of the libraries was imported first.
"""

from __future__ import annotations

from ....runtime.facts.field_tables import version_key
from ....runtime.facts.releases import Release, release
from ...script.training import Training
from .patched_defaults import unsloth_version

COUNTS_SINCE = (2024, 10, 2)  # Unsloth's first release with a count of its own


def counting_unsloth(porting: Training) -> str:
    """Unsloth's release, where it loads the model and counts the tokens of its steps; else empty."""
    if porting.model is None or not porting.model.qualified.startswith("unsloth.") or porting.loop is not None:
        return ""
    version = unsloth_version(porting)
    return version if version_key(version) >= COUNTS_SINCE else ""


def counts_otherwise(own: Release) -> bool:
    """Whether the Trainer of those releases would count otherwise without Unsloth."""
    plain = release(own.trl, own.transformers)
    return own.counts_tokens and (plain.counts_firsts or plain.hides_tokens or own.counts_attended)
