"""torch.cuda.is_available(): decided as on the GPU, where it decides a setting or ends the run.

What it does: takes out guards (`if not torch.cuda.is_available(): raise ...`), and writes what the GPU run had where
the answer is a setting of the training (`bf16=torch.cuda.is_available()`); other uses are named.
Why: a TPU machine answers False, so that the port would end, or train in another precision than the source did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import (
    TORCH_TYPES,
    Scope,
    Unknown,
    bare,
    evaluate,
    function_around,
    inside,
    keep_branch,
    left_on_gpu,
    line_start,
    parameter_of,
)

from .cuda_left import RAISING

ID = "TP526"
AVAILABLE = "torch.cuda.is_available"
CAPABLE = "torch.cuda.get_device_capability"
HALF = ("torch.cuda.is_bf16_supported", "unsloth.is_bfloat16_supported", "unsloth.is_bf16_supported", CAPABLE)
REASON = "decided as on the GPU, which a TPU machine hasn't"
GUARD = "the GPU run never came here"
SETTINGS = ("arguments", "lora", "quantization", "model", "trainer")
NO_GPU = ("False", "1", "-1")  # what a function that looks for one gives back
ENDS = frozenset({"sys.exit", "os._exit"})
# `kwargs["device_map"] = "auto"`
SPREAD = re.compile(r"""device_map["'\]\s]*[=:]\s*["'](?:auto|balanced\w*|sequential)["']""")
MAX_HANDED = 4  # variables and parameters between a question and the setting that it decides
SAYS = frozenset("print exit quit warning warn error info debug critical".split())


@step(Phase.ANSWER, reads=("gpu branches", "gpu reports"), fills=("claimed names", "gpu answers"))
def answer_gpu_tests(porting: Porting) -> None:
    """Guards go, settings get what the GPU run had; what else asks is named."""
    module = porting.module
    asked = ("cuda.is_available", "is_bf16_supported", "is_bfloat16_supported", "get_device_capability")
    if not any(name in module.text for name in asked):
        return
    for call in [call for call in module.calls if module.qualified(call.func) in (AVAILABLE, *HALF)]:
        if porting.covered(module.span(call)[0]) or _drop_guard(porting, call):
            continue
        if module.qualified(call.func) == AVAILABLE:
            _drop_guards_of_device(porting, call)
        if module.qualified(call.func) in (AVAILABLE, CAPABLE):
            _settle(porting, call)
        if module.qualified(call.func) == AVAILABLE:
            if not porting.covered(module.span(call)[0]):
                _take_value(porting, call)


def _drop_guard(porting: Porting, call: cst.Call) -> bool:
    """`if not torch.cuda.is_available(): raise ...`, `assert torch.cuda.is_available()`, and an `else:` that raises."""
    module = porting.module
    test = decision(porting, call)
    holder, known = module.parents[test], on_gpu(porting, test)
    if isinstance(holder, cst.Assert) and holder.test is test and known is not None:
        if known is True:
            porting.remove_statement(call, ID, GUARD)
        else:
            porting.edit(*module.span(test), bare(str(known)), ID, REASON)
        return True
    if not isinstance(holder, cst.If) or holder.test is not test:
        return False
    above = module.parents[holder]
    if known is False and holder.orelse is None and _only_for_cpu(porting, holder.body):
        if isinstance(above, cst.If) and above.orelse is holder:
            return False
        porting.remove_statement(holder, ID, GUARD)
        return True
    is_elif = isinstance(above, cst.If) and above.orelse is holder
    if known is False and isinstance(holder.orelse, cst.Else) and not is_elif:
        if _only_for_cpu(porting, holder.body) and _only_tells(porting, holder.orelse.body):
            porting.remove_statement(holder, ID, "tells of a GPU")
            return True
    if known is True and _tells(porting, holder) and not is_elif:
        porting.remove_statement(holder, ID, "tells of a GPU")
        return True
    of_gpu = module.qualified(call.func) != AVAILABLE  # a question that only a GPU can answer
    if known is True and (of_gpu or _sets(porting, holder.body)):
        if not _unwrap(porting, holder, any_value=of_gpu):
            porting.edit(*module.span(test), "True", ID, REASON)
        return True
    if known is True and isinstance(holder.orelse, cst.Else) and _only_for_cpu(porting, holder.orelse.body):
        if any(isinstance(item, cst.Return) for item in small(holder.body)):  # what the function gives back is decided
            if _needs_gpu(porting, holder.body):
                return False
            porting.edit(*module.span(test), "True", ID, REASON)
            return True
        start = module.span(holder.orelse)[0]
        begin = line_start(module.text, start)
        porting.edit(begin, module.span(holder.orelse)[1], "", ID, GUARD)
        return True
    return False


def _drop_guards_of_device(porting: Porting, call: cst.Call) -> None:
    """`device = "cuda" if available() else "cpu"`, and then `if device == "cpu": args.quantize = False`."""
    module = porting.module
    chosen = module.parents[decision(porting, call)]
    assign = module.parents[chosen]
    target = assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
    if not isinstance(chosen, cst.IfExp) or not isinstance(target, cst.Name):
        return
    found = module.scope(assign).lookup(target.value)
    for use in module.references(target.value, found[0]) if found is not None else ():
        test = decision(porting, use)
        holder, above = module.parents[test], module.parents[module.parents[test]]
        if not isinstance(holder, cst.If) or holder.test is not test or holder.orelse is not None:
            continue
        is_elif = isinstance(above, cst.If) and above.orelse is holder
        if not is_elif and known_value(porting, test) is False and _only_for_cpu(porting, holder.body):
            porting.remove_statement(holder, ID, GUARD)


def _only_for_cpu(porting: Porting, body: cst.BaseSuite) -> bool:
    """Whether a block only complains, ends the run or switches settings off: nothing that other code needs."""
    found = [_complains(porting, statement) or _is_setting(porting, statement) for statement in small(body)]
    return bool(found) and all(found) and any(True for _ in small(body))


def _tells(porting: Porting, holder: cst.If) -> bool:
    """Whether an `if` prints what the GPU is or frees its memory, and at most complains where there is none."""
    other = holder.orelse
    if other is not None and not (isinstance(other, cst.Else) and _only_for_cpu(porting, other.body)):
        return False
    return _only_tells(porting, holder.body)


def _only_tells(porting: Porting, body: cst.BaseSuite) -> bool:
    calls = [item.value for item in small(body) if isinstance(item, cst.Expr)]
    return len(calls) == len(list(small(body))) and all(_tells_alone(porting, call) for call in calls)


def _tells_alone(porting: Porting, call: cst.BaseExpression) -> bool:
    """`print(f"{step}: {torch.cuda.memory_allocated()}")`, `torch.cuda.empty_cache()`."""
    if not isinstance(call, cst.Call):
        return False
    of_cuda = (porting.module.qualified(call.func) or "").startswith("torch.cuda.")
    return of_cuda or (
        porting.module.code(call.func).rsplit(".", 1)[-1] in SAYS and "torch.cuda." in porting.module.code(call)
    )


def small(body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    for statement in body.body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
        else:
            yield statement


def _needs_gpu(porting: Porting, block: cst.CSTNode) -> bool:
    """Whether something of a block that stays raises where there is no GPU."""
    module = porting.module
    return any(
        (module.qualified(call.func) or "") in RAISING and not porting.covered(module.span(call)[0])
        for call in module.calls
        if block in module.ancestors(call)
    )


def _gives_up(porting: Porting, statement: cst.CSTNode) -> bool:
    """`return False`, `return 1`: a function that looks for a GPU tells its caller that there is none; `return` in one
    that trains, itself or by another function.

    It goes where nothing behind it needs a GPU.
    """
    if not isinstance(statement, cst.Return):
        return False
    function = function_around(porting.module, statement)
    return function is not None and gives_none(porting, statement) and not _needs_gpu(porting, function)


def gives_none(porting: Porting, statement: cst.Return) -> bool:
    """Whether a function gives back that there is no GPU, or ends so before its training."""
    said = porting.module.code(statement.value) if statement.value is not None else "None"
    if said != "None":
        return said in NO_GPU
    trains = {function_around(porting.module, site.node) for site in porting.sites if site.role == "trainer"}
    return _reaches(porting, function_around(porting.module, statement), trains)


def _reaches(porting: Porting, function: cst.FunctionDef | None, wanted: set[cst.FunctionDef | None]) -> bool:
    """Whether a function of the file is one of `wanted`, or calls one, others in between."""
    module = porting.module
    found, further = {function}, [function]
    while further:
        here = further.pop()
        if here is None or here in wanted:
            return here is not None
        inner = {callee for call, callee in module.callees.items() if here in module.ancestors(call)} - found
        found |= inner
        further += inner
    return False


def _complains(porting: Porting, statement: cst.CSTNode) -> bool:
    if isinstance(statement, cst.Raise | cst.Pass) or _gives_up(porting, statement):
        return True
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return False
    name = porting.module.code(call.func)
    return name in ENDS or name.rsplit(".", 1)[-1] in SAYS


def _is_setting(porting: Porting, statement: cst.CSTNode) -> bool:
    """`bf16 = False`, `kwargs["fp16"] = False`, `dtype = torch.float32`."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return False
    return _is_precision(porting, statement.value)


