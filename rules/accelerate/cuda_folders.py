"""CUDA_HOME, NVIDIA_VISIBLE_DEVICES and the like: what a GPU machine's installation sets.

What it does: a line that only prints such a variable prints that it isn't set. What can't go on without it, reads,
tests that end the script, and paths made of it, is named. Left alone: what the script sets above, asks for, or catches.
Why: a TPU machine has no CUDA, and the port would end there with a KeyError.
Example: `print(os.environ["CUDA_HOME"])`
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step

from ._environment import MISSING_KEY, NOT_A_NUMBER, READS, is_caught, is_tested, use_of, variables
from .launcher_variables import is_set, values_of

ID = "TP426"
OF_CUDA = re.compile(r"(?:CUDA|CUDNN|NCCL|TENSORRT)_\w+|NVIDIA_(?:VISIBLE_DEVICES|DRIVER_CAPABILITIES|REQUIRE_\w+)")
# Set by a launcher, or answered as one.
OTHERS = frozenset({"CUDA_VISIBLE_DEVICES"})
LOGS = re.compile(r"(?:^|\.)(?:print|info|debug|warning|log|rprint)$")
REASON = "a TPU machine has no CUDA"
FIX = "Take it out: nothing in the port reads CUDA."


@step(Phase.ANSWER, fills=("claimed names",), anywhere=True)
def answer_cuda_folders(porting: Porting) -> None:
    """Reads that only print say that nothing is set; what ends the port is an error at its line."""
    module = porting.module
    if "CUD" not in module.text and "NCCL_" not in module.text and "NVIDIA_" not in module.text:
        return
    for node, key in variables(module):
        if use_of(module, node) != "write" and _is_asked(porting, node, key, MISSING_KEY):
            if use_of(module, node) == "read" and _is_logged(porting, node):
                code = f"{module.code(node.value)}.get({module.code(key)})"
                porting.edit(*module.span(node), code, ID, REASON)
            else:
                _say(porting, node, key)
    for call in module.calls:
        if module.qualified(call.func) not in READS or len(call.args) != 1:
            continue
        if _makes_path(porting, call) and _is_asked(porting, call, call.args[0].value, NOT_A_NUMBER):
            _say(porting, call, call.args[0].value)


def _is_asked(porting: Porting, node: cst.CSTNode, key: cst.BaseExpression, caught: frozenset[str]) -> bool:
    """Whether a read asks for a variable of CUDA's that nothing says or sets."""
    names = values_of(porting, key)
    start = porting.module.span(node)[0]
    if not any(OF_CUDA.fullmatch(name) and name not in OTHERS for name in names) or porting.covered(start):
        return False
    set_above = is_set(porting, names, start)
    return not (set_above or is_tested(porting.module, node, key) or is_caught(porting.module, node, caught))


def _is_logged(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether a read stands in a line that only prints: nothing is calculated of it."""
    for around in porting.module.ancestors(node):
        if isinstance(around, cst.BinaryOperation | cst.Subscript):
            return False
        if isinstance(around, cst.Call) and LOGS.search(porting.module.code(around.func)):
            return isinstance(porting.module.parents[around], cst.Expr)
        if isinstance(around, cst.Call) and not re.search(r"format$|^(?:str|repr)$", porting.module.code(around.func)):
            return False
        if isinstance(around, cst.BaseStatement):
            return False
    return False


def _makes_path(porting: Porting, call: cst.Call) -> bool:
    """Whether `os.getenv("CUDA_HOME")` is joined to more: None can't be."""
    module = porting.module
    around = module.parents[call]
    if isinstance(around, cst.BinaryOperation):
        return True
    outer = module.parents[around] if isinstance(around, cst.Arg) else None
    return isinstance(outer, cst.Call) and module.code(outer.func).rpartition(".")[2] in ("join", "Path", "open")


def _say(porting: Porting, node: cst.CSTNode, key: cst.BaseExpression) -> None:
    said = ", ".join(sorted(values_of(porting, key)))
    code = " ".join(porting.module.code(node).split())
    message = f"{code}: {REASON}, so that nothing sets {said}: the port ends here."
    porting.find(ID, "error", message, FIX, *porting.module.location(node))
