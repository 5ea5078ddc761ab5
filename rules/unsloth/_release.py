"""Which release of Unsloth a script is for, and which of TRL's classes are Unsloth's."""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Origin, Site, Value
from porter.packs.runtime import unsloth_beside, unsloth_on
from porter.packs.script import last_day, release_of, said_last_day, version_key
from porter.packs.training import Training, rewritten_by

UNSLOTH = "Unsloth"  # the file that the origin of its defaults names
RULE = "TP703"  # whose they are
UNPINNED = ("(the newest release", "(the first release")


def unsloth_version(porting: Training) -> str:
    """Unsloth's release: the one that the script or a file beside it pins, else the newest beside TRL's release.

    Beside a TRL that is known by what the script uses, not by a pin, that of its day. None that came out after the
    script was last committed, or a notebook last ran.
    """
    version, _, why = porting.versions.get("trl", "").partition(" ")
    if (pinned := release_of(porting, "unsloth")) is not None:
        return pinned
    beside = unsloth_beside(version, of_its_day=why.startswith(UNPINNED))
    day = last_day(porting)
    return min(beside, (day and unsloth_on(day)) or beside, key=version_key)


def read_as(porting: Training) -> str:
    """The same with how it is known, as the report names releases: `2025.7.11 (beside TRL 0.19.1)`."""
    release, trl = unsloth_version(porting), porting.versions.get("trl", "").partition(" ")[0]
    day = last_day(porting)
    if day is not None and unsloth_on(day) == release and release != unsloth_beside(trl):
        return f"{release} (of {said_last_day(porting, day)})"
    return f"{release} (beside TRL {trl})" if trl else f"{release} (the newest that is known)"


def own_default(code: str) -> Value:
    """A value that Unsloth decides where the script says nothing."""
    return Value("default", code, Origin(UNSLOTH, 0, 0, RULE))


def is_patched(porting: Training, site: Site | None) -> bool:
    """Whether the class that a call names is Unsloth's."""
    if site is None or not site.qualified.startswith("trl.") or not isinstance(site.node, cst.Call):
        return False
    return site.node in porting.module.parents and bool(rewritten_by(porting, site.node.func))


def is_before(porting: Training, release: str) -> bool:
    """Whether the script was written for an older Unsloth than `release`: by its pin, or beside its TRL."""
    return version_key(unsloth_version(porting)) < version_key(release)
