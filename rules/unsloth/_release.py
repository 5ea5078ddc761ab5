"""Which release of Unsloth a script is for."""

from __future__ import annotations

from porter.packs.runtime import unsloth_beside
from porter.packs.script import plain_version, release_of
from porter.packs.training import Training


def unsloth_version(porting: Training) -> str:
    """Unsloth's release: the one that the script or a file beside it pins, else the newest beside TRL's release."""
    return release_of(porting, "unsloth") or unsloth_beside(plain_version(porting.versions.get("trl", "")))
