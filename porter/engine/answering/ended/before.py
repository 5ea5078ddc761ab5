"""`exit()` at the top of a script, in front of its training: nothing behind it runs, in the source or in the port."""

from __future__ import annotations

import libcst as cst

from ....source.module import Module
from ...script.training import Training
from ...steps.step import Phase, step

ENDS = frozenset({"exit", "quit", "sys.exit", "os._exit", "SystemExit"})

ENDING = "lines that end the script"  # of the module's memory


@step(Phase.NAME, of="trainer")
def say_ended_before(porting: Training) -> None:
    """A warning where a line of the script that nothing decides ends it in front of the trainer."""
    site, module = porting.trainer, porting.module
    if site is None:
        return
    trains = module.span(site.node)[0]
    if ENDING not in module.memory:  # once a file, for all its trainers
        lines = [line for line in module.tree.body if isinstance(line, cst.SimpleStatementLine)]
        module.memory[ENDING] = [node for each in lines for node in each.body if _is_end(module, node)]
    for line in module.memory[ENDING]:
        if module.span(line)[0] < trains:
            message = f"{module.code(line).strip()}: the script ends here, and so does the port: it never trains."
            porting.find(site.rule, "warning", message, "Take it out to train.", *module.location(line))
            return


def _is_end(module: Module, node: cst.CSTNode) -> bool:
    """Whether a statement ends the run."""
    value = node.value if isinstance(node, cst.Expr) else node.exc if isinstance(node, cst.Raise) else None
    called = value.func if isinstance(value, cst.Call) else value if isinstance(node, cst.Raise) else None
    if called is None:
        return False
    name = module.qualified(called) or module.code(called)
    return name.removeprefix("builtins.") in ENDS
