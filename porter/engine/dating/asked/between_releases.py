"""States of a library that are no release: commits that nobody knows, and what is on the way to one, `4.50.0.dev0`.

So calls itself what the tag v4.49.0-Gemma-3 holds, of ten days before 4.50.0.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from ....releases.history import history
from ....runtime.facts.field_tables import version_key
from ....source.project.requirements import commits_in
from ...script.training import Training
from .places import texts_around

DEVELOPED = ".dev"
SHOWN = 7  # digits of a commit


def on_its_way(library: str, state: str) -> tuple[str, datetime.date | None]:
    """The release that a state of development became, and the day on which that came out: `4.52.1` of `4.52.0.dev0`;
    the last one before it, and no day, where none of that number came out. A release is itself."""
    if DEVELOPED not in state:
        return state, None
    releases, own = history().releases(library), version_key(state)
    later = [one for one in releases if version_key(one) >= own and version_key(one)[:2] == own[:2]]
    if later:
        return later[0], history().date(library, later[0])
    return [one for one in releases if version_key(one) < own][-1], None


def commits_asked(porting: Training, library: str) -> Iterator[tuple[str, str]]:
    """What installs a library at a commit of git that came behind no known release: `requirements.txt`, 0dcb46e."""
    for where, text in texts_around(porting):
        yield from ((where, commit[:SHOWN]) for commit in commits_in(text, library)[-1:])
