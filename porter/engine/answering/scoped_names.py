"""What a trainer takes along when it is used in another function than the one that makes it.

There, the batches and the tokenizer are no names; the port gives them to the trainer as attributes, as transformers'
Trainer holds its own: `trainer.batches`, `trainer.processing_class`, `trainer.args`.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

import libcst as cst

from ...recipe import Value
from ...source.calls import function_around
from ...source.scopes import Scope, first_parameter
from ...text.expressions import names_in
from ..script.following.rebound import is_set_between
from ..script.porting import TRAINER, Porting
from ..script.sites import indentation, small_statement
from ..script.uses_of_training import Use, is_in_reach
from ..script.where_values_go import unwraps
from ..steps.step import Phase, step

# What a trainer can take along: its attribute → the name of the port that it holds.
CARRIED = {"batches": "batches", "eval_batches": "eval_batches", "processing_class": "tokenizer"}
RULE = "TP111"


@contextmanager
def named_at(porting: Porting, use: Use) -> Iterator[str]:
    """The port's names as they are where `use` stands, while its rule is applied; the text of what is used."""
    names, arguments, values = porting.names, porting.arguments_object, porting.recipe.values
    text = porting.module.code(use.name)
    if isinstance(use.name, cst.Call):
        text = _named_call(porting, use.name, use.role)
    if not is_in_reach(porting, use.name):
        if use.role == "trainer":
            porting.elsewhere.add(text)
            porting.recipe = replace(porting.recipe, values=_values_at(porting, use, text))
            held = {"trainer": text, "model": _held(porting, use, text, "model", names.model)}
            for attribute, name in CARRIED.items():
                held[name] = _held(porting, use, text, attribute, getattr(names, name))
            porting.names = replace(names, **held)
            porting.arguments_object = _held(porting, use, text, "args", arguments)
        else:
            porting.names = replace(names, model=_trained_model(porting, use, text), tokenizer="")
    elif use.role == "trainer":
        porting.names = replace(names, trainer=text, **_bound_again(porting, use, text))
    try:
        yield text
    finally:
        porting.names, porting.arguments_object = names, arguments
        porting.recipe = replace(porting.recipe, values=values)


def _bound_again(porting: Porting, use: Use, text: str) -> dict[str, str]:
    """The trainer's model and tokenizer by the trainer, where their names hold others by then."""
    site, found = porting.trainer, dict[str, str]()
    for name, attribute, keywords in (
        ("model", "model", ("model",)),
        ("tokenizer", "processing_class", ("processing_class", "tokenizer")),
    ):
        given = site.argument(*keywords) if site is not None else None
        if given is None or given.text != getattr(porting.names, name):
            continue
        if is_set_between(porting.module, given.node, use.outer):
            found[name] = f"{text}.{attribute}"
    if "tokenizer" in found:
        porting.elsewhere.add(text)
    return found


def _held(porting: Porting, use: Use, text: str, attribute: str, name: str) -> str:
    """What the trainer's function calls `name`, read elsewhere: the same, or an attribute of the trainer."""
    if not name or (attribute not in ("batches", "eval_batches") and _is_read_alike(porting, name, use.name)):
        return name
    return f"{text}.{attribute}"


def _values_at(porting: Porting, use: Use, text: str) -> dict[str, Value]:
    """The recipe's values as code elsewhere can read them: literals, globals, and what the trainer takes along."""
    found = {}
    own = f"{porting.arguments_object}."
    held = _held(porting, use, text, "args", porting.arguments_object)
    for place, value in porting.recipe.values.items():
        if value.known:
            value = replace(value, text="")
        elif porting.arguments_object and value.code.startswith(own):
            value = replace(value, code=f"{held}.{value.code.removeprefix(own)}", text="")
        elif place == "run.output_dir" and not _is_read_alike(porting, value.code, use.name):
            value = replace(value, code=f"{text}.output_dir", text="")
        found[place] = value
    return found


def _is_read_alike(porting: Porting, code: str, node: cst.CSTNode) -> bool:
    """Whether the names of an expression mean the same at the trainer and at `node`."""
    assert porting.trainer is not None
    here, there = porting.module.scope(node), porting.trainer.scope
    names = names_in(code)
    found = [(here.lookup(name), there.lookup(name)) for name in names - set(dir(builtins))]
    return all(one and other and _is_same(one[0], other[0], code) for one, other in found)


def _is_same(one: Scope, other: Scope, code: str) -> bool:
    """Whether a name means the same in two scopes; `self` does in two methods of a class."""
    methods = isinstance(one.node, cst.FunctionDef) and isinstance(other.node, cst.FunctionDef)
    selves = methods and {first_parameter(scope.node) for scope in (one, other)} == {code.partition(".")[0]}  # type: ignore[arg-type]
    in_class = one.parent is other.parent and one.parent is not None and isinstance(one.parent.node, cst.ClassDef)
    return one is other or (selves and in_class and re.fullmatch(r"\w+(\.\w+)+", code) is not None)


def _named_call(porting: Porting, call: cst.Call, role: str) -> str:
    """A name for what `build_trainer(...)` gives back on the spot, bound in front of its statement."""
    assert porting.trainer is not None
    if call is porting.trainer.node:
        return porting.names.trainer
    module = porting.module
    if unwraps(call):
        return porting.code_now(call.args[0].value)
    small, place = small_statement(module, call)
    code, (start, end) = porting.code_now(call), module.span(call)
    if small is None or place != "line" or (porting.covered(start) and porting.covered(end)):
        return code  # in the last case another rule has written what is around it
    name = porting.fresh(role)
    start = module.span(small)[0]
    reason = f"the {role} has a name"
    porting.edit(start, start, f"{name} = {code}\n{indentation(module.text, start)}", RULE, reason)
    porting.edit(*module.span(call), name, RULE, reason)
    return name


def _trained_model(porting: Porting, use: Use, text: str) -> str:
    """Where adapters are put in at the trainer, the function that gave it the model has the trained one from it."""
    from ..script.where_values_go import holders

    assert porting.trainer is not None
    put_in_here = porting.inject is None and (porting.lora is not None or porting.lora_object)
    if not put_in_here or text == porting.names.model:
        return text
    function = function_around(porting.module, use.name)
    for place in holders(porting.module, porting.trainer)[0]:
        for other in porting.module.references(place.variable, place.scope):
            if function_around(porting.module, other) is function:
                return f"{porting.module.code(other)}.model"
    return text


@step(Phase.CARRY, of="trainer", fills=("carried",))
def carry(porting: Porting) -> None:
    """Behind the trainer: the attributes under which code elsewhere finds what belongs to it."""
    trainer = porting.trainer
    assert trainer is not None
    written = porting.written_names()
    held = {attribute: getattr(porting.names, name) for attribute, name in CARRIED.items()}
    held |= {"args": porting.arguments_object, "output_dir": porting.output_dir()}
    if porting.given_away:
        porting.elsewhere.add(porting.names.trainer)
        written |= {f"{porting.names.trainer}.{name}" for name in CARRIED}
    read = {attribute for text in porting.elsewhere for attribute in _attributes(text, written)}
    trainer_name = porting.names.trainer
    lines = [f"{trainer_name}.{attribute} = {name}" for attribute, name in held.items() if name and attribute in read]
    if lines:
        porting.add_behind(TRAINER, lines, trainer)


def _attributes(text: str, written: Collection[str]) -> list[str]:
    """The attributes of `text` that new code reads."""
    front = f"{text}."
    return [name.removeprefix(front).partition(".")[0] for name in written if name.startswith(front)]
