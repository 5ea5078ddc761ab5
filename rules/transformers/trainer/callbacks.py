"""The trainer's callbacks: which of them Tunix's hooks can call, and what of them can't be carried over.

A class of the script stays as it is written, on the runtime's TrainerCallback. Its methods are read for what a
callback has there: the config, the state, the control's should_training_stop, logs, metrics, model and tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Argument, Phase, Porting, step
from porter.packs.script import Module, inside, origins, shown
from porter.packs.training import (
    EVENTS,
    TOKENIZER,
    bindings_of,
    facts_of,
    is_callback,
    parameters_of,
    rest_reads,
)

PART_OF = "transformers"
RULE = "TP360"

KNOWN = frozenset(f"transformers.{path}EarlyStoppingCallback" for path in ("", "trainer_callback."))
STATE = frozenset(
    """
    global_step epoch max_steps num_train_epochs log_history best_metric best_global_step best_model_checkpoint
    is_world_process_zero is_local_process_zero
    """.split()
)
GIVEN = frozenset({"self", "args", "state", "control", "logs", "metrics", "model", *TOKENIZER})
# What TRL's trainers log and the port's hooks don't, by the names in their `_metrics`.
LOGGED_BY_TRL = re.compile(r"(?:train/)?(?:aux_loss|sampling/.*|vespo/.*)")


@step(Phase.WRITE, of="trainer", reads=("names",), fills=("parts",))
def write_callbacks(porting: Porting) -> None:
    """The code of the trainer's callbacks, judged one by one."""
    porting.code["callbacks"] = _code(porting)


def _code(porting: Porting) -> str:
    """The callbacks as the port has them; empty where there are none."""
    site = porting.trainer
    given = site.argument("callbacks") if site is not None else None
    if given is None or given.value.is_literal(None) or given.text in ("[]", "()"):
        return ""
    elements = _elements(porting.module, given)
    gone = [element for element in elements or () if _is_gone(porting.module, element)]
    for element in elements or ():
        if element not in gone:
            judge_callback(porting, element)
    if gone:
        return _without(porting, given, elements or [], gone)
    if elements is None:
        reason = "which callbacks these are is decided when the script runs; the port takes the runtime's alone"
        porting.change_fate(".callbacks", fate="changed", reason=reason)
    return given.text


def _is_gone(module: Module, element: cst.BaseExpression) -> bool:
    """Whether a callback is one that a pack says has nothing to do on a TPU."""
    return any(_name(module, value) in facts_of(module).callbacks_gone for value in origins(module, element))


def _name(module: Module, value: cst.BaseExpression) -> str | None:
    return module.qualified(value.func if isinstance(value, cst.Call) else value)


def _without(
    porting: Porting, given: Argument, elements: list[cst.BaseExpression], gone: list[cst.BaseExpression]
) -> str:
    """The code of the callbacks without those that go: of a list at the trainer; one made before loses them there."""
    module = porting.module
    names = ", ".join(shown(module.code(element)) for element in gone)
    reason = f"{names}: it has nothing to do on a TPU"
    kept = [element for element in elements if element not in gone]
    porting.change_fate(".callbacks", fate="changed" if kept else "dropped", reason=reason)
    if isinstance(given.node, cst.List | cst.Tuple):
        return f"[{', '.join(module.code(element) for element in kept)}]" if kept else ""
    holder = module.parents[module.parents[gone[0]]]
    porting.edit(*module.span(holder), f"[{', '.join(module.code(element) for element in kept)}]", RULE, reason)
    return given.text if kept else ""


def judge_callback(porting: Porting, element: cst.BaseExpression) -> None:
    """A finding for a callback that can't be called from Tunix's hooks, or does there what they can't."""
    module = porting.module
    made = next((value for value in origins(module, element) if isinstance(value, cst.Call | cst.Name)), element)
    for value in origins(module, element):
        if isinstance(value, cst.Call):
            made = value
    name = made.func if isinstance(made, cst.Call) else made
    if module.qualified(name) in KNOWN or module.qualified(name) in facts_of(module).callbacks:
        return
    definition = _definition(module, name)
    line, column = module.location(element)
    if definition is None or not is_callback(module, definition):
        message = f"callback {shown(module.code(name))}: {_why_not(module, definition)}."
        porting.change_fate(".callbacks", fate="manual", target="", reason="a callback that isn't of this file")
        fix = "Leave it out, or write what it does in a TrainerCallback of this file."
        porting.find(RULE, "error", message, fix, line, column)
        return
    _say_missing_logs(porting, definition)
    for node, what in _beyond(porting, definition):
        line, column = module.location(node)
        message = f"{definition.name.value}: {what}, which Tunix's hooks don't have."
        fix = "Do without it, or do it beside trainer.train."
        porting.change_fate(".callbacks", fate="manual", target="", reason="a callback does what Tunix's hooks can't")
        porting.find(RULE, "error", message, fix, line, column)


