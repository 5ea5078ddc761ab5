"""A `try` whose trainer or config the release refuses: what its `except` does is what the source did.

try:
    trainer = SFTTrainer(model, max_seq_length=512, tokenizer=tokenizer)  # TRL 0.16: a TypeError
except TypeError:
    trainer = Trainer(model, train_dataset=tokenized)

Such a script is written for several releases; one of them decides everything in the port.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import libcst as cst

from ...releases.history import LIBRARIES, history
from ...source.module import Module
from ..script.dead_blocks import REFUSED
from ..script.fill_from_tables import plain_version
from ..script.porting import Porting
from ..script.sites import Site
from ..script.training import Training
from ..settling.kept_branch import keep_block
from ..steps.step import Phase, step

CATCHES = frozenset({"TypeError", "Exception", "BaseException"})
MAKES = ("trainer", "arguments")
RULE = "TP008"
REASON = "the release that the script is read as refuses what is tried: a TypeError"


def refused_tries(porting: Training) -> frozenset[cst.Try]:
    """The `try` statements that go on in their `except`, since their first line is a TypeError in that release."""
    module, found = porting.module, set()
    if "except" not in module.text or "unsloth" in module.roots:  # its trainers take what older releases took
        return frozenset()
    for site in porting.sites:
        line = module.statement(site.node)
        block = module.parents.get(line)
        holder = module.parents.get(block) if block is not None else None
        if site.role not in MAKES or not isinstance(block, cst.IndentedBlock) or not isinstance(holder, cst.Try):
            continue
        if block is holder.body and line is block.body[0] and _goes_on(module, holder, porting.sites):
            if _is_refused(site, porting.versions):
                found.add(holder)
    return frozenset(found)


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
    library, name = site.qualified.partition(".")[0], site.qualified.rpartition(".")[2]
    if library not in LIBRARIES or library not in versions or name not in history().record(library).data["calls"]:
        return False
    others = {one: plain_version(said) for one, said in versions.items() if one in LIBRARIES}
    version = others.pop(library)
    named = [given.name for given in site.arguments if given.name.isidentifier()]
    return any(not history().takes(library, version, name, keyword, **others) for keyword in named)


@step(Phase.ANSWER, fills=("claimed names",))
def settle_refused_tries(porting: Porting) -> None:
    """What the `except` does stays, without the `try` in front of it."""
    module = porting.module
    refused: frozenset[cst.Try] = module.memory.get(REFUSED, frozenset())
    for holder in refused:
        handler = holder.handlers[0]
        end = module.span(handler.type)[1] if handler.type is not None else module.span(handler)[0] + len("except")
        keep_block(porting, holder, handler.body, end, RULE, REASON)
        message = "What is tried here is a TypeError in the release that the script is read as: the port does what "
        message += "`except` does."
        fix = "Name the release that the script ran with by --source-trl, if it was another one."
        porting.find(RULE, "info", message, fix, *module.location(holder))
