"""Names of the run's checkpoints that a script only prints: Orbax's are their steps.

names = [d for d in os.listdir(output_dir) if d.startswith("checkpoint-")]
print(sorted(names))
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Unknown, evaluate
from porter.packs.training import is_behind

from .._shown import is_shown_by

PART_OF = "TP314"
REASON = "Orbax names its checkpoints by their step"
SHOWS = frozenset("print debug info len sorted str list join".split())
TEST = re.compile(r"""(?P<name>\w+)\.startswith\(["']checkpoint-?["']\)|["']checkpoint-?["'] in (?P<other>\w+)""")


@step(Phase.ANSWER, of="trainer", fills=("claimed names",))
def answer_printed_checkpoints(porting: Porting) -> None:
    """Lists of checkpoints behind the training that go into lines of output alone."""
    module = porting.module
    if porting.trainer is None or "checkpoint" not in module.text or "os.listdir(" not in module.text:
        return
    for node in [node for node in module.parents if isinstance(node, cst.ListComp)]:
        loop = node.for_in
        name = module.code(node.elt)
        if len(loop.ifs) != 1 or loop.inner_for_in is not None or module.code(loop.target) != name:
            continue
        test = TEST.fullmatch(module.code(loop.ifs[0].test))
        if test is None or (test["name"] or test["other"]) != name or not _lists_own(porting, loop.iter):
            continue
        if not porting.covered(module.span(node)[0]) and is_behind(porting, node) and _is_shown(porting, node):
            start, end = module.span(node)
            begin, stop = module.span(loop.ifs[0].test)
            new = f"{module.text[start:begin]}{name}.isdigit(){module.text[stop:end]}"
            porting.edit(start, end, new, PART_OF, REASON)


def _lists_own(porting: Porting, call: cst.BaseExpression) -> bool:
    """Whether an expression lists the folder that the trainer saves to, `os.listdir(output_dir)`."""
    module, folder = porting.module, porting.value("run.output_dir")
    if not isinstance(call, cst.Call) or module.qualified(call.func) != "os.listdir" or len(call.args) != 1:
        return False
    if folder is None:
        return False
    if not folder.known:
        return module.code(call.args[0].value) in (folder.text, folder.code)
    try:
        return str(evaluate(module, call.args[0].value)).rstrip("/") == str(folder.literal).rstrip("/")
    except Unknown:
        return False


def _is_shown(porting: Porting, node: cst.BaseExpression) -> bool:
    """Whether a list goes into lines of output alone, by a name of its own or at once."""
    module = porting.module
    statement = module.parents[node]
    if not isinstance(statement, cst.Assign):
        return is_shown_by(porting, node, SHOWS, keywords=False)
    target = statement.targets[0].target
    found = module.meaning(target)
    if len(statement.targets) != 1 or not isinstance(target, cst.Name) or found is None or len(found[1]) != 1:
        return False
    return all(is_shown_by(porting, use, SHOWS, keywords=False) for use in module.references(target.value, found[0]))
