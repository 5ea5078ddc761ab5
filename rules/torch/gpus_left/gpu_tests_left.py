"""`torch.cuda.is_available()` left in the port: named, and an error where it decides what the training takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from porter.packs.api import Phase, Porting, Severity, step
from porter.packs.script import Module, calls_of, function_around, inside, speaks_of_gpu

from ..gpus._gpu_choices import SAME, option_of
from ..gpus._gpu_questions import (
    ENDS,
    MAX_HANDED,
    SETTINGS,
    decision,
    is_question,
    known_value,
    on_gpu,
    places,
    questions,
    small,
)
from ..gpus.cuda_available import gives_none
from ._reached import is_called_no_more, is_reached

PART_OF = "TP526"
ASSIGNS = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.NamedExpr)
ENDS_OR_ASKS = ENDS | {"input"}
ENDS_HERE, OF_NONE = ": the port ends here, or waits for an answer.", "Take out what is for a machine without a GPU."
LOOK = "Look at what it does then; nothing that the training takes is known to hang on it."
PLACES = frozenset(
    "device device_map no_cuda use_cpu use_cuda use_mps_device dataloader_pin_memory dataloader_num_workers "
    "low_cpu_mem_usage".split()
)


@step(Phase.NAME, reads=("columns",), fills=("gpu tests",))
def name_gpu_tests(porting: Porting) -> None:
    """A warning for every question that is left in the port; an error where it decides what the training takes."""
    if not speaks_of_gpu(porting.module):
        return
    for call in questions(porting):
        stays = not porting.covered(porting.module.span(call)[0]) and not is_called_no_more(porting, call)
        if stays and not _places_alone(porting, call):
            porting.find(PART_OF, *_said(porting, call), *porting.module.location(call))
    _name_held_guards(porting)


def _places_alone(porting: Porting, call: cst.Call) -> bool:
    """Whether torch is told the CPU's place by it, in an argument, and nothing else is decided."""
    module, chosen = porting.module, porting.module.parents[decision(porting, call)]
    if not isinstance(chosen, cst.IfExp) or not isinstance(module.parents[chosen], cst.Arg):
        return False
    return places(porting, chosen) and known_value(porting, chosen.test) is True and not _decided(porting, call)


def _said(porting: Porting, call: cst.Call) -> tuple[Severity, str, str]:
    """How bad a question is that is left, what to say of it, and what to do."""
    message = f"{porting.module.code(call)} is False on a TPU machine, where this stands as it was"
    if _tells_caller(porting, call):
        message += ": the function ends here, or tells its caller, which ends the port or changes it."
        return "error", message, "Let it answer what it did on the GPU."
    if _ends_or_asks(porting, decision(porting, call)):
        return "error", message + ENDS_HERE, OF_NONE
    if decides := _decided(porting, call):
        message += f": it decides {', '.join(decides)}, which the training takes."
        return "error", message, "Give what the GPU run had."
    return "warning", f"{message}: the port goes on as without a GPU.", LOOK


def _tells_caller(porting: Porting, call: cst.Call) -> bool:
    """Whether an `if` on a GPU that isn't there makes a function give back False, or ends it before it trains."""
    module, test = porting.module, decision(porting, call)
    holder = module.parents[test]
    if not isinstance(holder, cst.If) or holder.test is not test or known_value(porting, test) is not False:
        return False
    last = list(small(holder.body))[-1:]
    return any(isinstance(line, cst.Return) and gives_none(porting, line) for line in last)


def _ends_or_asks(porting: Porting, test: cst.BaseExpression) -> bool:
    """Whether what runs where there is no GPU ends the run or reads from the terminal, and the port comes there."""
    module, holder, known = porting.module, porting.module.parents[test], on_gpu(porting, test)
    taken: cst.CSTNode | None = test  # available() or sys.exit(1)
    if isinstance(holder, cst.If | cst.IfExp) and holder.test is test:
        taken = holder.body if known is False else holder.orelse if known is True else None
    if taken is None or not is_reached(porting, holder):
        return False
    return any(
        isinstance(node, cst.Raise) or (isinstance(node, cst.Call) and module.code(node.func) in ENDS_OR_ASKS)
        for node in inside(taken)
        if not porting.covered(module.span(node)[0])
    )


def _name_held_guards(porting: Porting) -> None:
    """An error for `if device == "cpu": ...` that ends the port, where `device` holds the answer."""
    module = porting.module
    for holder in [node for node in module.parents if isinstance(node, cst.If)]:
        test = holder.test
        if not porting.covered(module.span(test)[0]) and _holds_answer(porting, test) and _ends_or_asks(porting, test):
            message = f"{' '.join(module.code(test).split())} is decided as without a GPU{ENDS_HERE}"
            porting.find(PART_OF, "error", message, OF_NONE, *module.location(holder))


def _holds_answer(porting: Porting, test: cst.BaseExpression) -> bool:
    """Whether a condition reads a variable that holds the answer as a TPU machine gives it."""
    module = porting.module
    bindings = [module.single_binding(node) for node in inside(test) if isinstance(node, cst.Name)]
    values = [each.value for each in bindings if each is not None and each.kind == "assign" and each.value is not None]
    asked = [node for value in values for node in inside(value) if is_question(porting, node)]
    return any(not porting.covered(module.span(node)[0]) for node in asked)


def _decided(porting: Porting, call: cst.Call) -> list[str]:
    """Names that take their value from the answer, and that the model's loading or the trainer's settings read."""
    found: dict[str, bool] = {}
    _follow(porting, call, found, 0)
    return list(found)


