"""Conditions that ask an installed release what it takes: answered as the release that the script is read as.

    if "tokenizer" in inspect.signature(SFTTrainer.__init__).parameters:
        kwargs["tokenizer"] = tokenizer
    else:
        kwargs["processing_class"] = tokenizer

Such a script is written for several releases; one of them decides everything in the port. The TPU machine has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import libcst as cst

from ....source.conditions import is_elif, simplified
from ....source.dictionaries.filled import KEPT
from ....source.module import Module
from ....source.values import DECIDED
from ...packs.facts import note_facts
from ...script.dead_blocks import DECIDED_TRIES
from ...script.fill_from_tables import trainer_libraries
from ...script.porting import Porting
from ...script.sites import absent_packages, facts_of
from ...script.training import Training
from ...settling.decisions import decide
from ...settling.kept_branch import keep_block
from ...steps.step import Phase, step
from .decided_tries import decided_tries
from .taken_keywords import asked_class, kept_by_release, takes
from .version_tests import version_tests

ASKS = re.compile(r"\bsignature\(|\bgetfullargspec\(|__dataclass_fields__|\bfields\(|co_varnames|\bhasattr\(")


RULE = "TP008"
REASON = "answered as the release that the script is read as"


def answer_release_tests(porting: Training) -> bool:
    """Note what every such condition answers, and what of which `try` runs; whether there is one."""
    module = porting.module
    if not porting.versions:
        return False
    tries = decided_tries(porting)
    found = dict(_answers(module, porting.versions)) if ASKS.search(module.text) is not None else {}
    kept = dict(kept_by_release(module, porting.versions)) if ASKS.search(module.text) is not None else {}
    gone = trainer_libraries(porting.packs) & absent_packages(module)
    found |= dict(version_tests(module, porting.versions, gone))
    if found or tries or kept:
        facts = facts_of(module)
        module.memory.clear()
        note_facts(module, facts)
        module.memory[DECIDED], module.memory[DECIDED_TRIES], module.memory[KEPT] = found, tries, kept
    return bool(found or tries or kept)


@step(Phase.ANSWER, fills=("claimed names",))
def settle_release_tests(porting: Porting) -> None:
    """The branches that the release takes are kept; what only asked for its parameters goes."""
    module = porting.module
    answers: Mapping[cst.BaseExpression, bool] = module.memory.get(DECIDED, {})
    for branch in [branch for branch in module.parents if isinstance(branch, cst.If)] if answers else ():
        _keep_taken(porting, branch, answers)
    for node in answers:
        if not porting.covered(module.span(node)[0]):
            decide(porting, node, answers.get, RULE, REASON)
    for node in answers:
        if isinstance(node, cst.Comparison):
            _drop_unread(porting, node.comparisons[0].comparator)
    for node in module.memory.get(KEPT, ()):
        if not _is_read_no_more(porting, node):
            continue
        porting.remove_statement(node, RULE, REASON)
        test = node.for_in.ifs[0].test if isinstance(node, cst.DictComp) else None
        _drop_unread(porting, test.comparisons[0].comparator if isinstance(test, cst.Comparison) else None)


def _is_read_no_more(porting: Porting, node: cst.BaseExpression) -> bool:
    """Whether nothing of the port reads what `kwargs = {k: v for k, v in kwargs.items() if k in accepted}` leaves."""
    module, assign = porting.module, porting.module.parents[node]
    target = assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
    start, end = module.span(node)
    if not isinstance(target, cst.Name) or porting.covered(start) or module.loops(node):
        return False
    behind = [use for use in module.references(target.value, module.scope(node)) if module.span(use)[0] >= end]
    own = module.code(module.memory[KEPT][node][0]) == target.value  # the one that is filtered stays
    read = not own and target.value in {name.partition(".")[0] for name in porting.written_names()}
    return bool(behind) and not read and all(porting.covered(module.span(use)[0]) for use in behind)


def _keep_taken(porting: Porting, holder: cst.If, answers: Mapping[cst.BaseExpression, bool]) -> None:
    """Of `if "a" in taken: ... elif "b" in taken: ... else: ...` the block that runs."""
    module = porting.module
    if is_elif(module, holder):
        return
    branch: cst.If | cst.Else | None = holder
    while isinstance(branch, cst.If):
        answer = simplified(module, branch.test, answers.get)
        if not isinstance(answer, bool):
            return
        if answer:
            break
        branch = branch.orelse
    if branch is holder or branch is None:
        return  # `decide` keeps the first block, or takes the statement out
    head = module.span(branch.test)[1] if isinstance(branch, cst.If) else module.span(branch)[0] + len("else")
    keep_block(porting, holder, branch.body, head, RULE, REASON)


def _drop_unread(porting: Porting, asked: cst.BaseExpression | None) -> None:
    """`parameters = inspect.signature(SFTTrainer.__init__).parameters`, which nothing reads any more."""
    module = porting.module
    while asked is not None:
        binding = module.single_binding(asked) if isinstance(asked, cst.Name) else None
        if isinstance(asked, cst.Name) and binding is not None and binding.value is not None:
            uses = module.references(asked.value, module.scope(binding.node))
            if all(porting.covered(module.span(use)[0]) for use in uses) and not porting.covered(
                module.span(binding.node)[0]
            ):
                porting.remove_statement(binding.value, RULE, REASON)
            asked = binding.value
        elif isinstance(asked, cst.Call) and asked.args:
            asked = asked.args[0].value
        elif isinstance(asked, cst.Call) and isinstance(asked.func, cst.Attribute):  # `.keys()`
            asked = asked.func.value
        else:
            asked = asked.value if isinstance(asked, cst.Attribute) else None


def _answers(module: Module, versions: Mapping[str, str]) -> Iterator[tuple[cst.BaseExpression, bool]]:
    for node in module.parents:
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            part = node.comparisons[0]
            if isinstance(part.operator, cst.In | cst.NotIn):
                taken = takes(module, versions, node.left, asked_class(module, part.comparator))
                if taken is not None:
                    yield node, taken is isinstance(part.operator, cst.In)
        elif isinstance(node, cst.Call) and module.code(node.func) == "hasattr" and len(node.args) == 2:
            name = module.qualified(node.args[0].value) or ""
            if name.rpartition(".")[2].endswith(("Config", "Arguments")):
                taken = takes(module, versions, node.args[1].value, name)
                if taken is not None:
                    yield node, taken