def _sets(porting: Porting, body: cst.BaseSuite) -> bool:
    return all(_is_setting(porting, statement) for statement in small(body))


def _unwrap(porting: Porting, holder: cst.If, *, any_value: bool) -> bool:
    """`if supported: dtype = a` and its `else:` become the settings of the first branch, where that is plain lines."""
    other = holder.orelse
    if other is not None and not isinstance(other, cst.Else):
        return False
    for branch in (holder.body, other.body if other is not None else holder.body):
        if not (_assigns(branch) if any_value else _sets(porting, branch)):
            return False
    return keep_branch(porting, holder, True, ID, REASON)


def _assigns(body: cst.BaseSuite) -> bool:
    return all(isinstance(statement, cst.Assign) for statement in small(body))


def _settle(porting: Porting, call: cst.Call) -> None:
    """An expression that settles a setting of the training becomes what it was on the GPU."""
    module = porting.module
    decided = decision(porting, call)
    chosen: cst.BaseExpression | None = None
    known = known_value(porting, decided)
    holder = module.parents[decided]
    if isinstance(holder, cst.IfExp) and holder.test is decided and isinstance(known, bool):
        decided, chosen = holder, holder.body if known else holder.orelse
    if not _is_of_settings(porting, decided):
        return
    if chosen is not None:
        porting.edit(*module.span(decided), module.code(chosen), ID, REASON)
    elif isinstance(known, bool):
        porting.edit(*module.span(decided), str(known), ID, REASON)
    else:
        porting.edit(*module.span(call), "True", ID, REASON)


