"""Where the suite's processor time goes: seconds of each file and of the slowest tests.

    .venv/bin/python bench/durations.py [-m "not long"] [tests/engine ...]

Runs pytest in one process. Of each test: user and system seconds of its own, of the processes that it waited for, and
of the interpreters that `validate` forks from, with what they forked. Seconds on a clock tell little on cores that are
shared.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from porter.validate.preloading import client

FILES, TESTS = 40, 40  # that are shown


def spent() -> float:
    """Processor seconds of this process, of its children that ended, and of the interpreters that it forks from."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + sum(map(forking, client.running()))


def forking(pid: int) -> float:
    """Processor seconds of a child that hasn't ended, and of its own that have."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class Durations:
    """A plugin of pytest that measures."""

    def __init__(self) -> None:
        self.tests: dict[str, float] = {}
        self.collection = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Iterator[None]:
        begin = spent()
        try:
            return (yield)
        finally:
            self.collection = spent() - begin

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begin = spent()
        try:
            return (yield)
        finally:
            self.tests[item.nodeid] = spent() - begin

    def lines(self) -> Iterator[str]:
        files: dict[str, list[float]] = defaultdict(list)
        for name, seconds in self.tests.items():
            files[name.partition("::")[0]].append(seconds)
        yield f"{sum(self.tests.values()):8.1f} s in {len(self.tests)} tests, {self.collection:.1f} s to collect them"
        for name, each in sorted(files.items(), key=lambda one: -sum(one[1]))[:FILES]:
            yield f"{sum(each):8.1f} s {name} ({len(each)} tests)"
        for name, seconds in sorted(self.tests.items(), key=lambda one: -one[1])[:TESTS]:
            yield f"{seconds:8.1f} s {name}"


def main(arguments: list[str]) -> int:
    durations = Durations()
    status = pytest.main(["-q", "-p", "no:cacheprovider", *(arguments or ["-m", "not long"])], plugins=[durations])
    client.stop()  # what it forked is counted with it
    print("\n".join(durations.lines()))
    print(f"{spent():8.1f} s of processor time in all")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
