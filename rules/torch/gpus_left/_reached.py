"""Whether the port comes to a line where there is no GPU: past conditions, functions and what a `try` takes."""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import calls_of, function_around, inside, is_dead, role_uses

from ..gpus._gpu_questions import is_question

# A condition that may well be about the GPU, as the name of a variable has it, too.
ABOUT_GPUS = re.compile(r"cuda|gpu|device|is_available|accelerator|nvidia|nvml", re.IGNORECASE)
CATCHES = re.compile(r"\b(?:Exception|BaseException|AssertionError|RuntimeError)\b")
ENDING = re.compile(r"\braise\b|\b_?(?:exit|quit)\(")
MAX_DEPTH = 4  # functions that call one another


def is_reached(porting: Porting, node: cst.CSTNode, depth: int = 0, *, tried: bool = False) -> bool:
    """Whether the port surely comes to `node`, as far as conditions and functions of the file tell.

    `tried`: also in a `try` that takes what torch raises.
    """
    module = porting.module
    if is_dead(module, node):
        return False
    below = node
    for holder in module.ancestors(node):
        if isinstance(holder, cst.If | cst.IfExp | cst.While) and below is not holder.test:
            if ABOUT_GPUS.search(module.code(holder.test)):
                return False
            if below is holder.body and _without_gpu(porting, holder.test) is False:
                return False
            if below is holder.orelse and _without_gpu(porting, holder.test) is True:
                return False
        if isinstance(holder, cst.BooleanOperation) and below is holder.right:
            if ABOUT_GPUS.search(module.code(holder.left)):
                return False
        if isinstance(holder, cst.Try) and below is holder.body and not tried and _goes_on(porting, holder):
            return False
        if isinstance(holder, cst.IndentedBlock) and _left_before(porting, holder, below):
            return False
        if isinstance(holder, cst.Lambda | cst.FunctionDef | cst.ClassDef):
            break
        below = holder
    function = function_around(module, node)
    if function is None:
        return True
    if isinstance(module.scope(function).node, cst.ClassDef):
        return True
    uses = [use for use in module.references(function.name.value, module.scope(function)) if use is not function.name]
    uses = [use for use in uses if porting.keeps(use)]
    calls = [call for call in calls_of(module, function) if porting.keeps(call)]
    if depth >= MAX_DEPTH or len(uses) > len(calls):
        return bool(uses)
    if not uses:  # another file calls the function that trains
        return any(function in module.ancestors(site.node) for site in porting.sites if site.role == "trainer")
    return any(is_reached(porting, call, depth + 1, tried=tried) for call in calls)


