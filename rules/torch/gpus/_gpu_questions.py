"""A question for a GPU: the condition that it stands in, and what that was on one."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import Unknown, asks_for_gpu, evaluate, inside, left_on_gpu
from porter.packs.training import facts_of

AVAILABLE = "torch.cuda.is_available"
CAPABLE = "torch.cuda.get_device_capability"
HALF = (
    *("torch.cuda.is_bf16_supported", "transformers.is_torch_bf16_gpu_available"),
    *("unsloth.is_bfloat16_supported", "unsloth.is_bf16_supported", CAPABLE),
)
REASON = "decided as on the GPU, which a TPU machine hasn't"
GUARD = "the GPU run never came here"
SETTINGS = ("arguments", "lora", "quantization", "model", "trainer")
MAX_HANDED = 4  # variables and parameters between a question and the setting that it decides
ENDS = frozenset({"exit", "quit", "sys.exit", "os._exit"})
SAYS = frozenset("print exit quit warning warn error info debug critical".split())


def is_question(porting: Porting, call: cst.CSTNode) -> bool:
    """Whether a call asks whether there is a GPU: torch itself, or a library's function that asks torch."""
    name = porting.module.qualified(call.func) if isinstance(call, cst.Call) else None
    return name == AVAILABLE or (name in facts_of(porting.module).sees_gpu and name not in HALF)


def questions(porting: Porting) -> list[cst.Call]:
    """All such calls of the file."""
    return [call for call in porting.module.calls if is_question(porting, call)]


def decision(porting: Porting, call: cst.BaseExpression) -> cst.BaseExpression:
    """The whole condition in which a call or a name stands: `available() and capability()[0] >= 8`."""
    node: cst.BaseExpression = call
    while True:
        parent = porting.module.parents[node]
        if isinstance(parent, cst.ComparisonTarget):
            parent = porting.module.parents[parent]
        if isinstance(parent, cst.Subscript) and parent.value is not node:
            return node
        if not isinstance(parent, cst.BooleanOperation | cst.UnaryOperation | cst.Comparison | cst.Subscript):
            return node
        node = parent


def on_gpu(porting: Porting, test: cst.BaseExpression) -> bool | str | None:
    """What a condition was on the GPU, or the code that is left of it; None where it doesn't ask for one."""
    known = known_value(porting, test)
    return known if isinstance(known, bool) else left_on_gpu(porting.module, test)


def known_value(porting: Porting, node: cst.BaseExpression) -> object:
    try:
        return evaluate(porting.module, node)
    except Unknown:
        return None


def small(body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    for statement in body.body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
        else:
            yield statement


def is_said(porting: Porting, around: list[cst.CSTNode]) -> bool:
    call = next((item for item in around if isinstance(item, cst.Call | cst.BaseStatement)), None)
    return isinstance(call, cst.Call) and porting.module.code(call.func).rsplit(".", 1)[-1] in SAYS


def places(porting: Porting, chosen: cst.IfExp) -> bool:
    """`0 if available() else -1`, `"auto" if available() else "cpu"`, and what a name with "device" takes."""
    module = porting.module
    if module.code(chosen.orelse).strip("\"'") in ("-1", "cpu"):
        return True
    holder = module.parents[chosen]
    if isinstance(holder, cst.Assign):
        return any("device" in module.code(target.target).lower() for target in holder.targets)
    return isinstance(holder, cst.Arg) and holder.keyword is not None and "device" in holder.keyword.value


def has_names_of_gpu(porting: Porting, value: cst.BaseExpression) -> bool:
    """Whether an expression reads a name that has a value only under another question for a GPU: that may stay."""
    module = porting.module
    for name in (node for node in inside(value) if isinstance(node, cst.Name)):
        meant = module.meaning(name)
        if meant is not None and meant[1] and all(_is_under_question(porting, each.node) for each in meant[1]):
            return True
    return False


def _is_under_question(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether a line stands in the branch of an `if` that asks for a GPU, which no edit has taken."""
    module = porting.module
    return any(
        isinstance(around, cst.If)
        and asks_for_gpu(module, around.test)
        and not porting.covered(module.span(around.test)[0])
        for around in module.ancestors(node)
    )


def is_on_gpu(porting: Porting, node: cst.CSTNode) -> bool:
    """`.cuda()`, `.to("cuda")` and `torch.cuda.…` that no edit has taken."""
    text = isinstance(node, cst.SimpleString) and node.value.strip("\"'").startswith("cuda")
    named = isinstance(node, cst.Attribute) and node.attr.value == "cuda"
    return (text or named) and not porting.covered(porting.module.span(node)[0])
