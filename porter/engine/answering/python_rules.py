"""A pack's Python rule at a call: what it may change, and what becomes of its mistakes.

A rule that raises, or that edits beyond the statement it was called for, changes nothing: a finding names the rule, its
file and line, and the script is ported without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import copy

import libcst as cst

from ...safety.limits import frames_of
from ...text.edits import whole_lines
from ..packs.packs import Rewrite, SiteRule
from ..script.porting import Names, Porting
from ..script.sites import read_site

DRAFT = (list, dict, set, Names)  # what a rule may change in place


class BeyondClaim(Exception):
    """A rule's edit outside of the statement that holds its call."""


def in_turn(porting: Porting, rule: SiteRule | Rewrite, match: str) -> Iterator[SiteRule | Rewrite]:
    """The rule, then the one that it stands for, and so on: each may leave a call to the next."""
    yield rule
    for pack in porting.packs:
        for other in pack.answering:
            if other.id in rule.instead_of and match in other.matches and porting.options.active(other.id):
                yield from in_turn(porting, other, match)
                return


def answer(porting: Porting, rule: SiteRule, call: cst.Call, role: str, name: str, match: str) -> bool:
    """Let a rule answer a call that its `match` is; the rule's site is called `name`. False when it is not the rule's.

    Mistakes of built-in rules are raised, those of others are found.
    """
    site = read_site(porting.module, call, role, rule.id, name, rule.positional.get(match, ()))
    before = {name: copy(value) if isinstance(value, DRAFT) else value for name, value in vars(porting).items()}
    count = len(porting.edits)
    try:
        answered = rule.apply(site, porting) is not porting.NOT_MINE
        _check_claim(porting, call, count)
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        if rule.built_in or os.environ.get("TPU_PORT_TRACEBACK"):
            raise
        vars(porting).update(before)
        frames = [frame for frame in frames_of(error.__traceback__) if frame.f_code.co_filename == str(rule.path)]
        place = f"{rule.path}:{frames[0].f_lineno}" if frames else str(rule.path)
        what = str(error) if isinstance(error, BeyondClaim) else f"{type(error).__name__}: {error}"
        message = f"Rule {rule.id} made a mistake here ({place}: {what}): the line stays as it is."
        fix = f"Mend the rule, or leave it out with --ignore {rule.id}."
        porting.find(rule.id, "error", message, fix, site.line, site.column)
        return True
    return answered


def _check_claim(porting: Porting, call: cst.Call, count: int) -> None:
    """BeyondClaim where one of the edits from `count` on lies outside of the lines of the call's statement.

    An edit may take the blocks along that the statement is all of.
    """
    module = porting.module
    start, end = whole_lines(module.text, *module.span(module.statement(call)))
    for edit in porting.edits[count:]:
        inside = start <= edit.start and edit.end <= end
        around = edit.start <= start and end <= edit.end and not edit.new.strip()
        if not inside and not around:
            line = module.line_column(edit.start)[0]
            raise BeyondClaim(f"it edits line {line}, outside of the statement of its call")
