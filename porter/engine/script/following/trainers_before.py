"""Trainers in front of one that get the same model: they have trained it, or put adapters into it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from ....source.calls import calls_of, function_around, named_arguments
from ....source.module import Module
from ..fill_from_tables import argument_at, trainers_known
from ..flow import origins, put_in_again
from ..sites import Site
from ..trainers import are_apart
from ..training import Training
from .reaching import reaching

TRAINERS = ("the trainers with their models",)
ADAPTING = ("the trainers that put adapters in",)
DEEPEST, MOST_WAYS = 6, 32  # functions that call each other; ways through them


def was_trained(porting: Training) -> bool:
    """Whether a trainer in front of this one gets the same model."""
    return any(_trainers_before(porting))


def has_anothers_adapters(porting: Training) -> bool:
    """Whether a trainer in front of this one puts adapters into the model that both get: that is done in place, and
    this one, which gets the bare model, trains them without knowing of them."""
    if porting.inject is not None or _gets_config(porting, porting.trainer) or _is_wrapped_again(porting):
        return False
    return _puts_adapters_in(porting)


def puts_in_twice(porting: Training) -> bool:
    """Whether a trainer in front of this one has put adapters into the model that this one puts its own into."""
    return _gets_config(porting, porting.trainer) and _puts_adapters_in(porting)


def _puts_adapters_in(porting: Training) -> bool:
    if ADAPTING not in porting.answers:
        trainers = porting.of_role("trainer")
        porting.answers[ADAPTING] = frozenset(site.node for site in trainers if _gets_config(porting, site))
    adapting: frozenset[cst.CSTNode] = porting.answers[ADAPTING]
    return bool(adapting) and any(_trainers_before(porting, adapting))


def _is_wrapped_again(porting: Training) -> bool:
    """Whether get_peft_model, or a PeftModel, behind the trainer before gives the model: it knows its adapters."""
    module, trainer = porting.module, porting.trainer
    model = trainer.argument("model") if trainer is not None else None
    held = reaching(module, model.node) if model is not None and isinstance(model.node, cst.Name) else []
    return bool(held) and all(binding.value in put_in_again(module) for binding in held)


def _gets_config(porting: Training, trainer: Site | None) -> bool:
    """Whether a trainer is given the configuration of adapters that it puts in."""
    given = argument_at(porting, trainer, "lora.config") if trainer is not None else None
    return given is not None and not given.value.is_literal(None)


def _trainers_before(porting: Training, among: frozenset[cst.CSTNode] | None = None) -> Iterator[cst.Call]:
    """The trainers in front of this one that get the same model, all or of these."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    model = trainer.argument("model")
    own = {*origins(module, model.node)} if model is not None else set()
    for call, given in _trainers(porting):
        if among is None or call in among:
            if not given.isdisjoint(own) and _comes_before(module, call, trainer.node):
                yield call


def _trainers(porting: Training) -> list[tuple[cst.Call, frozenset[cst.CSTNode]]]:
    """Every trainer of the file with what its model may be made of, looked up once."""
    if TRAINERS not in porting.answers:
        module, known = porting.module, trainers_known(porting)
        calls = module.calls_that(lambda call: (module.qualified(call.func) or "") in known)
        models = [(call, named_arguments(call, ("model",)).get("model")) for call in calls]
        porting.answers[TRAINERS] = [
            (call, frozenset(origins(module, model))) for call, model in models if model is not None
        ]
    found: list[tuple[cst.Call, frozenset[cst.CSTNode]]] = porting.answers[TRAINERS]
    return found


def _comes_before(module: Module, one: cst.CSTNode, later: cst.CSTNode) -> bool:
    """Whether a run may come to `one` and then to `later`, by the lines that call the functions which hold them."""
    ways = [[*itertools.islice(_ways(module, node), MOST_WAYS)] for node in (one, later)]
    for first, second in itertools.product(*ways):
        differ = next(((a, b) for a, b in zip(first, second, strict=False) if a is not b), None)
        if differ is not None and module.span(differ[0])[0] < module.span(differ[1])[0]:
            if not are_apart(module, *differ):
                return True
    return False


def _ways(module: Module, node: cst.CSTNode, depth: int = 0) -> Iterator[tuple[cst.CSTNode, ...]]:
    """The calls by which a run comes to a node, the outermost first, and the node itself."""
    function = function_around(module, node)
    calls = calls_of(module, function) if function is not None and depth < DEEPEST else []
    outer = [call for call in calls if function_around(module, call) is not function]  # `trainer.train()` in `train`
    if not outer:
        yield (node,)
    for call in outer:
        yield from ((*way, node) for way in _ways(module, call, depth + 1))