def _say_missing_logs(porting: Porting, definition: cst.ClassDef) -> None:
    """A warning for what a callback takes out of TRL's logs by its name, and the port doesn't log."""
    site = porting.trainer
    if site is None or not site.qualified.startswith("trl."):
        return
    read = dict.fromkeys(
        str(node.evaluated_value)
        for node in inside(definition)
        if isinstance(node, cst.SimpleString) and LOGGED_BY_TRL.fullmatch(str(node.evaluated_value))
    )
    if read:
        names = ", ".join(read)
        message = f"{definition.name.value} reads {names} of the logs: TRL logs it, the port doesn't."
        fix = "Expect these empty, or take them out."
        porting.find(RULE, "warning", message, fix, *porting.module.location(definition), todo=False)


def _why_not(module: Module, definition: cst.ClassDef | None) -> str:
    """What keeps a class from being called by Tunix's hooks."""
    if definition is None:
        return "its class is not of this file, and only the Trainer calls its events"
    if definition.bases:
        base = shown(module.code(definition.bases[0].value))
        return f"its class derives from {base}, which works on the Trainer and the torch model"
    return "it is no TrainerCallback; transformers calls every event of it, and raises at one that it lacks"


def _elements(module: Module, given: Argument) -> list[cst.BaseExpression] | None:
    for value in origins(module, given.node):
        if isinstance(value, cst.List | cst.Tuple):
            return [element.value for element in value.elements]
    return None


def _definition(module: Module, name: cst.BaseExpression) -> cst.ClassDef | None:
    found = [binding.node for binding in bindings_of(module, name)]
    return found[0] if len(found) == 1 and isinstance(found[0], cst.ClassDef) else None


def _beyond(porting: Porting, definition: cst.ClassDef) -> Iterator[tuple[cst.CSTNode, str]]:
    """What the methods of a callback ask for beyond the runtime's."""
    for statement in definition.body.body:
        if not isinstance(statement, cst.FunctionDef) or not statement.name.value.startswith("on_"):
            continue
        if statement.name.value not in EVENTS:
            yield statement, statement.name.value
            continue
        named = parameters_of(statement)
        names = [parameter.name.value for parameter in named]
        role = dict(zip(names[:4], ("self", "args", "state", "control"), strict=False))
        used = _names(statement.body)
        given = GIVEN - {"model"} if statement.name.value == "on_init_end" else GIVEN
        for parameter in named[4:]:
            if parameter.name.value not in given and parameter.name.value in used:
                yield parameter, f"{statement.name.value} uses {parameter.name.value}"
        yield from _uses(porting, statement, role, given)


def _uses(
    porting: Porting, method: cst.FunctionDef, role: dict[str, str], given: frozenset[str]
) -> Iterator[tuple[cst.CSTNode, str]]:
    collector = _Collector()
    method.body.visit(collector)
    for node in collector.attributes:
        owner = node.value.value if isinstance(node.value, cst.Name) else ""
        kind, attribute = role.get(owner), node.attr.value
        if kind == "state" and attribute not in STATE:
            yield node, f"it reads {owner}.{attribute}"
        elif kind == "control" and attribute != "should_training_stop":
            yield node, f"it sets {owner}.{attribute}"
        elif kind == "args" and not porting.arguments_object:
            yield node, f"it reads {owner}.{attribute}, a config that is spread over the port"
    for read, key in rest_reads(porting.module, method):
        if key not in given:
            yield read, f"it reads {key}"


def _names(body: cst.BaseSuite) -> set[str]:
    collector = _Collector()
    body.visit(collector)
    return collector.names


class _Collector(cst.CSTVisitor):
    """Attributes and names."""

    def __init__(self) -> None:
        self.attributes: list[cst.Attribute] = []
        self.names: set[str] = set()

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.attributes.append(node)

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)
