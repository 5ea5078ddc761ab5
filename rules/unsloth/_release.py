"""Which release of Unsloth a script is for."""

from __future__ import annotations

from porter.packs.runtime import newest_unsloth
from porter.packs.script import release_of
from porter.packs.training import Training


def unsloth_version(porting: Training) -> str:
    """Unsloth's release: the one that the script or a file beside it pins, else the newest that is known."""
    return release_of(porting, "unsloth") or newest_unsloth()
