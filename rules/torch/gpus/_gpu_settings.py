"""What the answer to a question for a GPU settles: precision and other settings of the training, values by the GPU."""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import Scope, bare, constants, inside, keep_branch, left_on_gpu, parameter_of

from ._gpu_questions import (
    GUARD,
    HALF,
    MAX_HANDED,
    REASON,
    SAYS,
    SETTINGS,
    decision,
    has_names_of_gpu,
    is_on_gpu,
    is_said,
    known_value,
    on_gpu,
    places,
    small,
)

RULE = "TP526"
# What a switch of precision is called.
PRECISION = re.compile(r"(?:bf|fp|float|bfloat)_?16|half|precision|\bamp\b|use_amp|autocast", re.IGNORECASE)
# `kwargs["device_map"] = "auto"`
SPREAD = re.compile(r"""device_map["'\]\s]*[=:]\s*["'](?:auto|balanced\w*|sequential)["']""")


def settle(porting: Porting, call: cst.Call) -> None:
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
        porting.edit(*module.span(decided), module.code(chosen), RULE, REASON)
    elif isinstance(known, bool):
        porting.edit(*module.span(decided), str(known), RULE, REASON)
    else:
        porting.edit(*module.span(call), "True", RULE, REASON)


def take_value(porting: Porting, call: cst.Call) -> None:
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
        if any(names_device(porting, line) for line in named) or not _gives(porting, holder.body):
            return
        if known is True and _keep_values(porting, holder):
            return
    elif names_device(porting, holder.body) or places(porting, holder) or has_names_of_gpu(porting, holder.body):
        return
    elif known is True:
        porting.edit(*module.span(holder), module.code(holder.body), RULE, REASON)
        return
    porting.edit(*module.span(test), bare(str(known)), RULE, REASON)


def is_setting(porting: Porting, statement: cst.CSTNode) -> bool:
    """`bf16 = False`, `kwargs["fp16"] = False`, `dtype = torch.float32`, `bf16, fp16 = True, False`."""
    if isinstance(statement, cst.AnnAssign) and statement.value is not None:
        return is_precision(porting, statement.value)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0].target, statement.value
    if isinstance(target, cst.Tuple | cst.List) and isinstance(value, cst.Tuple | cst.List):
        return all(is_precision(porting, element.value) for element in value.elements)
    return is_precision(porting, value)


def sets(porting: Porting, body: cst.BaseSuite) -> bool:
    return all(is_setting(porting, statement) for statement in small(body))


def sets_and_says(porting: Porting, body: cst.BaseSuite) -> bool:
    """Whether a block sets what the training alone takes, and else only tells of it: `use_bf16 = True`, `print(...)`;
    of an `if` within it the branch that the GPU run took."""
    lines = [*small(body)]
    return all(_sets_or_says(porting, line) for line in lines) and any(not _says(porting, line) for line in lines)


def _sets_or_says(porting: Porting, line: cst.CSTNode) -> bool:
    if isinstance(line, cst.If):
        known = on_gpu(porting, line.test)
        taken = line.body if known is True else line.orelse.body if isinstance(line.orelse, cst.Else) else None
        return (
            isinstance(known, bool) and taken is not None and all(_sets_or_says(porting, each) for each in small(taken))
        )
    return _says(porting, line) or _sets_for_training(porting, line)


def _says(porting: Porting, line: cst.CSTNode) -> bool:
    """`console.print("bf16")`, or what another rule has taken out; nothing that asks a GPU to answer."""
    if isinstance(line, cst.Pass) or porting.covered(porting.module.span(line)[0]):
        return True
    call = line.value if isinstance(line, cst.Expr) else None
    named = isinstance(call, cst.Call) and porting.module.code(call.func).rpartition(".")[2] in SAYS
    return named and not any(is_on_gpu(porting, node) for node in inside(line))


