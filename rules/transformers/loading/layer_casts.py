"""Loops that cast a torch model's layers: norms to float32 beside a quantised base, adapters to bfloat16.

    for name, module in trainer.model.named_modules():
        if "norm" in name:
            module = module.to(torch.float32)

Tunix's norms compute in float32 whatever they are held in, the loss is taken of float32 logits, and the port's
adapters are float32. With adapters the cast weights are frozen, so such loops go; without, they say what is trained.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Use, role_uses

PART_OF = "TP310"
REASON = "norms compute in float32 in Tunix, and the port's adapters are float32"
WALKS = frozenset({"named_modules", "modules", "named_parameters", "parameters"})
# What a test in such a loop may call and still change nothing.
ASKS = frozenset("isinstance hasattr any all lower startswith endswith dim".split())
CAST = re.compile(
    r"(?:(?P<target>[\w.]+)\s*=\s*)?(?P<cast>[\w.]+)\."
    r"(?:to\((?:dtype\s*=\s*)?(?P<dtype>[\w.]+)\)|(?P<method>float|half|bfloat16)\(\))"
)
NARROW = frozenset({"torch.bfloat16", "torch.float16", "torch.half", "half", "bfloat16"})


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def drop_casts(porting: Porting) -> None:
    """Take out the loops over the model's layers that only cast them, and a head that casts its logits."""
    perhaps = bool(porting.of_role("inject"))
    if not (porting.lora or porting.lora_object or porting.inject or perhaps):
        return
    for use in list(role_uses(porting)):
        chain = use.chain.removeprefix("model.") if use.role == "trainer" else use.chain
        if use.kind == "call" and chain in WALKS:
            _drop_loop(porting, use)
        elif use.kind == "assign" and chain == "lm_head":
            _drop_head(porting, use)


def _drop_loop(porting: Porting, use: Use) -> None:
    module = porting.module
    walked = _filtered(porting, use.outer)
    loop = module.parents[walked]
    if not isinstance(loop, cst.For) or loop.iter is not walked or loop.orelse is not None:
        return
    target = loop.target.elements[-1].value if isinstance(loop.target, cst.Tuple) else loop.target
    injects = porting.of_role("inject")
    frees = all(module.span(loop)[1] <= site.start for site in injects)
    said = list(_statements(porting, loop.body))
    if not said or not all(_is_cast(code, module.code(target), frees) for code in said):
        return
    if not any(CAST.fullmatch(code) for code in said):
        return
    porting.remove_statement(loop, PART_OF, REASON)
    if not (porting.lora or porting.lora_object or porting.inject):
        message = (
            "This loop casts layers, which matters where no adapters are put in: norms are trained in float32 then."
        )
        porting.find(PART_OF, "warning", message, "Load in float32 to train the whole model.", *module.location(loop))
    elif any((found := CAST.fullmatch(code)) and {found["dtype"], found["method"]} & NARROW for code in said):
        message = "This loop casts layers to 16 bits; the port's adapters are float32."
        porting.find(PART_OF, "info", message, "The first steps agree to 16 bits' rounding.", *module.location(loop))


def _filtered(porting: Porting, walked: cst.CSTNode) -> cst.CSTNode:
    """`filter(lambda p: p.requires_grad, model.parameters())` around what a loop walks over."""
    argument = porting.module.parents[walked]
    call = porting.module.parents[argument]
    if not isinstance(call, cst.Call) or porting.module.code(call.func) != "filter" or len(call.args) != 2:
        return walked
    trained = re.fullmatch(r"lambda (\w+): ?\1\.requires_grad", porting.module.code(call.args[0].value))
    return call if trained is not None and call.args[1] is argument else walked


def _statements(porting: Porting, block: cst.BaseSuite) -> list[str]:
    """The code of every statement in a block, those in its branches too; a test that may do something is one."""
    found: list[str] = []
    for item in block.body:
        if isinstance(item, cst.SimpleStatementLine):
            found += [porting.module.code(small).rstrip("; ") for small in item.body]
        elif isinstance(item, cst.If):
            found += _of_branches(porting, item)
        elif isinstance(item, cst.BaseSmallStatement):
            found.append(porting.module.code(item).rstrip("; "))
        else:
            found.append(porting.module.code(item))
    return found


def _of_branches(porting: Porting, item: cst.If) -> list[str]:
    code = porting.module.code(item.test)
    calls = {name.rsplit(".", 1)[-1] for name in re.findall(r"([\w.]+)\s*\(", code)} - {"and", "or", "not", "in", "if"}
    found = [code] if calls - ASKS else []
    found += _statements(porting, item.body)
    if isinstance(item.orelse, cst.If):
        return found + _of_branches(porting, item.orelse)
    return found + (_statements(porting, item.orelse.body) if item.orelse is not None else [])


def _is_cast(code: str, variable: str, frees: bool) -> bool:
    """Whether a statement casts the layer of the loop's variable in place, freezes the base, or does nothing."""
    if code in ("pass", "continue") or (frees and code == f"{variable}.requires_grad = False"):
        return True
    found = CAST.fullmatch(code)
    if found is None or found["cast"] not in (variable, f"{variable}.data", f"{variable}.weight.data"):
        return False
    return found["target"] in (None, found["cast"])


def _drop_head(porting: Porting, use: Use) -> None:
    """`model.lm_head = CastOutputToFloat(model.lm_head)`, of a class of the file that casts what the head gives."""
    module = porting.module
    target = module.parents[use.outer]
    statement = module.parents[target]
    value = statement.value if isinstance(statement, cst.Assign) else None
    if not isinstance(value, cst.Call) or len(value.args) != 1 or not isinstance(value.func, cst.Name):
        return
    if module.code(value.args[0].value) != module.code(use.outer):
        return
    found = module.meaning(value.func)
    made = [binding.node for binding in found[1]] if found is not None else []
    if len(made) != 1 or not isinstance(made[0], cst.ClassDef):
        return
    lines = [line.strip() for line in module.code(made[0].body).splitlines() if line.strip()]
    if not re.fullmatch(
        r"def forward\(self, (\w+)\): ?return super\(\)\.forward\(\1\)\.to\(torch\.float32\)", "".join(lines)
    ):
        return
    porting.remove_statement(use.outer, PART_OF, "the loss is taken of float32 logits")
    if len(module.loads(value.func.value)) == 1:
        porting.remove_statement(made[0], PART_OF, "nothing uses it any more")
