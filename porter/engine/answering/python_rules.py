"""A pack's Python rule at its place: what it may change, and what becomes of its mistakes.

A rule that raises, or that edits beyond the statement it was called for, changes nothing: a finding names the rule, its
file and line, and the script is ported without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import libcst as cst

from ...safety.limits import frames_of
from ...text.edits import whole_lines
from ..draft.findings import Findings
from ..packs.pack import Rewrite
from ..packs.python_rule import SiteRule
from ..receipts.marking import carry
from ..script.porting import Porting
from ..script.sites import Site, read_site
from ..script.training import Names, Training

CLAIMED = ("claimed",)  # what Python rules have answered, by node
DRAFT = (list, dict, set, Names, Findings)  # what a rule may change in place


class BeyondClaim(Exception):
    """A rule's edit outside of the statement that holds its place."""


def in_turn(porting: Porting, rule: SiteRule | Rewrite, match: str) -> Iterator[SiteRule | Rewrite]:
    """The rule, then the one that it stands for, and so on: each may leave a call to the next."""
    yield rule
    for pack in porting.packs:
        for other in pack.answering:
            if other.id in rule.instead_of and match in other.claims and porting.options.active(other.id):
                yield from in_turn(porting, other, match)
                return


def answer(porting: Porting, rule: SiteRule, node: cst.BaseExpression, role: str, name: str, match: str) -> bool:
    """Let a rule answer a call or name that its `match` is; the rule's site is called `name`. False when it is not the
    rule's.
    """
    return answer_site(porting, rule, read_site(porting.module, node, role, rule.id, name, positional(rule, match)))


def positional(rule: SiteRule, match: str) -> tuple[str, ...]:
    """The names of the positional arguments of what a rule answers."""
    return rule.positional.get(match, ())


def answer_site(porting: Porting, rule: SiteRule, site: Site) -> bool:
    """Let a rule answer its place. Mistakes of built-in rules are raised, those of others are found."""
    if rule.apply is None:
        return False
    before = snapshot(porting)
    count, known = len(porting.edits), set(porting.fields)
    try:
        answered = rule.apply(site, porting) is not porting.NOT_MINE
        _check_claim(porting, site, count)
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        if rule.built_in or os.environ.get("TPU_PORT_TRACEBACK"):
            raise
        restored(porting, before)
        begins = rule.apply.__code__.co_firstlineno if hasattr(rule.apply, "__code__") else rule.line
        message = f"{mistake(rule, error, begins)}: the line stays as it is."
        porting.find(rule.id, "error", message, mended(rule), site.line, site.column)
        return True
    carry(porting, count, [row for row in porting.fields if row not in known])
    if answered:
        porting.answers.setdefault(CLAIMED, {})[site.node] = rule
    return answered


def snapshot(porting: Training) -> dict[str, Any]:
    """What a rule may change in place, as it is now."""
    return {name: copy(value) if isinstance(value, DRAFT) else value for name, value in vars(porting).items()}


def restored(porting: Training, before: Mapping[str, Any]) -> None:
    """Take back what a rule changed since `before`."""
    vars(porting).update(before)


def is_claimed(porting: Porting, rule: SiteRule | Rewrite, node: cst.CSTNode) -> bool:
    """Whether another pack's rule, by another kind of match, has answered this very place: a finding says so."""
    other = porting.answers.get(CLAIMED, {}).get(node)
    if other is None or other is rule or rule.id in other.instead_of:
        return False
    line, column = porting.module.location(node)
    both = f"{other.id} of pack {other.pack} ({other.path}:{other.line}) and {rule.id} ({rule.path}:{rule.line})"
    message = f"Rules {both} both answer this place: {other.id} did."
    fix = f'Say INSTEAD_OF = ("{rule.id}",) in {other.id}, or leave one out with --ignore.'
    porting.find(rule.id, "error", message, fix, line, column)
    return True


def mistake(rule: SiteRule, error: Exception, begins: int) -> str:
    """`Rule ACME1 of pack acme made a mistake here (acme/report.py:12: ValueError: no level)`; `begins`: the line of
    its function, for a mistake that no line of it raised."""
    frames = [frame for frame in frames_of(error.__traceback__) if frame.f_code.co_filename == str(rule.path)]
    place = f"{rule.path}:{frames[0].f_lineno if frames else begins}"
    what = str(error) if isinstance(error, BeyondClaim) else f"{type(error).__name__}: {error}"
    return f"Rule {rule.id} of pack {rule.pack} made a mistake here ({place}: {what})"


def mended(rule: SiteRule) -> str:
    return f"Mend the rule, or leave it out with --ignore {rule.id}."


def _check_claim(porting: Porting, site: Site, count: int) -> None:
    """BeyondClaim where one of the edits from `count` on lies outside of the lines of the site's statement.

    An edit may take the blocks along that the statement is all of.
    """
    module = porting.module
    start, end = module.span(module.statement(site.node))
    start, end = whole_lines(module.text, min(start, site.start), end)
    for edit in porting.edits[count:]:
        inside = start <= edit.start and edit.end <= end
        around = edit.start <= start and end <= edit.end and edit.removes
        if not inside and not around:
            line = module.line_column(edit.start)[0]
            raise BeyondClaim(f"it edits line {line}, outside of the statement that it answers")