def _sets_for_training(porting: Porting, line: cst.CSTNode) -> bool:
    """`use_bf16 = True`, `batch, workers = 8, 4`: values that name no device, for settings of the training."""
    if not isinstance(line, cst.Assign) or len(line.targets) != 1:
        return False
    pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(line.targets[0].target, line.value)]
    target, value = pairs[0]
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple) and len(target.elements) == len(value.elements):
        pairs = [(one.value, other.value) for one, other in zip(target.elements, value.elements, strict=True)]
    return all(_is_for_training(porting, line, *pair) for pair in pairs)


def _is_for_training(porting: Porting, line: cst.Assign, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
    if not isinstance(target, cst.Name) or names_device(porting, value):
        return False
    if not is_precision(porting, value) and not isinstance(known_value(porting, value), int | float | str):
        return False
    found = porting.module.scope(line).lookup(target.value)
    return PRECISION.search(target.value) is not None or (
        found is not None and _only_settings_read(porting, target.value, found[0])
    )


def unwrap(porting: Porting, holder: cst.If, *, any_value: bool) -> bool:
    """`if supported: dtype = a` and its `else:` become the settings of the first branch, where that is plain lines."""
    other = holder.orelse
    if other is not None and not isinstance(other, cst.Else):
        return False
    for branch in (holder.body, other.body if other is not None else holder.body):
        if not (_assigns(branch) if any_value else sets(porting, branch)):
            return False
    return keep_branch(porting, holder, True, RULE, REASON)


def _assigns(body: cst.BaseSuite) -> bool:
    return all(isinstance(statement, cst.Assign) for statement in small(body))


def _is_switch(porting: Porting, line: cst.CSTNode) -> bool:
    """`device_pin_memory = True`, where settings of the training alone read it: no place, whatever its name says."""
    if not isinstance(line, cst.Assign) or not isinstance(known_value(porting, line.value), bool):
        return False
    return _read_by_settings(porting, line)


def _gives(porting: Porting, body: cst.BaseSuite) -> bool:
    """Whether a block assigns alone, and may give back a setting behind it."""
    *first, last = small(body)
    given = isinstance(last, cst.Return) and last.value is not None and is_precision(porting, last.value)
    return all(isinstance(line, cst.Assign) for line in first) and (given or isinstance(last, cst.Assign))


def _keep_values(porting: Porting, holder: cst.If) -> bool:
    """Keep a block that gives values; behind one that gives back what it did on a GPU, nothing is reached."""
    if not isinstance(list(small(holder.body))[-1], cst.Return):
        return unwrap(porting, holder, any_value=True)
    block = porting.module.parents[holder]
    if holder.orelse is not None or not isinstance(block, cst.IndentedBlock):
        return False
    if not keep_branch(porting, holder, True, RULE, REASON):
        return False
    for line in block.body[block.body.index(holder) + 1 :]:
        porting.remove_statement(line.body[0] if isinstance(line, cst.SimpleStatementLine) else line, RULE, GUARD)
    return True


def names_device(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether code says where something lies, or moves it: what differs on a TPU. Spread over all there is is no
    place."""
    code = SPREAD.sub("", porting.module.code(node))
    return re.search(r"cuda|device|\.(to|half|float|bfloat16)\(", code) is not None


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
            return is_precision(porting, ancestor.value) and _read_by_settings(porting, ancestor)
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


def _handed_on(porting: Porting, use: cst.BaseExpression) -> tuple[str, Scope] | None:
    """The switch that a use is part of, or the parameter of a function of the file that it is given to."""
    module = porting.module
    whole = use
    while isinstance(parent := module.parents[whole], cst.BooleanOperation | cst.UnaryOperation | cst.IfExp):
        if isinstance(parent, cst.IfExp):
            if parent.test is not whole or any(names_device(porting, way) for way in (parent.body, parent.orelse)):
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


def is_precision(porting: Porting, value: cst.BaseExpression) -> bool:
    """Whether a value is a switch or one of torch's types, never a device."""
    known = known_value(porting, value)
    if isinstance(known, bool) or left_on_gpu(porting.module, value) is not None:
        return True
    names = [porting.module.qualified(node) or "" for node in inside(value) if isinstance(node, cst.Attribute)]
    return known in constants(porting.module).values() and any(name.startswith("torch.") for name in names)
