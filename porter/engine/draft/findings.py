"""What is said of a script while it is ported: findings, each once and in order, by keys where they may be taken back.

Who takes a finding back, or asks whether it was made, names its key. A key is no text for people: what a field table
says of a keyword has the keyword's row for its key (`SFTConfig.packing`); other keys stand beside who finds them, or
here, where several do.
A TODO comment is a finding that `stands` in the port; its text is made from the finding at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...recipe import Finding, Severity

SERIOUS: tuple[Severity, ...] = ("error", "warning", "info")
NO_FAMILY = "no family"  # the key of what makes a port pointless: a model that Tunix has not
NO_TASK = "no task"  # ... or none for this task, and then nothing else that is said of the trainer matters


@dataclass(frozen=True)
class Said:
    """A finding, its key, and whether it stands as a comment in the port."""

    finding: Finding
    key: str = ""
    stands: bool = False


class Findings:
    """The findings of one trainer, or of a file."""

    def __init__(self, said: Iterable[Said] = ()) -> None:
        self._said = {each.finding: each for each in said}

    def add(self, finding: Finding, key: str = "", *, stands: bool = False) -> None:
        """One more finding; the same again changes nothing."""
        self._said.setdefault(finding, Said(finding, key, stands))

    def take(self, other: Findings, lines: int = 0) -> None:
        """What another one has more, its lines moved by `lines`. What stands in one of both stands."""
        for each in other._said.values():
            moved = replace(each.finding, line=each.finding.line + lines) if lines else each.finding
            kept = self._said.setdefault(moved, replace(each, finding=moved) if lines else each)
            if each.stands and not kept.stands:
                self._said[moved] = replace(kept, stands=True)

    def withdraw(self, key: str) -> None:
        """Take back what was said under a key; `.deepspeed` means that keyword of any class."""
        self._said = {finding: each for finding, each in self._said.items() if not names(key, each.key)}

    def drop(self, finding: Finding) -> None:
        """Take one finding back: its place is gone."""
        self._said.pop(finding, None)

    def lower(self, finding: Finding, lowered: Finding) -> None:
        """A finding becomes another at its place, which doesn't stand in the port."""
        said = self._said.pop(finding)
        self._said.setdefault(lowered, replace(said, finding=lowered, stands=False))

    def has(self, key: str) -> bool:
        """Whether something was said under a key."""
        return any(names(key, each.key) for each in self._said.values())

    def keep(self, key: str, before: Findings) -> None:
        """Take back all but what was said under a key, and what stood `before`."""
        known = {*before}
        self._said = {finding: each for finding, each in self._said.items() if finding in known or names(key, each.key)}

    def standing(self) -> dict[int, list[Finding]]:
        """The findings that stand in the port, by their line."""
        found: dict[int, list[Finding]] = {}
        for each in self._said.values():
            if each.stands:
                found.setdefault(each.finding.line, []).append(each.finding)
        return found

    def by_place(self) -> tuple[Finding, ...]:
        """The findings in the order of the source, whatever found them first; of one place the serious ones first."""

        def place(found: Finding) -> tuple[int, int, str, int, str]:
            return found.line, found.column, found.rule, SERIOUS.index(found.severity), found.message

        return tuple(sorted(self._said, key=place))

    def __iter__(self) -> Iterator[Finding]:
        return iter(tuple(self._said))

    def __len__(self) -> int:
        return len(self._said)

    def __copy__(self) -> Findings:
        return Findings(self._said.values())


def names(asked: str, key: str) -> bool:
    """Whether a key is what is asked for: itself, or with a dot in front the keyword of any class."""
    return bool(key) and (key == asked or (asked.startswith(".") and key.endswith(asked)))