def _take_value(porting: Porting, call: cst.Call) -> None:
    """A value that the GPU run had and that names no device: `8 if available() else 2`, `if available(): bits = ...`.

    Of `args.bf16 and available()` the other part stays.
    """
    module = porting.module
    test = decision(porting, call)
    holder, known = module.parents[test], on_gpu(porting, test)
    if not isinstance(holder, cst.If | cst.IfExp) or holder.test is not test or known in (None, False):
        return
    if isinstance(holder, cst.If):
        named = [line for line in small(holder.body) if not _is_switch(porting, line)]
        if any(_names_device(porting, line) for line in named) or not _gives(porting, holder.body):
            return
        if known is True and _keep_values(porting, holder):
            return
    elif _names_device(porting, holder.body) or places(porting, holder):
        return
    elif known is True:
        porting.edit(*module.span(holder), module.code(holder.body), ID, REASON)
        return
    porting.edit(*module.span(test), bare(str(known)), ID, REASON)


def _is_switch(porting: Porting, line: cst.CSTNode) -> bool:
    """`device_pin_memory = True`, where settings of the training alone read it: no place, whatever its name says."""
    if not isinstance(line, cst.Assign) or not isinstance(known_value(porting, line.value), bool):
        return False
    return _read_by_settings(porting, line)


def _gives(porting: Porting, body: cst.BaseSuite) -> bool:
    """Whether a block assigns alone, and may give back a setting behind it."""
    *first, last = small(body)
    given = isinstance(last, cst.Return) and last.value is not None and _is_precision(porting, last.value)
    return all(isinstance(line, cst.Assign) for line in first) and (given or isinstance(last, cst.Assign))


def _keep_values(porting: Porting, holder: cst.If) -> bool:
    """Keep a block that gives values; behind one that gives back what it did on a GPU, nothing is reached."""
    if not isinstance(list(small(holder.body))[-1], cst.Return):
        return _unwrap(porting, holder, any_value=True)
    block = porting.module.parents[holder]
    if holder.orelse is not None or not isinstance(block, cst.IndentedBlock):
        return False
    if not keep_branch(porting, holder, True, ID, REASON):
        return False
    for line in block.body[block.body.index(holder) + 1 :]:
        porting.remove_statement(line.body[0] if isinstance(line, cst.SimpleStatementLine) else line, ID, GUARD)
    return True


