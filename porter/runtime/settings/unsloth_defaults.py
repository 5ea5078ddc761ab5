"""The defaults that TRL's config classes have once Unsloth is imported before them.

`rules/unsloth/defaults.toml` says them by Unsloth's release. Standard library alone: porting reads them too.
"""

from __future__ import annotations

import datetime
import tomllib
from functools import cache
from typing import Any

from ..facts.field_tables import at_version, rules_root, version_key
from .post_init import OF_TRL


def unsloth_defaults(name: str, version: str | None = None, transformers: str | None = None) -> dict[str, str]:
    """Field → literal text of its default in the config class `name`; empty for a class that Unsloth leaves alone.

    `version`: Unsloth's (the newest when None); before 2025.2.5 it changed none. `transformers`: 5, the newest, when
    None, which has `warmup_steps` for `warmup_ratio`.
    """
    if name not in OF_TRL:
        return {}
    data = _table()
    found = {}
    for field, history in {**data["every"], **data.get(name, {})}.items():
        default = at_version(history, version or data["newest"])
        if default is not None:
            found[field] = default
    if "warmup_ratio" in found and version_key(transformers or "5") >= (5,):
        found["warmup_steps"] = found.pop("warmup_ratio")
    return found


def newest_unsloth() -> str:
    """The release that a script is read as when nothing says another."""
    return str(_table()["newest"])


def unsloth_beside(trl: str, *, of_its_day: bool = False) -> str:
    """Unsloth's release that a script is read as beside a release of TRL: `2024.8` for 0.8.6; the newest for "".

    TRL's bounds of that day: the wheels of 2024.8 take TRL before 0.9, those of 2025.10 and later none before 0.18.2.
    `of_its_day`: not a newer one whose wheel takes that TRL too, which only a pin of TRL would be installed with.
    """
    if not trl:
        return newest_unsloth()
    days = _table()["beside_trl"] | (_table()["of_the_day_of_trl"] if of_its_day else {})
    return at_version(days, trl) or newest_unsloth()


def unsloth_on(day: datetime.date) -> str | None:
    """Unsloth's newest release on a day, up to the newest that is known; None before the first that is."""
    days = {f"{month}.{at}": release for month, found in _table()["newest_on"].items() for at, release in found.items()}
    return at_version(days, f"{day.year}.{day.month}.{day.day}")


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((rules_root() / "unsloth" / "defaults.toml").read_text(encoding="utf-8"))
