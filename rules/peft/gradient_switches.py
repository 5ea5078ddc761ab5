"""Switches of gradients that change nothing: `for p in model.parameters(): p.requires_grad = True` of a model whose
weights are all trained, or `= False` in front of adapters, which PEFT trains alone anyway.

    for name, param in model.named_parameters():
        param.requires_grad = "lora" in name

Tunix trains the adapters where there are some, and all weights where there are none. Any other choice is left to a
person.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from porter.packs.api import Phase, Porting, is_none_somewhere, step
from porter.packs.script import (
    Binding,
    Use,
    in_two_branches,
    inside,
    reaching,
    role_uses,
    small_statement,
    without_placement,
)
from porter.packs.training import when_quantised

PART_OF = "TP210"
REASON = "what it switches is trained, or frozen, anyway"
WALKS = frozenset({"parameters", "named_parameters"})
OF_ADAPTERS = re.compile(r"""\(?(["'])\.?lora_?\1 (?P<without>not )?in (?P<name>\w+)(?:\.lower\(\))?\)?""")
NOWHERE = re.compile(
    r""" or \(?(["'])adapters?\1 in \w+(?:\.lower\(\))?\)?"""
)  # what no parameter of PEFT's is named by
PREPARES = frozenset({"prepare_model_for_kbit_training", "prepare_model_for_int8_training"})
TRAINABLE = re.compile(r"\bis_trainable\s*=\s*True\b")
DEEPEST = 6


@dataclass(frozen=True)
class Switched:
    """What a loop sets requires_grad to: of the adapters' parameters and of all others; None where it leaves them."""

    adapters: bool | None = None
    others: bool | None = None


@step(Phase.ANSWER, of="trainer", reads=("model.quantization",), fills=("claimed uses",))
def drop_gradient_switches(porting: Porting) -> None:
    """Take out loops that switch gradients as they are anyway, and `model.requires_grad_(True)`."""
    module = porting.module
    for use in list(role_uses(porting, "model")):
        if use.kind != "call" or porting.covered(module.span(use.outer)[0]):
            continue
        statement, switched = use.outer, None
        if use.chain in WALKS:
            statement = module.parents[use.outer]
            is_loop = isinstance(statement, cst.For) and statement.iter is use.outer and statement.orelse is None
            if is_loop and small_statement(module, statement)[0] is None:
                switched = _by_loop(porting, statement)  # type: ignore[arg-type]
        elif use.chain == "requires_grad_" and isinstance(module.parents[use.outer], cst.Expr):
            value = _given(use.outer)  # type: ignore[arg-type]
            switched = Switched(value, value) if value is not None else None
        if switched is not None and _is_idle(porting, use, statement, switched):
            porting.remove_statement(statement, PART_OF, REASON)


def _is_idle(porting: Porting, use: Use, statement: cst.CSTNode, switched: Switched) -> bool:
    """Whether the switches are those that the model has, or gets before it is trained."""
    made = _made(porting, use.name, DEEPEST)
    if made == {"adapters"}:
        return switched.adapters is not False and switched.others is not True
    if not _is_before_trainer(porting, statement):
        return False
    if made == {"whole"} and switched.others is True:
        return when_quantised(porting) is False
    if made and made <= {"whole", "prepared"} and switched.others is False:
        return _adapters_follow(porting, statement)
    return False


def _is_before_trainer(porting: Porting, statement: cst.CSTNode) -> bool:
    """Whether a statement of the trainer's function stands in front of it: a trainer may put adapters in."""
    module, trainer = porting.module, porting.trainer
    if trainer is None or module.scope(trainer.node) is not module.scope(statement):
        return False
    return module.span(statement)[1] <= module.span(trainer.node)[0]


def _made(porting: Porting, node: cst.BaseExpression, depth: int) -> set[str]:
    """What the model is where it is walked: with adapters, a whole one, or one that PEFT has frozen; "" for unknown."""
    found: set[str] = set()
    for binding in _last(porting, node) if depth else ():
        value = without_placement(binding.value) if isinstance(binding.value, cst.BaseExpression) else None
        if binding.kind not in ("assign", "unpack") or value is None:
            return {""}
        found |= _made(porting, value, depth - 1) if isinstance(value, cst.Name) else {_kind(porting, value)}
    return found or {""}


def _last(porting: Porting, node: cst.BaseExpression) -> list[Binding]:
    """The bindings that may hold at a place, without those of the other branch of an `if` around it, and those that a
    later line of their own block binds anew."""
    module = porting.module
    found = [each for each in reaching(module, node) if not in_two_branches(module, each.node, node)]
    lines = [(module.parents[module.statement(each.node)], module.span(each.node)[0]) for each in found]
    return [
        each
        for each, (block, start) in zip(found, lines, strict=True)
        if not any(block is other and start < behind < module.span(node)[0] for other, behind in lines)
    ]


def _kind(porting: Porting, value: cst.BaseExpression) -> str:
    if not isinstance(value, cst.Call):
        return ""
    name = porting.module.code(value.func).rsplit(".", 1)[-1]
    if name == "get_peft_model":
        return "adapters"
    full = porting.module.qualified(value.func) or ""
    if full.startswith("peft.") and name == "from_pretrained":
        return "adapters" if TRAINABLE.search(porting.module.code(value)) else ""
    if name in PREPARES or full.startswith("unsloth."):
        return "prepared"
    loads = any(site.node is value for site in porting.sites if site.role == "model")
    return "whole" if loads or name == "merge_and_unload" else ""


def _adapters_follow(porting: Porting, statement: cst.CSTNode) -> bool:
    """Whether adapters are put into the model behind a statement, whatever the run decides."""
    module = porting.module
    given = porting.trainer.argument("peft_config") if porting.trainer is not None else None
    if given is not None and porting.lora is not None:
        return not is_none_somewhere(module, given.node)
    if porting.inject is None:
        return False
    line, holder = module.statement(porting.inject.node), module.statement(statement)
    return module.parents[line] is module.parents[holder] and module.span(line)[0] > module.span(holder)[0]


def _by_loop(porting: Porting, loop: cst.For) -> Switched | None:
    """What a loop over parameters switches; None where it does anything else, or its names are read behind it."""
    module = porting.module
    names = [node for node in inside(loop.target) if isinstance(node, cst.Name)]
    end = module.span(loop)[1]
    for name in names:
        found = module.meaning(name)
        reads = module.references(name.value, found[0]) if found is not None else ()
        if any(end <= module.span(read)[0] for read in reads):
            return None
    parameter = names[-1].value if names else ""
    return _by_block(porting, loop.body, parameter, names[0].value if len(names) > 1 else "")


def _by_block(porting: Porting, block: cst.BaseSuite, parameter: str, name: str) -> Switched | None:
    module, found = porting.module, Switched()
    lines = [
        small for item in block.body for small in (item.body if isinstance(item, cst.SimpleStatementLine) else [item])
    ]
    for line in lines:
        if isinstance(line, cst.Pass):
            continue
        new: Switched | None
        if isinstance(line, cst.If):
            new = _by_branches(porting, line, parameter, name)
        else:
            code = module.code(line)
            given = re.fullmatch(rf"{parameter}\.requires_grad = (?P<value>.+)", code)
            called = line.value if isinstance(line, cst.Expr) and isinstance(line.value, cst.Call) else None
            if given is not None and given["value"] in ("True", "False"):
                new = Switched(given["value"] == "True", given["value"] == "True")
            elif given is not None and (asked := _of_adapters(given["value"], name)) is not None:
                new = Switched(asked, not asked)
            elif called is not None and module.code(called.func) == f"{parameter}.requires_grad_":
                value = _given(called)
                new = Switched(value, value) if value is not None else None
            else:
                new = None
        if new is None:
            return None
        found = Switched(
            found.adapters if new.adapters is None else new.adapters, found.others if new.others is None else new.others
        )
    return found


def _by_branches(porting: Porting, line: cst.If, parameter: str, name: str) -> Switched | None:
    """`if "lora" in name: ...` and its `else:`."""
    asked = _of_adapters(porting.module.code(line.test), name)
    other = line.orelse
    if asked is None or (other is not None and not isinstance(other, cst.Else)):
        return None
    first = _by_block(porting, line.body, parameter, name)
    second = _by_block(porting, other.body, parameter, name) if other is not None else Switched()
    if first is None or second is None:
        return None
    return Switched(first.adapters, second.others) if asked else Switched(second.adapters, first.others)


def _of_adapters(test: str, name: str) -> bool | None:
    """True for `"lora" in name` (`or "adapter" in name`), False for `not in`; None for any other condition."""
    found = OF_ADAPTERS.fullmatch(NOWHERE.sub("", " ".join(test.split())))
    return not found["without"] if found is not None and name and found["name"] == name else None


def _given(call: cst.Call) -> bool | None:
    """What `requires_grad_(...)` is given; None where that isn't written."""
    if not call.args:
        return True
    value = call.args[0].value
    return value.value == "True" if isinstance(value, cst.Name) and value.value in ("True", "False") else None
