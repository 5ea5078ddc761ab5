"""A release that has no models of the script's family: pins of a README that were forgotten, a keyword of old.

`transformers==4.30.0` beside Mistral, which came with 4.34: the script ran on a later release than it is read as.
"""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, first_release_of

PART_OF = "TP302"

FIX = "Say --source-trl VERSION of the release that it ran on: defaults and rows are those of its release."


@step(Phase.READ, of="trainer", reads=("model.id", "family"))
def say_family_of_another_day(porting: Training) -> None:
    """A warning where the release that the script is read as is older than its model's family."""
    value, family = porting.value("model.id"), porting.family
    version = plain_version(porting.versions.get("transformers", ""))
    if value is None or family is None or not value.known or not version:
        return
    first = first_release_of(family, str(value.literal))
    if not first or version_key(version) >= version_key(first):
        return
    line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
    message = (
        f"The script is read as of transformers {version}, which can't load {value.literal} ({first} is the first "
        "that can): it ran on a later one."
    )
    porting.find(PART_OF, "warning", message, FIX, line, column)
