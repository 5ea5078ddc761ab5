"""torch.backends.cudnn.allow_tf32, read → what it was on the GPU.

What it does: writes the value that the script has given such a switch, torch's own default where it has given none.
Why: the line that sets it goes, and a CPU build of torch says nothing of the GPU run.
Example: `print(torch.backends.cudnn.allow_tf32)`
Use instead: `print(True)`
Safety: exact. Where branches or the training's arguments (`tf32=`) may set it, a person is asked.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Porting, Site
from porter.packs.script import Module, function_around, left_on_gpu

ID = "TP514"
# What torch has them at, since 1.12.
DEFAULTS = {
    "torch.backends.cuda.matmul.allow_tf32": "False",
    "torch.backends.cudnn.allow_tf32": "True",
    "torch.backends.cudnn.benchmark": "False",
    "torch.backends.cudnn.deterministic": "False",
}
MATCHES = tuple(DEFAULTS)
INSTEAD_OF = ("TP511",)
ELSEWHERE = re.compile(r"\btf32\s*=|set_float32_matmul_precision|full_determinism|setattr\(torch")  # sets them, too
REASON = "what it was on the GPU"


def apply(site: Site, porting: Porting) -> object:
    module, node = porting.module, site.node
    assert isinstance(node, cst.BaseExpression)
    name = module.qualified(node) or ""
    if isinstance(module.parents[node], cst.AssignTarget) or _may_be_set_elsewhere(module, node):
        return porting.NOT_MINE
    values = [_given(module, assign, node) for assign in _assignments(module, name)]
    if len(set(values)) > 1 or None in values:
        return porting.NOT_MINE
    porting.replace(site, str(values[0]) if values else DEFAULTS[name], REASON)
    return None


def _may_be_set_elsewhere(module: Module, read: cst.CSTNode) -> bool:
    """Whether something else than a line of the file's may have set it when it is read."""
    end = len(module.text) if function_around(module, read) is not None or module.loops(read) else module.span(read)[0]
    return ELSEWHERE.search(module.text, 0, end) is not None


def _assignments(module: Module, name: str) -> list[cst.Assign]:
    """The lines that set a switch."""
    last = name.rpartition(".")[2]
    targets = [module.parents[node] for node in module.attributes_named(last) if module.qualified(node) == name]
    lines = [module.parents[target] for target in targets if isinstance(target, cst.AssignTarget)]
    return [line for line in lines if isinstance(line, cst.Assign)]


def _given(module: Module, assign: cst.Assign, read: cst.CSTNode) -> str | None:
    """What a line surely gives a switch before it is read there; None where that isn't known."""
    said = module.code(assign.value)
    before = module.turn(assign) < module.turn(read) and module.span(assign)[0] < module.span(read)[0]
    if said not in ("True", "False") or not before or module.loops(assign):
        return None
    if function_around(module, assign) not in (None, function_around(module, read)):
        return None
    around = [*module.ancestors(assign)]
    if any(isinstance(node, cst.Try | cst.Else) for node in around):
        return None
    tests = [node for node in around if isinstance(node, cst.If)]
    return said if all(left_on_gpu(module, node.test) is True for node in tests) else None
