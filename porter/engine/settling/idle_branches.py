"""Branches of which rules left nothing: `elif torch.cuda.is_available(): pass`, `else: pass`, and all of an `if`.

Where the GPU run took such a branch, what stands behind it in the chain never ran, and goes along.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ...source.conditions import left_on_gpu
from ...source.held_answers import asks_for_gpu
from ...source.scopes import inside
from ...text.edits import comments_above, whole_lines
from ..script.porting import Porting
from ..steps.step import Phase, step
from .kept_branch import OTHER_BRANCH

RULE = "TP001"
REASON = "nothing is left in the block"
PASS = "pass"  # what a rule leaves of a block's only statement
# Calls that only ask something.
ASKS = re.compile(r"(?:is|has)(?:_?\w+)?|get\w*|len|bool|exists|lower|startswith")
Branch = tuple[cst.BaseExpression | None, cst.BaseSuite, cst.CSTNode]  # its condition, its block, what begins with it


@step(Phase.SETTLE, reads=("branches",), fills=("functions",))
def drop_idle_branches(porting: Porting) -> None:
    """The last branches of an `if`, as far as they do nothing and their conditions only ask."""
    module = porting.module
    for holder in reversed([node for node in module.parents if isinstance(node, cst.If)]):
        parent = module.parents[holder]
        if isinstance(parent, cst.If) and parent.orelse is holder:
            continue
        branches = [*_branches(holder)]
        asks = any(test is not None and asks_for_gpu(module, test) for test, _, _ in branches)
        idle = [_is_idle(porting, block, own_pass=asks) for _, block, _ in branches]
        if not any(idle) or porting.is_gone(holder):
            continue
        kept = next((place for place, idles in enumerate(idle) if idles and _was_taken(porting, branches, place)), None)
        kept = len(branches) if kept is None else kept
        while kept and idle[kept - 1]:
            kept -= 1
        asked = [test for test, _, _ in branches[kept:] if test is not None]
        if kept < len(branches) and all(_only_asks(porting, test) for test in asked):
            blocks = [block for _, block, _ in branches[kept:]]
            answered = any(edit.part for block in blocks for edit in porting.within(block))
            if not answered and not _trains(porting, blocks) and not _went(porting, branches[kept][2]):
                _drop(porting, holder, branches[kept][2] if kept else holder)


def _went(porting: Porting, branch: cst.CSTNode) -> bool:
    """Whether a branch went as another is the one that runs: by that edit, its keywords are known to go with it."""
    start = porting.module.span(branch)[0]
    return any(edit.part == OTHER_BRANCH and edit.start <= start < edit.end for edit in porting.edits)


def _trains(porting: Porting, blocks: list[cst.BaseSuite]) -> bool:
    """Whether a trainer is made in one of some blocks: that another branch's is meant is told of such a one."""
    spans = [porting.module.span(block) for block in blocks]
    return any(site.role == "trainer" and start <= site.start < end for site in porting.sites for start, end in spans)


def _branches(node: cst.If) -> Iterator[Branch]:
    yield node.test, node.body, node
    if isinstance(node.orelse, cst.If):
        yield from _branches(node.orelse)
    elif node.orelse is not None:
        yield None, node.orelse.body, node.orelse


def _is_idle(porting: Porting, block: cst.BaseSuite, *, own_pass: bool) -> bool:
    """Whether edits took all of a block, or left a `pass` of it; `own_pass`: one of the script's own counts, too."""
    lines = block.body if isinstance(block, cst.IndentedBlock) else ()
    changed = [line for line in lines if not _says_pass(line)]
    return (bool(changed) or (own_pass and bool(lines))) and all(
        porting.is_gone(line, leaves=("", PASS)) for line in changed
    )


def _says_pass(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and all(isinstance(small, cst.Pass) for small in line.body)


def _was_taken(porting: Porting, branches: list[Branch], place: int) -> bool:
    """Whether the GPU run took a branch for certain, so that it came to none behind it."""
    test = branches[place][0]
    if test is None or porting.covered(porting.module.span(test)[0]):
        return False
    return left_on_gpu(porting.module, test) is True


def _only_asks(porting: Porting, test: cst.BaseExpression) -> bool:
    """Whether a condition does nothing but answer."""
    calls = [node.func for node in inside(test) if isinstance(node, cst.Call)]
    names = [func.attr.value if isinstance(func, cst.Attribute) else porting.module.code(func) for func in calls]
    return all(ASKS.fullmatch(name) for name in names) and not any(isinstance(n, cst.NamedExpr) for n in inside(test))


def _drop(porting: Porting, holder: cst.If, first: cst.CSTNode) -> None:
    """Take out the branches from one on, the whole `if` where that is its first."""
    if first is holder:
        porting.remove_statement(holder, RULE, REASON)
        return
    module = porting.module
    start, end = module.span(first)[0], module.span(holder)[1]
    begin, stop = whole_lines(module.text, start, end)
    porting.edit(comments_above(module.text, begin), stop, "", RULE, REASON)
