"""Which rule answers a name: one, whatever order packs are loaded in.

Two rules that match the same name, or two tables of the same class, are refused unless one says `instead_of` with the
other's id. A Python rule may still leave a call to the one that it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ...errors import InputError

MATCH = re.compile(r"@?[^\W\d]\w*(?:\(\))?(?:\.[^\W\d]\w*(?:\(\))?)*=?")


class Claimant(Protocol):
    """What a rule says of itself: its id, its file, what it answers, and whose names it takes over."""

    @property
    def id(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def line(self) -> int: ...
    @property
    def claims(self) -> tuple[str, ...]: ...
    @property
    def instead_of(self) -> tuple[str, ...]: ...


def check_match(match: object, path: Path, line: int = 0, *, python: bool = False, reads: bool = False) -> str:
    """A match as a pack writes it. InputError for what can match nothing, or, of a `python` rule, no call or name;
    a rule that only `reads` has no trainer yet.
    """
    if not isinstance(match, str) or MATCH.fullmatch(match) is None:
        fix = "write a resolved name, `our_library.notify()`, or a use of a variable, `@trainer.log()`"
        raise InputError(f"matches {match!r}, which is no name", path, line or None, fix=fix)
    if python and (match.endswith("=") or (match.startswith("@") and not match.endswith("()"))):
        fix = "end it with `()`, or write a rewrite for reads and assignments"
        raise InputError(f"matches {match!r}: a Python rule answers calls", path, line or None, fix=fix)
    if reads and (match.startswith("@") or not match.endswith("()")):
        fix = "name a call of your library, `our_library.configure()`"
        raise InputError(f"matches {match!r}, which is not there when the script is read", path, line or None, fix=fix)
    return match


def check_claims(rules: Sequence[tuple[str, Claimant]]) -> None:
    """`rules` are pairs of a pack's name and a rule.

    InputError where two answer one name and neither, or each, says that it stands for the other; and for an
    `instead_of` that is no rule's id.
    """
    _check_ids(rules)
    owners: dict[str, tuple[str, Claimant]] = {}
    for pack, rule in rules:
        for name in rule.claims:
            owner, other = owners.setdefault(name, (pack, rule))
            if other is rule:
                continue
            first, second = rule.id in other.instead_of, other.id in rule.instead_of
            if first == second:
                said = "each stand for the other" if first else "answer it"
                both = f"{other.id} of pack {owner} and {rule.id} of pack {pack}"
                fix = f'say instead_of = ["{rule.id}"] in the one that is to answer'
                raise InputError(f"{name}: {both} both {said}", other.path, other.line or None, fix=fix)
            if second:
                owners[name] = pack, rule


def _check_ids(rules: Sequence[tuple[str, Claimant]]) -> None:
    known = {rule.id for _, rule in rules}
    for pack, rule in rules:
        for name in rule.instead_of:
            if name not in known:
                fix = "`tpu-port rules list` names them all"
                said = f"rule {rule.id} of pack {pack} stands for {name}, which is no rule"
                raise InputError(said, rule.path, rule.line or None, fix=fix)
