"""Counts of the model's parameters, which scripts write by hand: `sum(p.numel() for p in model.parameters())`.

A function of the file that does no more than count and print them is `rt.print_trainable_parameters(model)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, Use, calls_of, inside, role_uses, small_statement

from ._counting_loops import replace_loop, say_packed, say_text_alone

PART_OF = "TP210"
REASON = "the same count over Tunix's parameters"
OF_FUNCTION = "the same counts of Tunix's parameters, in the words of PEFT's print_trainable_parameters"
COUNTED = ("parameters", "named_parameters")
FILTERS = re.compile(r"lambda (?P<p>\w+): (?P=p)\.requires_grad")
TRAINED = "trained"
# What a function may call and still only count and print.
COUNTING = frozenset(
    "numel named_parameters parameters print format round element_size size sum ds_numel hasattr".split()
)


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def replace_counts(porting: Porting) -> None:
    """Replace counts of the model's parameters, and calls of the file's functions that count them."""
    for use in list(role_uses(porting, "model")):
        if use.match.endswith("get_nb_trainable_parameters()"):
            _replace_both(porting, use)
        elif use.match.endswith("num_parameters()"):
            _replace_number(porting, use)
        elif use.chain.rsplit(".", 1)[-1] in COUNTED and use.kind == "call":
            if not _replace_sum(porting, use) and not _drop_cast(porting, use) and not _replace_function(porting, use):
                replace_loop(porting, use)


def _replace_sum(porting: Porting, use: Use) -> bool:
    """`sum(p.numel() for p in model.parameters())` → `rt.count_parameters(model)`; False where it is no such sum."""
    module = porting.module
    walked, tests = _filtered(module, use.outer)
    loop = module.parents[walked]
    if not isinstance(loop, cst.CompFor) or loop.iter is not walked or loop.inner_for_in is not None:
        return False
    parameter = loop.target.elements[-1].value if isinstance(loop.target, cst.Tuple) else loop.target
    around = module.parents[loop]
    call = module.parents[module.parents[around]] if isinstance(around, cst.GeneratorExp | cst.ListComp) else None
    name = module.code(parameter)
    if not isinstance(around, cst.GeneratorExp | cst.ListComp) or not isinstance(call, cst.Call) or len(call.args) != 1:
        return False
    element, called = module.code(around.elt), module.code(call.func)
    if called == "any" and element == f"{name}.requires_grad" and not loop.ifs:
        code = f"{porting.rt('count_parameters')}({module.code(use.name)}, trainable=True) > 0"
        apart = isinstance(module.parents[call], cst.BooleanOperation | cst.UnaryOperation | cst.Comparison)
        porting.edit(*module.span(call), f"({code})" if apart else code, PART_OF, REASON)
        return True
    if called != "sum" or element not in (f"{name}.numel()", f"{name}.nelement()"):
        return False
    tests += [module.code(test.test) for test in loop.ifs]
    which = {"": "", f"{name}.requires_grad": ", trainable=True", TRAINED: ", trainable=True"}.get(" and ".join(tests))
    if which is None and isinstance(loop.target, cst.Tuple) and _of_adapters(tests, module.code(loop.target), name):
        which = ", lora=True"
    if which is None:
        return False
    porting.edit(
        *module.span(call), f"{porting.rt('count_parameters')}({module.code(use.name)}{which})", PART_OF, REASON
    )
    if not which:
        say_packed(porting, call)
        say_text_alone(porting, call)
    return True


def _filtered(module: Module, walk: cst.CSTNode) -> tuple[cst.CSTNode, list[str]]:
    """What a sum goes through, and what it leaves out before: `filter(lambda p: p.requires_grad, walk)`."""
    argument = module.parents[walk]
    call = module.parents[argument]
    if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call) or len(call.args) != 2:
        return walk, []
    trained = FILTERS.fullmatch(module.code(call.args[0].value)) is not None
    return (call, [TRAINED]) if trained and module.code(call.func) == "filter" else (walk, [])


def _of_adapters(tests: Sequence[str], target: str, parameter: str) -> bool:
    """Whether the parameters of a sum are those that PEFT calls `lora_A` and `lora_B`: `if "lora" in name.lower()`."""
    left = [test for test in tests if test != f"{parameter}.requires_grad"]
    name = re.match(r"\(?\s*(\w+)", target)
    return (
        len(left) == 1
        and name is not None
        and re.fullmatch(rf"""["']lora_?["'] in {name[1]}(\.lower\(\))?""", left[0]) is not None
    )