def _names_device(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether code says where something lies, or moves it: what differs on a TPU. Spread over all there is is no
    place."""
    code = SPREAD.sub("", porting.module.code(node))
    return re.search(r"cuda|device|\.(to|half|float|bfloat16)\(", code) is not None


def places(porting: Porting, chosen: cst.IfExp) -> bool:
    """`0 if available() else -1`, `"auto" if available() else "cpu"`, and what a name with "device" takes."""
    module = porting.module
    if module.code(chosen.orelse).strip("\"'") in ("-1", "cpu"):
        return True
    holder = module.parents[chosen]
    if isinstance(holder, cst.Assign):
        return any("device" in module.code(target.target).lower() for target in holder.targets)
    return isinstance(holder, cst.Arg) and holder.keyword is not None and "device" in holder.keyword.value


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


def _is_of_settings(porting: Porting, node: cst.BaseExpression) -> bool:
    """Whether an expression is a setting of the training, or a variable's value that only settings read."""
    module = porting.module
    calls = [site.node for site in porting.sites if site.role in SETTINGS]
    below: cst.CSTNode = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, cst.Call) and ancestor in calls:
            return True
        if isinstance(ancestor, cst.Return):  # `def bf16_ready(): return available() and is_bf16_supported()`
            return ancestor.value is node and any(
                isinstance(item, cst.Call) and module.qualified(item.func) in HALF for item in inside(node)
            )
        if isinstance(ancestor, cst.Assign) and ancestor.value is below:
            return _is_precision(porting, ancestor.value) and _read_by_settings(porting, ancestor)
        if isinstance(ancestor, cst.BaseStatement):
            return False
        below = ancestor
    return False


def _read_by_settings(porting: Porting, assign: cst.Assign) -> bool:
    """Whether a torch type, or a switch that only keywords of settings and other such values read."""
    module = porting.module
    target = assign.targets[0].target
    if len(assign.targets) != 1 or not isinstance(target, cst.Name):
        return False
    if not isinstance(known_value(porting, assign.value), bool) and left_on_gpu(module, assign.value) is None:
        return True  # a type
    found = module.scope(assign).lookup(target.value)
    return found is not None and _only_settings_read(porting, target.value, found[0])


def _only_settings_read(porting: Porting, name: str, scope: Scope, depth: int = 0) -> bool:
    """Whether keywords of settings alone read a variable, other switches and functions' parameters in between; what
    is printed counts for nothing."""
    module = porting.module
    calls = [site.node for site in porting.sites if site.role in SETTINGS]
    for use in module.references(name, scope):
        around = [*module.ancestors(use)]
        if any(item in calls for item in around) or porting.covered(module.span(use)[0]) or is_said(porting, around):
            continue
        further = _handed_on(porting, use)
        if further is None or depth > MAX_HANDED or not _only_settings_read(porting, *further, depth + 1):
            return False
    return True


def is_said(porting: Porting, around: list[cst.CSTNode]) -> bool:
    call = next((item for item in around if isinstance(item, cst.Call | cst.BaseStatement)), None)
    return isinstance(call, cst.Call) and porting.module.code(call.func).rsplit(".", 1)[-1] in SAYS


def _handed_on(porting: Porting, use: cst.BaseExpression) -> tuple[str, Scope] | None:
    """The switch that a use is part of, or the parameter of a function of the file that it is given to."""
    module = porting.module
    whole = use
    while isinstance(parent := module.parents[whole], cst.BooleanOperation | cst.UnaryOperation | cst.IfExp):
        if isinstance(parent, cst.IfExp):
            if parent.test is not whole or any(_names_device(porting, way) for way in (parent.body, parent.orelse)):
                return None
        whole = parent
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0].target, cst.Name):
        name = parent.targets[0].target.value
        found = module.scope(parent).lookup(name)
        return (name, found[0]) if found is not None else None
    call = module.parents[parent]
    if not isinstance(parent, cst.Arg) or not isinstance(call, cst.Call):
        return None
    parameter = parameter_of(module, parent, call)
    return (parameter, module.scopes[module.callees[call]]) if parameter is not None else None


def _is_precision(porting: Porting, value: cst.BaseExpression) -> bool:
    """Whether a value is a switch or one of torch's types, never a device."""
    known = known_value(porting, value)
    if isinstance(known, bool) or left_on_gpu(porting.module, value) is not None:
        return True
    names = [porting.module.qualified(node) or "" for node in inside(value) if isinstance(node, cst.Attribute)]
    return known in TORCH_TYPES.values() and any(name.startswith("torch.") for name in names)


def on_gpu(porting: Porting, test: cst.BaseExpression) -> bool | str | None:
    """What a condition was on the GPU, or the code that is left of it; None where it doesn't ask for one."""
    known = known_value(porting, test)
    return known if isinstance(known, bool) else left_on_gpu(porting.module, test)


def known_value(porting: Porting, node: cst.BaseExpression) -> object:
    try:
        return evaluate(porting.module, node)
    except Unknown:
        return None
