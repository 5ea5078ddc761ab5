"""Fuzzes in pieces and counts: `python bench/fuzz.py [--examples 20000] [--piece 1000] [--minutes 60] [TEST ...]`.

Each piece is a process of its own, draws anew and says how many examples it made, of which tests, and whether one
failed; hypothesis keeps what failed (`.hypothesis`) and tries it first the next time. Exits with 1 after a finding.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    "tests/test_fuzz.py",
    "tests/test_fuzz_files.py",
    "tests/compare/test_hostile.py",
    "tests/export/test_hostile.py",
)
WORDS = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--hypothesis-show-statistics")
MADE = re.compile(r"^tests/\S+::(?P<test>\w+)|^ +- (?P<passing>\d+) passing, (?P<failing>\d+) failing", re.MULTILINE)
SUMMARY = re.compile(r"^(?:FAILED|ERROR) .*", re.MULTILINE)


def examples_of(said: str) -> Counter[str]:
    """The examples that pytest's output tells of, by test; those that the draw itself refused aren't counted."""
    found: Counter[str] = Counter()
    test = ""
    for match in MADE.finditer(said):
        test = match["test"] or test
        if not match["test"]:
            found[test] += int(match["passing"]) + int(match["failing"])
    return found


def piece(tests: list[str], examples: int, seconds: float) -> tuple[Counter[str], str]:
    """One process: its examples by test, and its output where something failed or didn't end."""
    environment = {**os.environ, "TPU_PORT_FUZZ": str(examples)}
    words = [sys.executable, "-m", "pytest", *WORDS, *tests]
    try:
        done = subprocess.run(
            words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=seconds, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return Counter(), f"FAILED not done after {seconds:g} s\n{error.output or ''}"
    return examples_of(done.stdout), done.stdout if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("tests", nargs="*", default=[*TESTS], metavar="TEST")
    parser.add_argument("--examples", type=int, default=20_000, help="of the test that makes most")
    parser.add_argument("--piece", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--longest", type=float, default=3600, help="seconds of a piece")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    found = 0
    end = time.monotonic() + given.minutes * 60
    while max(total.values(), default=0) < given.examples and time.monotonic() < end:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        started = time.monotonic()
        made, said = piece(given.tests, min(given.piece, given.examples), given.longest)
        total += made
        failed = SUMMARY.findall(said)
        found += len(failed)
        print(
            f"{time.strftime('%H:%M:%S')} {commit.stdout.strip()} {made.total()} examples in "
            f"{time.monotonic() - started:.0f} s, {len(failed)} failed; {total.total()} in all, {found} failed",
            *failed,
            *([said] if said else []),
            sep="\n  ",
            flush=True,
        )
        if said and not made:
            break
    for test, count in sorted(total.items()):
        print(f"{count:8} {test}")
    print(f"{total.total():8} examples in all, {found} failed")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