def _replace_both(porting: Porting, use: Use) -> None:
    """PEFT's `model.get_nb_trainable_parameters()`: how many are trained, and all of them."""
    count, model = porting.rt("count_parameters"), porting.module.code(use.name)
    new = f"{count}({model}, trainable=True), {count}({model})"
    if not isinstance(porting.module.parents[use.outer], cst.Assign):
        new = f"({new})"
    porting.edit(*porting.module.span(use.outer), new, PART_OF, REASON)
    say_text_alone(porting, use.outer)


def _replace_number(porting: Porting, use: Use) -> None:
    """transformers' `model.num_parameters()`, and with `only_trainable=True`, which is its first argument."""
    module, call = porting.module, use.outer
    assert isinstance(call, cst.Call)
    asked = ", ".join(module.code(argument).strip(", ") for argument in call.args).replace(" ", "")
    trainable = {"": "", "True": ", trainable=True", "False": ""}.get(asked.removeprefix("only_trainable="))
    if trainable is not None:
        new = f"{porting.rt('count_parameters')}({module.code(use.name)}{trainable})"
        porting.edit(*module.span(call), new, PART_OF, REASON)
        if not trainable:
            say_text_alone(porting, call)


TRAINED_IN_FLOAT32 = re.compile(
    r"""for\s+(?:\w+\s*,\s*)?(?P<p>\w+)\s+in\s+[\w.()]+:\s*
    if\s+(?:(?P=p)\.requires_grad|["']lora["']\s+in\s+\w+)\s*:\s*
    (?P=p)\.data\s*=\s*(?P=p)\.data\.(?:to\((?:dtype\s*=\s*)?torch\.float(?:32)?\)|float\(\))\s*""",
    re.VERBOSE,
)


def _drop_cast(porting: Porting, use: Use) -> bool:
    """A loop that casts what is trained to float32 goes: the port's adapters are."""
    loop = porting.module.parents[use.outer]
    if not isinstance(loop, cst.For) or loop.iter is not use.outer:
        return False
    if TRAINED_IN_FLOAT32.fullmatch(porting.module.code(loop)) is None:
        return False
    porting.remove_statement(loop, PART_OF, "adapters are float32 here, whatever the base is")
    return True


def _replace_function(porting: Porting, use: Use) -> bool:
    """`print_trainable_parameters(model)` of the file's own, when counting and printing is all that it does; False
    where it isn't."""
    module = porting.module
    function = module.scope(use.name).node
    if not isinstance(function, cst.FunctionDef) or not _only_counts(porting, function):
        return False
    calls = calls_of(module, function)
    uses = module.loads(function.name.value)
    if len(calls) != len(uses) or not all(
        len(call.args) == 1 and isinstance(module.parents[call], cst.Expr) and small_statement(module, call)[0]
        for call in calls
    ):
        return False
    for call in calls:
        model = module.code(call.args[0].value)
        porting.edit(*module.span(call), f"{porting.rt('print_trainable_parameters')}({model})", PART_OF, OF_FUNCTION)
    if "4bit" not in module.code(function):  # `if p.__class__.__name__ == "Params4bit":`, which counts both
        say_packed(porting, calls[0] if calls else function)
    say_text_alone(porting, calls[0] if calls else function)
    porting.remove_statement(function, PART_OF, OF_FUNCTION)
    return True


def _only_counts(porting: Porting, function: cst.FunctionDef) -> bool:
    """Whether a function of one parameter calls only what counting needs, returns nothing and sets no attribute."""
    nodes = list(inside(function.body))
    called = {porting.module.code(node.func).rsplit(".", 1)[-1] for node in nodes if isinstance(node, cst.Call)}
    logs = {name for name in called if name in ("info", "debug")}
    changes = any(isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Attribute) for node in nodes)
    gives = any(isinstance(node, cst.Return) and node.value is not None for node in nodes)
    return (
        len(function.params.params) == 1 and "numel" in called and called - logs <= COUNTING and not (changes or gives)
    )