def _follow(porting: Porting, use: cst.BaseExpression, found: dict[str, bool], depth: int) -> None:
    """Note the names that the settings read, of those that a use of the answer decides, others in between."""
    module = porting.module
    calls = [site.node for site in porting.sites if site.role in SETTINGS]
    for name, reads in _held_by(porting, use):
        for read in reads:
            around = [*module.ancestors(read)]
            if any(item in calls for item in around):
                if not _is_known(porting, read, around) and not _places(around):
                    found[name] = True
            elif (
                depth < MAX_HANDED
                and (isinstance(read, cst.Call) or _is_asked(module, read))
                and not porting.covered(module.span(read)[0])
            ):
                _follow(porting, read, found, depth + 1)


def _held_by(porting: Porting, use: cst.BaseExpression) -> Iterator[tuple[str, Sequence[cst.BaseExpression]]]:
    """What gets a value by an expression, or by the branches that it decides, and where the file reads that: names,
    attributes, the option of a parser whose default it is, and the function that gives it back."""
    module = porting.module
    function = function_around(module, use)
    if function is not None and _is_given_back(porting, use):
        yield from _given_back_by(porting, function)
    for target in _targets(porting, use):
        if module.code(target) in module.memory.get(SAME, ()):
            continue
        meaning = module.meaning(target)
        if isinstance(target, cst.Name) and meaning is not None and not isinstance(meaning[0].node, cst.ClassDef):
            yield target.value, module.references(target.value, meaning[0])
        else:
            name = target.value if isinstance(target, cst.Name) else target.attr.value
            yield name, [node for node in module.attributes_named(name) if node is not target]
    call = next((item for item in module.ancestors(use) if isinstance(item, cst.Call)), None)
    if call is not None and (name := option_of(porting, call)):
        yield name, module.attributes_named(name)


def _given_back_by(porting: Porting, function: cst.FunctionDef) -> Iterator[tuple[str, Sequence[cst.BaseExpression]]]:
    """A function with its calls, or the names that take the parts of what it gives back; but for parts that are what
    they were on the GPU by now: `device, dtype = both()`."""
    module = porting.module
    found = [node.value for node in inside(function) if isinstance(node, cst.Return) and node.value is not None]
    settled = {
        index
        for value in found
        for index, part in enumerate(value.elements if isinstance(value, cst.Tuple) else ())
        if porting.covered(module.span(part.value)[0])
    }
    for call in calls_of(module, function):
        holder = module.parents[call]
        target = holder.targets[0].target if isinstance(holder, cst.Assign) and len(holder.targets) == 1 else None
        if not isinstance(target, cst.Tuple):
            yield f"{function.name.value}()", [call]
            continue
        for index, part in enumerate(target.elements):
            meant = module.meaning(part.value) if isinstance(part.value, cst.Name) else None
            if index not in settled and meant is not None and isinstance(part.value, cst.Name):
                yield part.value.value, module.references(part.value.value, meant[0])


def _is_given_back(porting: Porting, use: cst.BaseExpression) -> bool:
    """Whether a function gives an expression back, or what it decides: `if available(): return "cuda"`."""
    module, test = porting.module, decision(porting, use)
    holder = module.parents[test]
    if isinstance(holder, cst.If) and holder.test is test:
        return any(isinstance(node, cst.Return) and node.value is not None for node in inside(holder))
    line = next((node for node in module.ancestors(use) if isinstance(node, cst.BaseSmallStatement)), None)
    return isinstance(line, cst.Return)


def _is_known(porting: Porting, read: cst.BaseExpression, around: Sequence[cst.CSTNode]) -> bool:
    """Whether the port has what the GPU run had there, whatever the name holds: `bf16=device == "cuda"`."""
    module = porting.module
    argument = next((item for item in around if isinstance(item, cst.Arg)), None)
    if argument is None or not porting.covered(module.span(read)[0]) or porting.repeats(argument.value):
        return False
    return known_value(porting, argument.value) is not None


def _targets(porting: Porting, use: cst.BaseExpression) -> Iterator[cst.Name | cst.Attribute]:
    """The names and attributes to which an expression, or the branches that it decides, give a value."""
    module, test = porting.module, decision(porting, use)
    holder = module.parents[test]
    if isinstance(holder, cst.If) and holder.test is test:
        lines = [node for node in inside(holder) if isinstance(node, ASSIGNS)]
    else:
        lines = [node for node in module.ancestors(use) if isinstance(node, ASSIGNS)]
    for line in lines:
        for target in [each.target for each in line.targets] if isinstance(line, cst.Assign) else [line.target]:
            yield from _names(target)


def _names(target: cst.BaseExpression) -> Iterator[cst.Name | cst.Attribute]:
    """What a target gives a value: a name, an attribute, its elements, and `kwargs` of `kwargs["bf16"]`."""
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _names(element.value)
    target = target.value if isinstance(target, cst.Subscript) else target
    if isinstance(target, cst.Name | cst.Attribute):
        yield target


def _is_asked(module: Module, read: cst.BaseExpression) -> bool:
    """Whether a use of a name decides something: `if use_cuda`, `a if device == "cuda" else b`."""
    for node in module.ancestors(read):
        if isinstance(node, cst.IfExp | cst.If | cst.Comparison | cst.BooleanOperation | cst.UnaryOperation):
            return True
        if isinstance(node, cst.Call | cst.BaseStatement):
            return False
    return False


def _places(around: Sequence[cst.CSTNode]) -> bool:
    """Whether a value is a keyword that only says where something lies, or how it is handed over."""
    keywords = [node.keyword.value for node in around if isinstance(node, cst.Arg) and node.keyword is not None]
    return any(keyword in PLACES for keyword in keywords)
