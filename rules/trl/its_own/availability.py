"""What the script tells TRL of the packages that are there.

What it does: takes out a line that sets TRL's own answer to whether a package is installed.
Why: TRL's trainers ask there for vLLM, Liger's kernels, DeepSpeed and the like; the port has no TRL, and needs none of
them.
Example: `trl.import_utils._vllm_available = False`
Use instead: nothing
Safety: exact. A value that is the result of a call stays, with TRL.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import inside, set_by_name

ID = "TP139"
ANSWER = re.compile(r"trl\.(?:\w+\.)*(?:_\w+|is_\w+)_available")


@step(Phase.ANSWER, fills=("claimed names",))
def drop_availability(porting: Porting) -> None:
    """Statements that set what TRL answers of a package, and do nothing else."""
    module = porting.module
    if "_available" not in module.text or "trl" not in module.roots:
        return
    for node in list(module.parents):
        value = _set_to(porting, node)
        if value is None or porting.covered(module.span(node)[0]):
            continue
        if not isinstance(value, cst.Lambda) and any(isinstance(part, cst.Call | cst.Await) for part in inside(value)):
            continue
        porting.remove_statement(node, ID, "the port has no TRL to ask for a package")


def _set_to(porting: Porting, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The value that a statement gives TRL's answer; None for any other node."""
    module = porting.module
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        target = node.targets[0].target
        name = (module.qualified(target.value) or "") if isinstance(target, cst.Attribute) else ""
        asked = f"{name}.{target.attr.value}" if isinstance(target, cst.Attribute) else ""
        return node.value if ANSWER.fullmatch(asked) else None
    given = set_by_name(module, node)
    if len(given) < 3 or not isinstance(given[1], cst.SimpleString) or not isinstance(module.parents[node], cst.Expr):
        return None
    asked = f"{module.qualified(given[0]) or ''}.{given[1].evaluated_value!s}"
    return given[2] if ANSWER.fullmatch(asked) else None
