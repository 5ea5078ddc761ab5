"""Which releases the source's environment gets: what the script was written for, filled up with what goes with it.

`sets.toml` lists releases that work together, each of TRL with those of its day (made by make_sets.py). A script's
dated releases pick a set; pins of its project come before it.
"""

from __future__ import annotations

import datetime
import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from ...runtime.facts.field_tables import version_key

LIBRARIES = ("trl", "transformers", "peft", "accelerate")
# Releases of transformers from which a run counts, averages or loads otherwise: a set is of the script's day only
# within one of these.
ERAS = ("4.42", "4.46", "4.47", "4.47.1", "4.48", "4.48.1", "4.50", "4.52", "4.53", "5.0", "5.2", "5.6", "5.10")
SPAN = 45  # days
OF_TRANSFORMERS = ("tokenizers", "huggingface-hub")  # which each of its releases wants in another range
# What scripts and old releases import without asking for it, and what torch, which is shared, would bring.
ALWAYS = (
    *("rich", "sentencepiece", "protobuf", "scipy", "tiktoken"),
    *("sympy", "networkx", "jinja2", "fsspec", "filelock", "typing-extensions"),
)


@dataclass(frozen=True)
class Wanted:
    """Releases to be had together: `pins` by name, `day` of the newest, `extras` further requirements.

    `why` says for each pinned library how its release is known.
    """

    pins: Mapping[str, str]
    day: str
    extras: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)

    def requirements(self, *, kept: Sequence[str] | None = None) -> tuple[str, ...]:
        """As an installer takes them; with `kept`, only the releases of these are pinned."""
        pins = self.pins if kept is None else {name: self.pins[name] for name in kept if name in self.pins}
        free = () if kept is None else tuple(name for name in (*LIBRARIES, "datasets") if name not in pins)
        old = ("numpy<2", "pyarrow<17", "pandas<2.3") if kept is not None and self.day < "2024-12" else ()
        # pkg_resources, which old releases import, lost `packaging` with setuptools 70 and went with 81.
        tools = "setuptools<70" if self.day < "2024-06" else "setuptools<81"
        return (*(f"{name}=={version}" for name, version in pins.items()), *free, *old, *ALWAYS, tools)

    @property
    def until(self) -> str:
        """The last day from which releases are taken that nobody names: some weeks behind the set's own."""
        return str(datetime.date.fromisoformat(self.day) + datetime.timedelta(days=SPAN))

    def __str__(self) -> str:
        return ", ".join(f"{name} {self.pins[name]}" for name in LIBRARIES if name in self.pins)


@functools.cache
def release_sets() -> tuple[Mapping[str, str], ...]:
    """The sets of sets.toml, oldest first; each names its day and the releases."""
    data = tomllib.loads((Path(__file__).parent / "sets.toml").read_text("utf-8"))
    return tuple(data["set"])


def wanted_for(chosen: Mapping[str, str], why: Mapping[str, str], extras: Sequence[str] = ()) -> Wanted:
    """An environment with the `chosen` releases (`why` each, by library), filled up with what goes with them."""
    base = _set_for(chosen)
    pins = {name: version for name, version in base.items() if name != "day"} | dict(chosen)
    if pins["transformers"] != base["transformers"]:
        for name in OF_TRANSFORMERS:
            pins.pop(name, None)
    return Wanted(pins, base["day"], tuple(extras), dict(why))


def _set_for(chosen: Mapping[str, str]) -> Mapping[str, str]:
    """The oldest set that has the release of TRL, or of transformers where that is older, or a later one."""
    sets = release_sets()
    found = [
        next((place for place, each in enumerate(sets) if version_key(each[name]) >= version_key(chosen[name])), -1)
        for name in ("trl", "transformers")
        if name in chosen
    ]
    return sets[max(found) if found and -1 not in found else -1]


def era_of(transformers: str) -> str:
    """A requirement for the releases that count, average and load as this one does: `>=4.50,<4.52`."""
    past = [era for era in ERAS if version_key(era) <= version_key(transformers)]
    ahead = [era for era in ERAS if version_key(era) > version_key(transformers)]
    return ",".join([*(f">={era}" for era in past[-1:]), *(f"<{era}" for era in ahead[:1])])


def installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def of_this_environment(names: Sequence[str] = LIBRARIES) -> Iterator[tuple[str, str]]:
    """(library, release) of those that are installed beside tpu-port."""
    for name in names:
        version = installed(name)
        if version is not None:
            yield name, version
