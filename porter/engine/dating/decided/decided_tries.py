"""A `try` of which the release decides whether its trainer or config is a TypeError.

try:
    trainer = SFTTrainer(model, args=args, train_dataset=rows, tokenizer=tokenizer)  # TRL 0.16: a TypeError
except TypeError:
    trainer = SFTTrainer(model, args=args, train_dataset=rows, processing_class=tokenizer)

Such a script is written for several releases; one of them decides everything in the port: what is refused is not tried
there, and what is taken needs no `except`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import libcst as cst

from ....releases.history import LIBRARIES, history
from ....source.module import Module
from ...script.dead_blocks import DECIDED_TRIES
from ...script.fill_from_tables import plain_version
from ...script.porting import Porting
from ...script.sites import Site, facts_of
from ...script.training import Training
from ...settling.kept_branch import keep_block
from ...steps.step import Phase, step

CATCHES = frozenset({"TypeError", "Exception", "BaseException"})
MAKES = ("trainer", "arguments")
RULE = "TP008"
REFUSED = "the release that the script is read as refuses what is tried: a TypeError"
TAKEN = "the release that the script is read as takes what is tried"


def decided_tries(porting: Training) -> dict[cst.Try, bool]:
    """The `try` statements whose lines a release decides: whether it takes them, or goes on in the `except`."""
    module, found = porting.module, {}
    rewritten = not module.roots.isdisjoint(facts_of(module).rewrites_trainers)  # which take what older releases took
    if "except" not in module.text or rewritten:
        return {}
    for site in porting.sites:
        line = module.statement(site.node)
        block = module.parents.get(line)
        holder = module.parents.get(block) if block is not None else None
        if site.role not in MAKES or not isinstance(block, cst.IndentedBlock) or not isinstance(holder, cst.Try):
            continue
        if block is not holder.body or line is not block.body[0] or not _goes_on(module, holder, porting.sites):
            continue
        if _is_refused(site, porting.versions):
            found[holder] = False
        elif len(block.body) == 1 and _is_taken(module, holder, site, porting):
            found[holder] = True
    return found


def _goes_on(module: Module, holder: cst.Try, sites: Collection[Site]) -> bool:
    """Whether there is one handler, which catches a TypeError, doesn't look at it and makes a trainer or config."""
    if len(holder.handlers) != 1 or holder.orelse is not None or holder.finalbody is not None:
        return False
    handler = holder.handlers[0]
    caught = module.code(handler.type) if handler.type is not None else "Exception"
    if not CATCHES & set(re.findall(r"\w+", caught)) or handler.name is not None:
        return False
    return any(site.role in MAKES and handler in module.ancestors(site.node) for site in sites)


def _is_refused(site: Site, versions: Mapping[str, str]) -> bool:
    """Whether a class doesn't take a keyword of its call in the release that the script is read as."""
    taken = _taken(site, versions)
    return taken is not None and not all(taken)


def _is_taken(module: Module, holder: cst.Try, site: Site, porting: Training) -> bool:
    """Whether a class takes all of its call, and the `except` is about a TypeError alone: the same class again."""
    handler = holder.handlers[0]
    others = [one for one in porting.sites if one.role in MAKES and handler in module.ancestors(one.node)]
    starred = isinstance(site.node, cst.Call) and any(given.star for given in site.node.args)
    if handler.type is None or module.code(handler.type) != "TypeError" or starred:
        return False
    return all(one.qualified == site.qualified for one in others) and bool(_taken(site, porting.versions))


def _taken(site: Site, versions: Mapping[str, str]) -> list[bool] | None:
    """Of each keyword of a call, whether the class takes it in that release; None where nothing is recorded."""
    library, name = site.qualified.partition(".")[0], site.qualified.rpartition(".")[2]
    if library not in LIBRARIES or library not in versions or name not in history().record(library).data["calls"]:
        return None
    others = {one: plain_version(said) for one, said in versions.items() if one in LIBRARIES}
    version = others.pop(library)
    named = [given.name for given in site.arguments if given.name.isidentifier()]
    return [history().takes(library, version, name, keyword, **others) for keyword in named]


@step(Phase.ANSWER, fills=("claimed names",))
def settle_decided_tries(porting: Porting) -> None:
    """What the `except` does stays, without the `try` in front of it; or what is tried, without its `except`."""
    module = porting.module
    decided: Mapping[cst.Try, bool] = module.memory.get(DECIDED_TRIES, {})
    for holder, taken in decided.items():
        handler = holder.handlers[0]
        if taken:
            keep_block(porting, holder, holder.body, module.span(holder)[0] + len("try"), RULE, TAKEN)
            continue
        end = module.span(handler.type)[1] if handler.type is not None else module.span(handler)[0] + len("except")
        keep_block(porting, holder, handler.body, end, RULE, REFUSED)
        message = "What is tried here is a TypeError in the release that the script is read as: the port does what "
        message += "`except` does."
        fix = "Name the release that the script ran with by --source-trl, if it was another one."
        porting.find(RULE, "info", message, fix, *module.location(holder))
