"""Functions that give back something only where there is a GPU, and what is done with it elsewhere.

    def memory():
        if torch.cuda.is_available():
            return {"allocated": torch.cuda.memory_allocated()}

    found = memory()
    print(f"{found['allocated']} bytes")

A TPU machine gets None there, which has no parts: lines that only tell of it go, with the variable that nothing else
reads; others are errors.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import calls_of, function_around, inside, only_logs, shortened, speaks_of_gpu

from ..gpus_left._reached import is_reached
from ._lacking import Lack, key_of, lacking
from .gpu_reports import LOGS, PLAIN

PART_OF = "TP526"
REASON = "tells of a GPU"
FIX = "Take out what needs an answer of the GPU, or let the function give one."
NEEDS = frozenset("round len float int sum max min abs dict list sorted tuple".split())  # that None ends
MAX_DEPTH = 4  # functions that give back what another gives


@step(Phase.ANSWER, reads=("gpu answers", "gpu capabilities"), fills=("claimed names",))
def drop_what_tells_of_it(porting: Porting) -> None:
    """Lines that print or log nothing but what such a function gives back, and variables that they alone read."""
    module = porting.module
    for use, _, names in _endings(porting):
        line = _telling(porting, use, names)
        if line is None:
            continue
        if not porting.covered(module.span(line)[0]):
            porting.remove_statement(line.value, PART_OF, REASON)
        made = module.single_binding(use) if names else None
        if made is not None and made.value is not None and _is_unread(porting, use):
            porting.remove_statement(made.value, PART_OF, REASON)


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


def _is_unread(porting: Porting, use: cst.BaseExpression) -> bool:
    """Whether all that reads a variable has gone, and the line that gives it its value stands."""
    module, meaning = porting.module, porting.module.meaning(use)
    if meaning is None or porting.covered(module.span(meaning[1][0].node)[0]):
        return False
    name = module.code(use)
    reads = [
        read for read in module.references(name, meaning[0]) if not isinstance(module.parents[read], cst.AssignTarget)
    ]
    return name not in porting.written_words() and all(porting.covered(module.span(read)[0]) for read in reads)


def _endings(porting: Porting) -> list[tuple[cst.BaseExpression, Lack, frozenset[str]]]:
    """The uses of what such functions give back that end without a GPU, and the variables that hold it."""
    if not speaks_of_gpu(porting.module):
        return []
    found: dict[cst.BaseExpression, tuple[Lack, frozenset[str]]] = {}
    for lack in lacking(porting):
        for use, names in _uses(porting, lack, lack.function, 0):
            found.setdefault(use, (lack, names))
    return [(use, *told) for use, told in found.items()]


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
        return key_of(around) in lack.keys if lack.keys else is_read
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
