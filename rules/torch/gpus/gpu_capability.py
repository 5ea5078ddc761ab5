"""torch.cuda.get_device_capability(): what the GPU run had.

What it does: decides conditions on the GPU's compute capability as on the GPU that the notebook's metadata or Modal's
`gpu=` names; where nothing names one, as on an Ampere or newer one (8.0). What else reads it gets its numbers.
Why: torch raises there on a TPU machine, and what hangs on it is how the source trained.
Example: `if torch.cuda.get_device_capability()[0] >= 8: dtype = torch.bfloat16`
Use instead: `dtype = torch.bfloat16`
Safety: a finding says which GPU was taken and what hangs on it.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import asks_capability, decide_condition, gpu_of_run, inside

from ._gpu_questions import AVAILABLE, HALF, MAX_HANDED, SAYS, known_value, small

ID = "TP538"
REASON = "what the GPU run had"
FIX = "Write what the run had if it was another."
# What stands between an expression and the one that it is part of.
JOINTS = (cst.ComparisonTarget, cst.Index, cst.SubscriptElement, cst.Arg)
HELD = (cst.Tuple, cst.List, cst.Dict, cst.Set, cst.IfExp, cst.Lambda, cst.BooleanOperation)


@step(Phase.ANSWER, reads=("gpu answers",), fills=("claimed names", "gpu capabilities"))
def answer_capabilities(porting: Porting) -> None:
    """Decide what asks for the GPU's capability, and say by which GPU."""
    module = porting.module
    if not re.search(r"get_device_capability|get_device_properties", module.text):
        return
    for node in [node for node in module.parents if asks_capability(module, node)]:
        assert isinstance(node, cst.BaseExpression)
        if porting.is_gone(module.statement(node)) or isinstance(module.parents[node], cst.Expr):
            continue
        hangs = _tests(porting, node)
        _answer(porting, node)
        _say(porting, node, hangs)


def _answer(porting: Porting, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Answer one place, and what reads the variable that it is given to; whether nothing needs its value any more."""
    module = porting.module
    whole = _whole(porting, node)
    if porting.covered(module.span(whole)[0]):
        return True
    names = _targets(porting, whole) if depth < MAX_HANDED else []
    uses = [use for name in names for use in _uses(porting, name)]
    left = [use for use in uses if not _answer(porting, use, depth + 1)]
    if names and not left and porting.written_words().isdisjoint(name.value for name in names):
        porting.remove_statement(whole, ID, REASON)
        return True
    if isinstance(known_value(porting, whole), bool):
        decide_condition(porting, whole, lambda part: _decided(porting, part, whole), ID, REASON)
        if porting.covered(module.span(whole)[0]):
            return True
    if isinstance(node, cst.Name):
        return False
    porting.edit(*module.span(node), repr(known_value(porting, node)), ID, REASON)
    return True


def _decided(porting: Porting, part: cst.BaseExpression, whole: cst.BaseExpression) -> bool | None:
    """What a part of a condition was on the GPU, where it asks for one."""
    known = known_value(porting, part)
    asked = (porting.module.qualified(each.func) for each in inside(part) if isinstance(each, cst.Call))
    return known if isinstance(known, bool) and (part is whole or {*asked} & {AVAILABLE, *HALF}) else None


def _whole(porting: Porting, node: cst.BaseExpression) -> cst.BaseExpression:
    """The largest expression around a place that the capability alone decides: `major * 10 + minor >= 75`."""
    found = node
    for parent in porting.module.ancestors(node):
        if isinstance(parent, JOINTS):
            continue
        is_part = isinstance(parent, cst.BaseExpression) and not isinstance(parent, HELD)
        if not is_part or isinstance(found, cst.Comparison) or known_value(porting, parent) is None:  # type: ignore[arg-type]
            return found
        found = parent  # type: ignore[assignment]
    return found


def _targets(porting: Porting, whole: cst.BaseExpression) -> list[cst.Name]:
    """The variables of this one statement that hold it, none where something else is bound there, too."""
    assign = porting.module.parents[whole]
    if not isinstance(assign, cst.Assign) or assign.value is not whole or len(assign.targets) != 1:
        return []
    target = assign.targets[0].target
    parts = [part.value for part in target.elements] if isinstance(target, cst.Tuple | cst.List) else [target]
    names = [part for part in parts if isinstance(part, cst.Name)]
    return names if len(names) == len(parts) else []


def _uses(porting: Porting, name: cst.Name) -> list[cst.BaseExpression]:
    found = porting.module.scope(name).lookup(name.value)
    return list(porting.module.references(name.value, found[0])) if found is not None else []


def _tests(porting: Porting, node: cst.BaseExpression, depth: int = 0) -> dict[cst.BaseExpression, bool]:
    """The conditions that the capability decides, by themselves or by variables, and what each is."""
    whole, found = _whole(porting, node), dict[cst.BaseExpression, bool]()
    for name in _targets(porting, whole) if depth < MAX_HANDED else ():
        for use in _uses(porting, name):
            found |= _tests(porting, use, depth + 1)
    known = known_value(porting, whole)
    if isinstance(known, bool) and not found:
        found[whole] = known
    return found


def _say(porting: Porting, node: cst.BaseExpression, hangs: dict[cst.BaseExpression, bool]) -> None:
    module, gpu = porting.module, gpu_of_run(porting.module)
    code = " ".join(module.code(node).split())
    had = "{}.{}".format(*gpu.capability)
    taken = f"of a {gpu.name}, {had}: {gpu.named_by}" if gpu.name else f"of an Ampere or newer, {had}: no GPU is named"
    decided = ", ".join(f"`{' '.join(module.code(test).split())}` is {known}" for test, known in hangs.items())
    message = f"{code} is that {taken}{f'; {decided}' if decided else ''}."
    told = bool(hangs) and all(_only_tells(porting, test) for test in hangs)
    porting.find(ID, "info" if told else "warning", message, FIX, *module.location(node))


def _only_tells(porting: Porting, test: cst.BaseExpression) -> bool:
    """Whether a condition decides what is printed or installed, and no more."""
    holder = porting.module.parents[test]
    if not isinstance(holder, cst.If) or isinstance(holder.orelse, cst.If):
        return False
    lines = [*small(holder.body), *(small(holder.orelse.body) if holder.orelse is not None else ())]
    return all(_tells(porting, line) for line in lines)


def _tells(porting: Porting, line: cst.CSTNode) -> bool:
    """`print(...)`, `pass`, and a line of IPython's, `!pip install flash-attn`."""
    start = porting.module.span(line)[0]
    if isinstance(line, cst.Pass) or porting.module.text[start : start + 1] in ("!", "%"):
        return True
    call = line.value if isinstance(line, cst.Expr) else None
    return isinstance(call, cst.Call) and porting.module.code(call.func).rpartition(".")[2] in SAYS