def is_called_no_more(porting: Porting, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether `node` stands in a function whose uses, of which the source had some, have all gone from the port."""
    module, function = porting.module, function_around(porting.module, node)
    if function is None or depth > MAX_DEPTH or isinstance(module.scope(function).node, cst.ClassDef):
        return False
    uses = [use for use in module.references(function.name.value, module.scope(function)) if use is not function.name]
    return bool(uses) and all(not porting.keeps(use) or is_called_no_more(porting, use, depth + 1) for use in uses)


def _goes_on(porting: Porting, holder: cst.Try) -> bool:
    """Whether a `try` takes what torch raises, and the run goes on behind it, with its training still to come."""
    module = porting.module
    for handler in holder.handlers:
        if handler.type is None or CATCHES.search(module.code(handler.type)):
            if ENDING.search(module.code(handler.body)) or holds_training(porting, holder):
                return False
            return not _returns(handler.body) or not _trains_behind(porting, holder)
    return False


def holds_training(porting: Porting, holder: cst.Try) -> bool:
    """Whether the training is in a `try` or its `else:`, itself or by a function called there: nothing trains then."""
    held = {holder.body, holder.orelse}
    return any(part in held for node in _training(porting) for part in porting.module.ancestors(node))


def _trains_behind(porting: Porting, holder: cst.Try) -> bool:
    """Whether the training stands behind a `try` in its function."""
    module, function = porting.module, function_around(porting.module, holder)
    end = module.span(holder)[1]
    return any(function_around(module, n) is function and module.span(n)[0] > end for n in _training(porting))


def _training(porting: Porting) -> list[cst.CSTNode]:
    """Where a trainer is made and trains, and the calls of this file's functions that come there."""
    module = porting.module
    found: list[cst.CSTNode] = [site.node for site in porting.sites if site.role == "trainer"]
    found += [use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.train()"]
    if porting.loop is not None:
        found.append(porting.loop.statement)
    for node in found:  # grows as it is read
        function = function_around(module, node)
        found += [call for call in (calls_of(module, function) if function is not None else ()) if call not in found]
    return found


def _returns(body: cst.BaseSuite) -> bool:
    return any(isinstance(node, cst.Return) for node in inside(body))


def _left_before(porting: Porting, block: cst.IndentedBlock, below: cst.CSTNode) -> bool:
    """Whether a statement in front of `below` leaves the block where there is no GPU."""
    module = porting.module
    for statement in block.body:
        if statement is below:
            return False
        if isinstance(statement, cst.If) and not porting.covered(module.span(statement)[0]):
            held = _without_gpu(porting, statement.test) is True
            last = statement.body.body[-1] if statement.body.body else None
            ends = isinstance(last, cst.SimpleStatementLine) and isinstance(
                last.body[-1], cst.Return | cst.Raise | cst.Continue | cst.Break
            )
            asks = ABOUT_GPUS.search(module.code(statement.test)) and not _is_settled(porting, statement.test)
            if ends and (held or asks):
                return True
    return False


def _without_gpu(porting: Porting, test: cst.BaseExpression, depth: int = 0) -> bool | None:
    """What a condition is on a TPU machine where a name, or an item of a dictionary, holds whether there is a GPU:
    `not available` of `available = torch.cuda.is_available()`; None where it asks something else, or is answered."""
    module = porting.module
    if depth > MAX_DEPTH or porting.covered(module.span(test)[0]):
        return None
    if isinstance(test, cst.Call):
        return False if is_question(porting, test) else None
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        found = _without_gpu(porting, test.expression, depth)
        return None if found is None else not found
    if isinstance(test, cst.BooleanOperation):
        decides = isinstance(test.operator, cst.Or)
        parts = [_without_gpu(porting, part, depth) for part in (test.left, test.right)]
        return decides if decides in parts else None if None in parts else not decides
    value: cst.BaseExpression | None = None
    if isinstance(test, cst.Name):
        binding = module.single_binding(test)
        value = binding.value if binding is not None and binding.kind == "assign" and binding.index is None else None
    elif isinstance(test, cst.Subscript):
        value = _item(porting, test)
    return None if value is None else _without_gpu(porting, value, depth + 1)


def _item(porting: Porting, node: cst.Subscript) -> cst.BaseExpression | None:
    """The value of `info["available"]`, which the dictionary was made with and nothing gives it anew."""
    module, name = porting.module, node.value
    binding = module.single_binding(name) if isinstance(name, cst.Name) else None
    if binding is None or not isinstance(binding.value, cst.Dict) or not isinstance(name, cst.Name):
        return None
    key = _key(porting, node)
    for use in module.references(name.value, module.scope(name)):
        around = module.parents[use]
        asked = _key(porting, around)
        if asked is None and module.span(use)[0] < module.span(node)[0]:
            return None  # it is handed on, or changed by a method
        if asked == key and isinstance(
            module.parents[around], cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.Del
        ):
            return None
    pairs = [each for each in binding.value.elements if isinstance(each, cst.DictElement)]
    found = [each.value for each in pairs if key is not None and module.code(each.key).strip("\"'") == key]
    return found[-1] if found and len(pairs) == len(binding.value.elements) else None


def _key(porting: Porting, node: cst.CSTNode) -> str | None:
    """The text in `info["available"]`; None for what is no such item."""
    part = node.slice[0].slice if isinstance(node, cst.Subscript) else None
    text = part.value if isinstance(part, cst.Index) else None
    return text.value.strip("\"'") if isinstance(text, cst.SimpleString) else None


def _is_settled(porting: Porting, test: cst.BaseExpression) -> bool:
    """Whether all that a condition names got its value from what the port has answered: `count != 1` of
    `count = torch.cuda.device_count()`, which is 1 now."""
    names = [node for node in inside(test) if isinstance(node, cst.Name)]
    bindings = [porting.module.single_binding(name) for name in names]
    values = [binding.value for binding in bindings if binding is not None and binding.kind == "assign"]
    return bool(names) and len(values) == len(names) and all(value and porting.within(value) for value in values)
