"""Make `porter/releases/LIBRARY.json` from the wheels of its releases: `python -m porter.releases.make --library trl`.

    pip download --no-deps --only-binary :all: -d wheels trl==0.7.0   # and every other release
    python -m porter.releases.make --library trl --wheels wheels

What a release has is true of a span of releases, so everything is stored by its spans: `"0-12"` are the releases from
the first to the twelfth, `"3-"` those from the fourth on, and `"0-12,15-"` both. A group of names stands behind one
span, which is what keeps a hundred releases of transformers in a few hundred kilobytes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

from .wheels import LIBRARIES, Release, read_wheel

HERE = Path(__file__).resolve().parent


def key(version: str) -> tuple[int, ...]:
    """A version to compare."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def span(places: Iterable[int], count: int) -> str:
    """Places among `count` releases as intervals: {0, 1, 5} of 6 are "0-2,5-"."""
    found: list[list[int]] = []
    for place in sorted(places):
        if found and found[-1][1] == place:
            found[-1][1] = place + 1
        else:
            found.append([place, place + 1])
    return ",".join(f"{first}-" if last == count else f"{first}-{last}" for first, last in found)


class Spans:
    """Facts and the releases that have them, to be written by their spans."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.places: dict[Hashable, list[int]] = defaultdict(list)

    def add(self, facts: Iterable[Hashable], place: int) -> None:
        for fact in facts:
            self.places[fact].append(place)

    def _by_span(self) -> dict[str, list[Any]]:
        found = defaultdict(list)
        for fact, places in self.places.items():
            found[span(places, self.count)].append(fact)
        return {text: sorted(found[text], key=str) for text in sorted(found, key=lambda text: (key(text), text))}

    def words(self) -> dict[str, str]:
        return {text: " ".join(facts) for text, facts in self._by_span().items()}

    def pairs(self) -> dict[str, dict[str, str | None]]:
        return {text: dict(facts) for text, facts in self._by_span().items()}

    def lists(self) -> dict[str, list[str]]:
        return self._by_span()


def history(releases: list[Release]) -> dict[str, Any]:
    """What `History` reads, of all releases of one library in the order of their versions."""
    count = len(releases)
    made: dict[str, Any] = {
        "library": releases[0].library,
        "releases": [release.version for release in releases],
        "dates": [release.date for release in releases],
    }
    requires = Spans(count)
    names: dict[str, Spans] = defaultdict(lambda: Spans(count))
    calls: dict[str, dict[str, Spans]] = defaultdict(lambda: defaultdict(lambda: Spans(count)))
    classes: dict[str, dict[str, Spans]] = defaultdict(lambda: defaultdict(lambda: Spans(count)))
    for place, release in enumerate(releases):
        requires.add(release.requires, place)
        for module, found in release.names.items():
            names[module].add(found, place)
            names[module].add([":"] if module else [], place)
        for name, call in release.calls.items():
            calls[name]["takes"].add(call.takes.items(), place)
            calls[name]["mode"].add([call.mode], place)
            calls[name]["deprecated"].add(call.deprecated, place)
            calls[name]["idle"].add(call.idle, place)
        for name, bases in release.bases.items():
            classes[name]["bases"].add([",".join(bases)], place)  # disjoint spans: one text each
            classes[name]["members"].add(release.members[name], place)
    made["requires"] = requires.lists()
    made["names"] = {module: names[module].words() for module in sorted(names)}
    made["calls"] = {}
    for name in sorted(calls):
        parts = calls[name]
        entry = {"mode": parts["mode"].words(), "takes": parts["takes"].pairs()}
        for what in ("deprecated", "idle"):
            if parts[what].places:
                entry[what] = parts[what].words()
        made["calls"][name] = entry
    made["classes"] = {
        name: {"bases": parts["bases"].words(), "members": parts["members"].words()}
        for name, parts in sorted(classes.items())
    }
    return made


def read_all(library: str, folder: Path) -> list[Release]:
    """Every release of a library whose wheel is in a folder, oldest first. ValueError when none is."""
    found = sorted(folder.glob(f"{library}-*.whl"), key=lambda path: key(path.name.split("-")[1]))
    if not found:
        raise ValueError(f"{folder}: no wheel of {library} in it; `pip download --no-deps -d {folder} {library}==...`")
    cache: dict[tuple[str, int], Any] = {}
    releases = []
    for path in found:
        releases.append(read_wheel(path, cache))
        seen = len(releases)
        if seen % 10 == 0 and sys.stderr.isatty():
            print(f"{library}: {seen} of {len(found)}", file=sys.stderr)
    return releases


def write(library: str, folder: Path, target: Path) -> Path:
    """Write `target/LIBRARY.json` and give its path."""
    path = target / f"{library}.json"
    made = json.dumps(history(read_all(library, folder)), separators=(",", ":"), ensure_ascii=False)
    path.write_text(made.replace('},"', '},\n"') + "\n", "utf-8")  # lines: a new release makes a readable diff
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=LIBRARIES, action="append", help="which; all where unset")
    parser.add_argument("--wheels", type=Path, required=True, help="the folder with the releases' wheels")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write (this package)")
    given = parser.parse_args()
    for library in given.library or LIBRARIES:
        try:
            path = write(library, given.wheels, given.out)
        except (OSError, ValueError) as error:
            print(error, file=sys.stderr)
            return 2
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
