"""How well scripts are dated: the releases that their projects state, hidden, against what the rest says.

    python bench/dating.py LIST [LIST ...] [--hide KIND ...] [--library NAME] [--results FILE]

LIST is a file of paths, relative to its folder, one a line: scripts and notebooks in repositories as they were cloned
(without `.git` nothing is dated by commits). Where something states exactly which TRL or transformers it was (`ran`: a
notebook's outputs; `left`: model cards and other files of runs; `script`: its own pins; `lock`, `file`, `command`: what
its project pins), every place that does so is taken away, or those of the KINDs alone, and the script is ported once.
`day` takes the days of commits away; with `--library transformers` what is said of TRL stays.

A row counts the scripts that were dated by one kind of evidence. Of these the release that was read is

    same      the one that was stated
    alike     another, of which tpu-port knows nothing that this script would train otherwise
    warned    another that trains otherwise, and the warning's releases have the stated one
    beyond    another that trains otherwise, and the warning names other releases alone
    silent    another that trains otherwise, and no warning

What a project states isn't always what it ran: `--results` has a JSON line for each, to look at.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from porter.engine.dating.asked import places as dating
from porter.engine.dating.evidence.used import SOURCES, contradictions
from porter.engine.dating.told import differences, other_releases
from porter.engine.script.porting import Porting
from porter.engine.script.sites import Site, facts_of
from porter.errors import InputError
from porter.front.port_file import port_file
from porter.releases.history import history
from porter.releases.versions import exact_of
from porter.source.project import commits
from porter.source.project.pins import SCRIPT, Asked, asked_of_project
from porter.source.project.release_files import COMMANDS

KINDS = ("ran", "left", "script", "lock", "file", "command")  # the surest first
DAY = "day"
EVERY_TRAINER = SimpleNamespace(rewrites_trainers=())  # also those of which tpu-port tells no other releases
OUTCOMES = ("same", "alike", "warned", "beyond", "silent")
LOCKED = re.compile(r"\.lock$|conda-lock")
# What the reason of a release begins with, or has in it, and how a row of the table calls it.
EVIDENCE = (
    (r"^newest table", "nothing"),
    (r"ran on:", "other notebooks"),
    (r"when the script was last committed$", "day of the last commit"),
    (r"^the first release with", "the first with what it uses"),
    (r"of the day of", "the other library's day"),
    (r"newest release of the day of", "the other library's day"),
    (r"the newest release with", "what later releases lost"),
    (r"newest release beside|first release beside", "the library that it's installed beside"),
    (r" beside ", "pins of what it needs"),
    (r"asks for", "a lower bound"),
    (r"^what \w+ printed:", "lines that some releases print"),
    (r":", "a range, or another statement"),
)


@dataclass(frozen=True)
class Judged:
    """What a script was dated to for one library, beside what was stated."""

    script: str
    library: str
    stated: str
    where: str
    kind: str
    read: str
    why: str
    evidence: str
    outcome: str
    warned: str = ""
    differs: str = ""
    against: str = ""


class Hidden:
    """Takes statements of releases away while scripts are ported, and judges what is read without them."""

    def __init__(self, kinds: Collection[str], libraries: Sequence[str]) -> None:
        self.kinds, self.libraries = kinds, libraries
        self.stated: dict[str, list[Asked]] = {}
        self.judged: list[Judged] = []
        self.script = ""

    def start(self, script: Path) -> None:
        self.script, self.stated = str(script), {}

    def asked_of_project(self, script: Path, text: str, library: str, *more: Any) -> Iterator[Asked]:
        """What is asked for, without the places that state a release of these libraries."""
        for each in self.libraries:
            if each not in self.stated:
                asks = asked_of_project(script, text, each, *more)
                self.stated[each] = [ask for ask in asks if exact_of(ask.pins) and kind_of(ask) in self.kinds]
        places = {ask.where for asks in self.stated.values() for ask in asks}
        stays = library in SOURCES and library not in self.libraries
        yield from (ask for ask in asked_of_project(script, text, library, *more) if stays or ask.where not in places)

    def differences_in(self, porting: Porting, site: Site, library: str) -> str:
        """The warning; what is read is judged beside it. None where another library writes the trainers anew."""
        rewritten = not porting.module.roots.isdisjoint(facts_of(porting.module).rewrites_trainers)
        said = tell_differences(porting, site, library) if not rewritten else ""
        stated = [ask for ask in self.stated.get(library, []) if not ask.against]
        known = history().releases(library)
        if stated and exact_of(stated[0].pins) in known:
            self.judged.append(self.judge(porting, site, library, min(stated, key=rank), said))
        return said

    def judge(self, porting: Porting, site: Site, library: str, stated: Asked, said: str) -> Judged:
        release = exact_of(stated.pins) or ""
        read, _, why = porting.versions.get(library, "").partition(" ")
        fitting = other_releases.releases_that_fit(porting, library) if said else []
        known = history().releases(library)
        at = other_releases._read_among(known, read)
        differs = differences.trained_otherwise(porting, site, library, [at or known[-1], release], 0)
        if release == at:
            outcome = "same"
        elif not differs:
            outcome = "alike"
        elif not said:
            outcome = "silent"
        else:
            outcome = "warned" if release in fitting else "beyond"
        why = why[1:-1]
        evidence = next((name for pattern, name in EVIDENCE if re.search(pattern, why)), "else")
        warned = f"{fitting[0]} to {fitting[-1]}" if fitting else ""
        row = (stated.where, kind_of(stated), read, why, evidence, outcome, warned, differs)
        against = ", ".join(contradictions(porting, library, release))
        return Judged(self.script, library, release, *row, against)


def kind_of(asked: Asked) -> str:
    if asked.left:
        return "left"
    if asked.shown:
        return "ran"
    if asked.where == SCRIPT:
        return "script"
    if LOCKED.search(asked.where):
        return "lock"
    return "command" if COMMANDS.search(asked.where) else "file"


def rank(asked: Asked) -> int:
    return KINDS.index(kind_of(asked))


def tell_every(some: int, scripts: Sequence[Path]) -> Iterator[Path]:
    """The scripts, with a line on stderr after so many."""
    start = time.monotonic()
    for number, script in enumerate(scripts, 1):
        yield script
        if number % some == 0:
            print(f"{number} of {len(scripts)}, {time.monotonic() - start:.0f} s", file=sys.stderr)


def table(rows: Sequence[Judged]) -> list[str]:
    """A row for each library and kind of evidence, the most scripts first."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        counts.setdefault((row.library, row.evidence), Counter())[row.outcome] += 1
    order = sorted(counts.items(), key=lambda each: (each[0][0] != SOURCES[0], -each[1].total()))
    lines = [f"{'':13}{'dated by':40}{'scripts':>8}" + "".join(f"{each:>8}" for each in OUTCOMES)]
    for library in SOURCES:
        own = [(evidence, count) for (each, evidence), count in order if each == library]
        for evidence, count in [*own, ("all", sum((count for _, count in own), Counter[str]()))]:
            numbers = "".join(f"{count[each]:8}" for each in OUTCOMES)
            lines.append(f"{library:13}{evidence:40}{count.total():8}{numbers}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lists", type=Path, nargs="+", metavar="LIST")
    parser.add_argument("--hide", nargs="+", choices=[*KINDS, DAY], default=[*KINDS], metavar="KIND")
    parser.add_argument("--library", choices=SOURCES, help="what is said of the other one stays")
    parser.add_argument("--results", type=Path, help="a JSON line for each library of a script")
    arguments = parser.parse_args()
    kinds = [each for each in arguments.hide if each != DAY] or [*KINDS]
    hidden = Hidden(kinds, [arguments.library] if arguments.library else SOURCES)
    scripts = [
        (file.parent / line.strip()).absolute()
        for file in arguments.lists
        for line in file.read_text("utf-8").splitlines()
        if line.strip()
    ]
    with ExitStack() as replaced:
        replaced.enter_context(patch.object(dating, "asked_of_project", hidden.asked_of_project))
        replaced.enter_context(patch.object(other_releases, "_differences_in", hidden.differences_in))
        replaced.enter_context(patch.object(other_releases, "facts_of", lambda _: EVERY_TRAINER))
        if DAY in arguments.hide:
            replaced.enter_context(patch.object(commits, "_ask", lambda *_: None))
        for script in tell_every(50, scripts):
            hidden.start(script)
            try:
                port_file(script)
            except (InputError, OSError) as error:
                print(f"{script}: {error}", file=sys.stderr)
    rows = list({(row.script, row.library): row for row in hidden.judged}.values())
    if arguments.results:
        lines = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
        arguments.results.write_text("".join(lines), "utf-8")
    print("\n".join(table(rows)))


tell_differences = other_releases._differences_in
if __name__ == "__main__":
    main()
