"""Lines that print the releases of libraries that a port doesn't use.

What it does: takes out a line that does nothing but print or log `trl.__version__` and the like.
Why: the port imports neither TRL nor PEFT, Unsloth, bitsandbytes or a library of CUDA kernels: a TPU machine may lack
them, and the line would end the run.
Example: `print(f"TRL: {trl.__version__}")`
Use instead: nothing
Safety: exact. A line that reads anything else stays, with a finding.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import inside

ID = "TP119"
GONE = frozenset("trl peft unsloth unsloth_zoo bitsandbytes flash_attn xformers vllm deepspeed liger_kernel".split())
READS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Await, cst.NamedExpr)
SAYS = re.compile(r"print|(?:\w+\.)*(?:info|debug|warning)")


@step(Phase.ANSWER, fills=("claimed names",))
def drop_printed_versions(porting: Porting) -> None:
    """Statements that print versions of the libraries of the GPU side, and nothing else that runs."""
    module = porting.module
    if "__version__" not in module.text:
        return
    for call in module.calls:
        if not isinstance(module.parents[call], cst.Expr) or porting.covered(module.span(call)[0]):
            continue
        if SAYS.fullmatch(module.code(call.func)) is None:
            continue
        nodes = [node for argument in call.args for node in inside(argument.value)]
        versions = [node for node in nodes if isinstance(node, cst.Attribute) and node.attr.value == "__version__"]
        parts = {part for node in versions for part in (node, node.value, node.attr)}
        if not versions or any(isinstance(node, READS) and node not in parts for node in nodes):
            continue
        if all((module.qualified(node) or "").removesuffix(".__version__") in GONE for node in versions):
            porting.remove_statement(call, ID, "the release of a library that the port doesn't use")
