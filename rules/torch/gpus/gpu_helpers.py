"""Functions that give back something only where there is a GPU, and what is done with it elsewhere.

    def memory():
        if torch.cuda.is_available():
            return {"allocated": torch.cuda.memory_allocated()}

    found = memory()
    print(f"{found['allocated']} bytes")

A TPU machine gets None there, which has no parts: lines that only tell of it go, others are errors. So is what reads a
variable that nothing sets but such a condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import asks_for_gpu, calls_of, function_around, inside, only_logs, shortened, speaks_of_gpu

from ..gpus_left._reached import is_reached
from ._gpu_questions import is_question, on_gpu
from .gpu_reports import LOGS, PLAIN

PART_OF = "TP526"
REASON = "tells of a GPU"
FIX = "Take out what needs an answer of the GPU, or let the function give one."
FIX_UNSET = "Give it a value in front of the condition, or take out what needs it."
EMPTY = ("{}", "[]", "()", "dict()", "list()", "tuple()", '""', "''")
NEEDS = frozenset("round len float int sum max min abs dict list sorted tuple".split())  # that None ends
MAX_DEPTH = 4  # functions that give back what another gives


@dataclass(frozen=True)
class Lack:
    """What a function gives without a GPU: `None`, something empty, or a dictionary without `keys`."""

    function: cst.FunctionDef
    given: str
    keys: frozenset[str] = frozenset()


@step(Phase.ANSWER, reads=("gpu answers", "gpu capabilities"), fills=("claimed names",))
def drop_what_tells_of_it(porting: Porting) -> None:
    """Lines that print or log nothing but what such a function gives back."""
    for use, _, names in _endings(porting):
        line = _telling(porting, use, names)
        if line is not None and not porting.covered(porting.module.span(line)[0]):
            porting.remove_statement(line.value, PART_OF, REASON)


@step(Phase.NAME, reads=("gpu tests",), fills=("claimed names",))
def name_what_ends(porting: Porting) -> None:
    """An error where the port ends at what such a function gives back."""
    module = porting.module
    for use, lack, _ in _endings(porting):
        if not porting.covered(module.span(use)[0]) and is_reached(porting, use):
            around = module.parents[use]
            code = f"{shortened(module.code(around))}: " if isinstance(around, cst.Subscript | cst.Attribute) else ""
            without = f"gives {lack.given}" if not lack.keys else "gives nothing of that name"
            message = f"{code}{lack.function.name.value}() {without} on a TPU machine, which has no GPU to ask: "
            porting.find(PART_OF, "error", f"{message}the port ends here.", FIX, *module.location(use))


@step(Phase.NAME, reads=("gpu tests",), fills=("claimed names",))
def name_what_is_unset(porting: Porting) -> None:
    """An error where the port reads a variable that it sets only where there is a GPU."""
    module = porting.module
    for holder in [node for node in module.parents if isinstance(node, cst.If)] if speaks_of_gpu(module) else []:
        if porting.covered(module.span(holder.test)[0]) or not _is_asked(porting, holder.test):
            continue
        held, scope = {*inside(holder.body)}, module.scope(holder)
        if on_gpu(porting, holder.test) is not True or isinstance(scope.node, cst.ClassDef):
            continue
        for name, bindings in scope.bindings.items():
            if not all(binding.node in held for binding in bindings):
                continue
            for read in module.references(name, scope):
                is_own = read in held or porting.covered(module.span(read)[0])
                if is_own or module.span(read)[0] < module.span(holder)[1] or not is_reached(porting, read):
                    continue
                message = f"{name} is set only where there is a GPU: the port ends here on a TPU machine."
                porting.find(PART_OF, "error", message, FIX_UNSET, *module.location(read))
                break


def _endings(porting: Porting) -> list[tuple[cst.BaseExpression, Lack, frozenset[str]]]:
    """The uses of what such functions give back that end without a GPU, and the variables that hold it."""
    if not speaks_of_gpu(porting.module):
        return []
    found: dict[cst.BaseExpression, tuple[Lack, frozenset[str]]] = {}
    for lack in _lacking(porting):
        for use, names in _uses(porting, lack, lack.function, 0):
            found.setdefault(use, (lack, names))
    return [(use, *told) for use, told in found.items()]


def _lacking(porting: Porting) -> Iterator[Lack]:
    module = porting.module
    for holder in [node for node in module.parents if isinstance(node, cst.If | cst.IfExp)]:
        function = function_around(module, holder)
        if function is None or porting.covered(module.span(holder.test)[0]) or not _is_asked(porting, holder.test):
            continue
        known = on_gpu(porting, holder.test)
        if known is None or (isinstance(known, str) and " or " in module.code(holder.test)):
            continue
        lack = _by_if(porting, function, holder, known is not False) if isinstance(holder, cst.If) else None
        if isinstance(holder, cst.IfExp) and isinstance(module.parents[holder], cst.Return):
            given = _given(porting, holder.orelse if known is not False else holder.body)
            lack = Lack(function, given) if given else None
        if lack is not None:
            yield lack


def _is_asked(porting: Porting, test: cst.BaseExpression) -> bool:
    """Whether a condition asks for a GPU, itself or by a variable, and the port still does."""
    module = porting.module
    if not asks_for_gpu(module, test):
        return False
    asked = [node for node in inside(test) if is_question(porting, node)]
    names = [module.single_binding(node) for node in inside(test) if isinstance(node, cst.Name)]
    held = [each.value for each in names if each is not None and each.kind == "assign" and each.value is not None]
    asked += [node for value in held for node in inside(value) if is_question(porting, node)]
    return any(not porting.covered(module.span(node)[0]) for node in asked)


def _by_if(porting: Porting, function: cst.FunctionDef, holder: cst.If, runs_on_gpu: bool) -> Lack | None:
    """What a function with such an `if` gives back on a TPU machine, where that is nothing."""
    own, held = [*_own(function)], {*inside(holder.body)}
    of_gpu = [node for node in own if (node in held) is runs_on_gpu]
    others = [node for node in own if (node in held) is not runs_on_gpu]
    if any(isinstance(node, cst.Raise) for node in others):
        return None
    given = [node.value for node in others if isinstance(node, cst.Return)]
    if any(isinstance(node, cst.Return) and not _is_none(porting, node.value) for node in of_gpu):
        what = {_given(porting, value) for value in given} or {"None"}
        return Lack(function, next(iter(what))) if len(what) == 1 and "" not in what else None
    if len(given) != 1 or not isinstance(given[0], cst.Name) or not runs_on_gpu:
        return None
    return _by_variable(porting, function, given[0].value, of_gpu, others)


def _by_variable(
    porting: Porting, function: cst.FunctionDef, name: str, of_gpu: list[cst.CSTNode], others: list[cst.CSTNode]
) -> Lack | None:
    """`stats = None`, and only on a GPU `stats = {...}`, or `stats["memory"] = ...`."""
    module = porting.module
    set_there = [
        line for line in of_gpu if isinstance(line, cst.Assign) and module.code(line.targets[0].target) == name
    ]
    before = [line for line in others if isinstance(line, cst.Assign) and module.code(line.targets[0].target) == name]
    if set_there and len(before) == 1 and (given := _given(porting, before[0].value)):
        return Lack(function, given)
    keys, known = _keys(porting, name, of_gpu), _keys(porting, name, others)
    for line in before:
        if isinstance(line.value, cst.Dict):
            known |= {module.code(e.key).strip("\"'") for e in line.value.elements if isinstance(e, cst.DictElement)}
    return Lack(function, "", frozenset(keys - known)) if keys - known and before else None


def _keys(porting: Porting, name: str, lines: list[cst.CSTNode]) -> set[str]:
    """The keys that some lines set of a dictionary."""
    targets = [line.targets[0].target for line in lines if isinstance(line, cst.Assign)]
    held = [each for each in targets if isinstance(each, cst.Subscript) and porting.module.code(each.value) == name]
    return {key for each in held if (key := _key(each))}


def _key(node: cst.Subscript) -> str:
    index = node.slice[0].slice
    value = index.value if isinstance(index, cst.Index) else None
    return str(value.evaluated_value) if isinstance(value, cst.SimpleString) else ""


def _own(function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """The nodes of a function without those of functions in it."""
    inner = {
        node
        for each in inside(function.body)
        if isinstance(each, cst.FunctionDef | cst.Lambda)
        for node in inside(each.body)
    }
    return (node for node in inside(function.body) if node not in inner)


def _is_none(porting: Porting, value: cst.BaseExpression | None) -> bool:
    return value is None or porting.module.code(value) == "None"


def _given(porting: Porting, value: cst.BaseExpression | None) -> str:
    """`None`, `{}`; an empty text for what has parts."""
    if _is_none(porting, value):
        return "None"
    code = porting.module.code(value) if value is not None else ""
    return code if code in EMPTY else ""


def _uses(
    porting: Porting, lack: Lack, function: cst.FunctionDef, depth: int
) -> Iterator[tuple[cst.BaseExpression, frozenset[str]]]:
    module, name = porting.module, function.name.value
    calls = [*calls_of(module, function)]
    if isinstance(module.scope(function).node, cst.ClassDef):
        named = [node for node in module.parents if isinstance(node, cst.FunctionDef) and node.name.value == name]
        found = [module.parents[node] for node in module.attributes_named(name)] if len(named) == 1 else []
        calls += [call for call in found if isinstance(call, cst.Call) and call not in calls]
    for call in calls:
        around = module.parents[call]
        if isinstance(around, cst.Return) and depth < MAX_DEPTH and (outer := function_around(module, call)):
            yield from _uses(porting, lack, outer, depth + 1)
        elif isinstance(around, cst.Assign) and isinstance(around.targets[0].target, cst.Name):
            variable = around.targets[0].target
            meaning = module.meaning(variable)
            if meaning is None or any(binding.node is not around for binding in meaning[1]):
                continue
            for read in module.references(variable.value, meaning[0]):
                if read is not variable and _ends(porting, read, lack) and not _is_guarded(porting, read):
                    yield read, frozenset({variable.value})
        elif _ends(porting, call, lack):
            yield call, frozenset()


def _ends(porting: Porting, use: cst.BaseExpression, lack: Lack) -> bool:
    """Whether what is done with a value ends where it is None, or empty."""
    module = porting.module
    around = module.parents[use]
    if isinstance(around, cst.Subscript) and around.value is use:
        is_read = not isinstance(module.parents[around], cst.AssignTarget) or lack.given == "None"
        return _key(around) in lack.keys if lack.keys else is_read
    if lack.keys:
        return False
    if isinstance(around, cst.Assign):
        return any(isinstance(each.target, cst.Tuple | cst.List) for each in around.targets)
    if lack.given != "None":
        return False
    if isinstance(around, cst.Attribute):
        return around.value is use
    if isinstance(around, cst.FormattedStringExpression):
        return bool(around.format_spec)
    if isinstance(around, cst.BinaryOperation):
        return not isinstance(around.left, cst.SimpleString | cst.FormattedString)
    if isinstance(around, cst.ComparisonTarget | cst.Comparison):
        whole = around if isinstance(around, cst.Comparison) else module.parents[around]
        kinds = cst.LessThan | cst.GreaterThan | cst.LessThanEqual | cst.GreaterThanEqual
        return isinstance(whole, cst.Comparison) and any(isinstance(c.operator, kinds) for c in whole.comparisons)
    if isinstance(around, cst.For):
        return around.iter is use
    if isinstance(around, cst.Arg):
        call = module.parents[around]
        needs = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value in NEEDS
        return bool(around.star) or needs
    return False


def _is_guarded(porting: Porting, read: cst.BaseExpression) -> bool:
    """Whether a condition on the value itself decides about a use: `if found: ...`, `if found is None: return`."""
    module, name = porting.module, porting.module.code(read)
    below: cst.CSTNode = read
    for holder in module.ancestors(read):
        if isinstance(holder, cst.If | cst.IfExp | cst.While) and below is not holder.test:
            if _names(porting, holder.test, name):
                return True
        if isinstance(holder, cst.BooleanOperation) and below is holder.right and _names(porting, holder.left, name):
            return True
        if isinstance(holder, cst.IndentedBlock | cst.Module):
            for statement in holder.body:
                if statement is below:
                    break
                if isinstance(statement, cst.If) and _names(porting, statement.test, name):
                    return True
        if isinstance(holder, cst.FunctionDef):
            break
        below = holder
    return False


def _names(porting: Porting, node: cst.CSTNode, name: str) -> bool:
    return any(isinstance(each, cst.Name) and each.value == name for each in inside(node))


def _telling(porting: Porting, use: cst.BaseExpression, names: frozenset[str]) -> cst.Expr | None:
    """The line that prints or logs what is used, and nothing else that the script reads."""
    module = porting.module
    line = next((node for node in module.ancestors(use) if isinstance(node, cst.Expr | cst.BaseStatement)), None)
    call = line.value if isinstance(line, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(line, cst.Expr):
        return None
    if module.code(call.func).rsplit(".", 1)[-1] not in LOGS and not only_logs(module, call):
        return None
    own = {*inside(use)} if isinstance(use, cst.Call) else set()
    others = [
        node
        for argument in call.args
        for node in inside(argument.value)
        if isinstance(node, cst.Name) and node not in own and node.value not in names | PLAIN
        if not _is_attribute(module.parents[node], node)
    ]
    return line if not others else None


def _is_attribute(around: cst.CSTNode, node: cst.Name) -> bool:
    return isinstance(around, cst.Attribute) and around.attr is node
