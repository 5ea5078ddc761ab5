"""Make a table's `[beside.transformers]` and `[came_out]` from wheels: what is installed with releases of Unsloth.

    pip download --no-deps --only-binary :all: -d wheels unsloth==2025.5.6   # and every other release
    python -m porter.releases.beside --library unsloth --wheels wheels

A release is installed with the newest transformers of its day that its wheel takes. There is a row for each from which
that is another one, and the day on which it came out.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from email.parser import Parser
from pathlib import Path

from ..runtime.facts.field_tables import version_key
from .history import history
from .versions import Pin, fits, pins_of

INSTALLED = "transformers"


def bounds_in(metadata: str, library: str = INSTALLED) -> list[Pin]:
    """The bounds of a library in a wheel's METADATA: those of a plain installation, else those of its extras."""
    lines = Parser().parsestr(metadata).get_all("Requires-Dist", [])
    asked = [line.partition(";") for line in lines if re.match(rf"{re.escape(library)}\b(?![-.])", line)]
    plain = [text for text, _, marker in asked if "extra" not in marker]
    return [pin for text in plain or [text for text, _, _ in asked] for pin in pins_of(text)]


def newest_of_day(bounds: Iterable[Pin], day: datetime.date, library: str = INSTALLED) -> str | None:
    """The newest release of a library that was out on a day, within the bounds."""
    known, pins = history(), [*bounds]
    out = [one for one in known.releases(library) if known.date(library, one) <= day]
    return next((one for one in reversed(out) if all(fits(one, *pin) for pin in pins)), None)


def rows(
    releases: Iterable[tuple[str, datetime.date, str]], library: str = INSTALLED
) -> dict[str, tuple[str, datetime.date]]:
    """Of releases with their day and METADATA, in their order: the first of those that are installed with the same,
    with that and its day.

    Those that differ in their suffix alone (`2024.9.post4`) are one release to the tables: it is as its last.
    """
    beside: dict[str, tuple[str, datetime.date]] = {}
    for version, day, metadata in releases:
        installed = newest_of_day(bounds_in(metadata, library), day, library)
        if installed is not None:
            beside[".".join(map(str, version_key(version))).removesuffix(".0")] = installed, day
    before = ["", *(installed for installed, _ in beside.values())]
    return {version: one for (version, one), last in zip(beside.items(), before, strict=False) if one[0] != last}


def wheels_in(folder: Path, library: str) -> Iterator[tuple[str, datetime.date, str]]:
    """The releases whose wheels are in a folder, the oldest first, each with its day and METADATA."""
    wheels = {path.name.split("-")[1]: path for path in folder.glob(f"{library}-*.whl")}
    for version, path in sorted(wheels.items(), key=lambda each: (version_key(each[0]), each[0])):
        with zipfile.ZipFile(path) as wheel:
            day = datetime.date(*max(info.date_time for info in wheel.infolist())[:3])
            name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            yield version, day, wheel.read(name).decode("utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="whose releases")
    parser.add_argument("--wheels", type=Path, required=True, help="the folder with their wheels")
    given = parser.parse_args()
    found = rows(wheels_in(given.wheels, given.library))
    if not found:
        print(f"{given.wheels}: no wheel of {given.library} in it that asks for {INSTALLED}", file=sys.stderr)
        return 2
    print(f"[beside.{INSTALLED}]", *(f'"{one}" = "{installed}"' for one, (installed, _) in found.items()), sep="\n")
    print("\n[came_out]", *(f'"{one}" = "{day}"' for one, (_, day) in found.items()), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
