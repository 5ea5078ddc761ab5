"""The training of an epoch in a function of its own: `for epoch in range(3): train_epoch(model, loader, optimizer)`.

The loop over epochs is the one that is read and replaced. A parameter of the function means what the loop gives it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst

from ...source.calls import argument_of, calls_of, function_around
from ...source.module import Module
from ...source.read_value import read_value
from ...source.scopes import first_parameter, walk
from .statements.blocks import is_backward, lines_of
from .statements.facts import Loop
from .statements.not_standard import NotStandard

NODES = ("loader", "accumulation", "divides", "clip", "clip_if", "max_steps", "autocast_flag", "autocast_at")


@dataclass(frozen=True)
class CalledEpoch:
    """The one call of a function that trains an epoch, and its loop over batches."""

    call: cst.Call
    function: cst.FunctionDef
    batches: cst.For | cst.While

    def outside(self, module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
        """What an expression of the function is where it is called: NotStandard where only the function knows."""
        if isinstance(node, cst.Name) and self._is_given(module, node.value):
            given = argument_of(module, self.call, node.value)
            if given is not None:
                return given
        if read_value(module, node).known:
            return node
        for name in module.names_read(node):
            found = module.scope(name).lookup(name.value)
            own = name.value == first_parameter(self.function)
            if found is None or found[0].node is not self.function:
                continue
            if own and module.code(self.call.func).startswith(f"{name.value}."):  # another method's `self`
                continue
            given = argument_of(module, self.call, name.value) if self._is_given(module, name.value) else None
            if given is None or module.code(given) != name.value:
                called, code = self.function.name.value, module.code(node)
                raise NotStandard(node, f"`{code}` is known within `{called}` alone", f"Give it to {called}.")
        return node

    def named_outside(self, module: Module, name: str) -> str:
        """What a name of the function is called where it is called."""
        given = argument_of(module, self.call, name) if self._is_given(module, name) else None
        return module.code(given) if isinstance(given, cst.Name | cst.Attribute) else name

    def _is_given(self, module: Module, name: str) -> bool:
        """Whether a name is a parameter that the function doesn't bind anew."""
        bindings = module.scopes[self.function].bindings.get(name, ())
        return [binding.kind for binding in bindings] == ["parameter"]


def called_epoch(module: Module, batches: cst.For | cst.While) -> tuple[CalledEpoch, cst.For | cst.While] | None:
    """The call of the function of which a loop over batches is a line, and the loop that calls it; None for others."""
    block = module.parents.get(batches)
    function = module.parents.get(block) if block is not None else None
    if not isinstance(function, cst.FunctionDef) or function.decorators:
        return None
    calls = calls_of(module, function)
    if len(calls) != 1:
        return None
    around = []
    for node in module.ancestors(calls[0]):
        if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            break
        if isinstance(node, cst.For | cst.While):
            around.append(node)
    return (CalledEpoch(calls[0], function, batches), around[-1]) if around else None


def epoch_called_by(module: Module, statement: cst.For | cst.While) -> CalledEpoch | None:
    """The training of an epoch that a line of a loop calls."""
    for line in lines_of(statement.body):
        for call in walk(line):
            function = module.callees.get(call) if isinstance(call, cst.Call) else None
            for inner in lines_of(function.body) if function is not None else ():
                if isinstance(inner, cst.For | cst.While) and any(is_backward(node) for node in walk(inner)):
                    found = called_epoch(module, inner)
                    return found[0] if found is not None and found[1] is statement else None
    return None


def mean_outside(module: Module, loop: Loop, called: CalledEpoch) -> None:
    """What is read of the loop, as it is where the function is called; what isn't known there is an obstacle."""
    for field in NODES:
        node = getattr(loop, field)
        if node is not None:
            try:
                setattr(loop, field, called.outside(module, node))
            except NotStandard as error:
                loop.obstacles.append(error)
    if loop.unlabelled is not None and loop.unlabelled.value is not None:
        try:
            value = called.outside(module, loop.unlabelled.value)
            loop.unlabelled = replace(loop.unlabelled, value=value)
        except NotStandard as error:
            loop.obstacles.append(error)
    for field in ("model", "optimizer", "scheduler"):
        setattr(loop, field, called.named_outside(module, getattr(loop, field)))
    if loop.call is not None:
        try:
            loop.trained = called.outside(module, loop.call.func)
        except NotStandard as error:
            loop.obstacles.append(error)


def known_by_caller(module: Module, loop: Loop) -> None:
    """The parts of a loop by the names that they have where its function is called, if it is in one place."""
    function = function_around(module, loop.statement)
    calls = calls_of(module, function) if function is not None else []
    if function is None or len(calls) != 1:
        return
    by_call = CalledEpoch(calls[0], function, loop.statement)
    for field in ("optimizer", "scheduler"):
        setattr(loop, field, by_call.named_outside(module, getattr(loop, field)))
    if isinstance(loop.loader, cst.Name) and by_call.named_outside(module, loop.loader.value) != loop.loader.value:
        loop.loader = by_call.outside(module, loop.loader)
