"""In which order the DataLoader of a training loop gives its rows: shuffled or not, by `shuffle=` or by a sampler."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...recipe import Value
from ...source.calls import named_arguments
from ...source.module import Module
from ...source.read_value import read_value
from ...text.expressions import choice
from ..script.fill_from_tables import bindings_of
from ..script.flow import origins
from ..script.sites import Argument, Site
from .statements.blocks import last_name

RANDOM, SEQUENTIAL = "random", "sequential"
# Torch's samplers of all rows, each once, by what they are made with.
SAMPLERS = {"RandomSampler": RANDOM, "SequentialSampler": SEQUENTIAL, "DistributedSampler": RANDOM}
PLACES = {
    "RandomSampler": ("data_source", "replacement", "num_samples", "generator"),
    "SequentialSampler": ("data_source",),
    "DistributedSampler": ("dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last"),
}
KEEPS_ALL = {"shuffle", "seed", "generator", "num_replicas", "rank", "drop_last", "dataset", "data_source"}
MAX_WAYS = 8  # names and conditions between a sampler and what makes it


def sampling(module: Module, loader: Site) -> Value:
    """Whether the rows of an epoch come shuffled."""
    shuffle, sampler = loader.argument("shuffle"), loader.argument("sampler")
    orders = {*_orders(module, sampler.node)} - {""} if sampler is not None else set()
    if len(orders) == 1:
        [order] = orders
        return _value(order) if order in (RANDOM, SEQUENTIAL) else _by(order)
    if shuffle is None or shuffle.value.known:
        return _value(RANDOM if shuffle is not None and shuffle.value.literal else SEQUENTIAL)
    return _by(shuffle.text)


def has_own_order(module: Module, sampler: Argument | None) -> bool:
    """Whether a sampler gives the rows in an order of its own, or in several."""
    orders = {*_orders(module, sampler.node)} - {""} if sampler is not None else set()
    return None in orders or len(orders) > 1


def _value(order: str) -> Value:
    return Value("literal", repr(order))


def _by(test: str | None) -> Value:
    return Value("expression", choice(str(test), f'"{RANDOM}"', f'"{SEQUENTIAL}"'))


def _orders(module: Module, node: cst.BaseExpression | None, depth: int = 0) -> Iterator[str | None]:
    """The orders that a sampler may have: "" where it is None and `shuffle=` says it, a condition under which it is
    shuffled, None for one of its own."""
    *_, made = [None, *origins(module, node)]
    if made is None or depth > MAX_WAYS:
        yield None
    elif isinstance(made, cst.IfExp):
        yield from _orders(module, made.body, depth + 1)
        yield from _orders(module, made.orelse, depth + 1)
    elif isinstance(made, cst.Call):
        yield _order(module, made)
    elif read_value(module, made).is_literal(None):
        yield ""
    else:
        bindings = bindings_of(module, made)
        for binding in bindings:
            yield from _orders(module, binding.value if binding.kind == "assign" else None, depth + 1)
        if not bindings:
            yield None


def _order(module: Module, call: cst.Call) -> str | None:
    name = last_name(call.func)
    keywords = named_arguments(call, PLACES.get(name, ()))
    if name not in SAMPLERS or not keywords.keys() <= KEEPS_ALL:
        return None
    shuffle = keywords.get("shuffle")
    if shuffle is None:
        return SAMPLERS[name]
    said = read_value(module, shuffle)
    return (RANDOM if said.literal else SEQUENTIAL) if said.known else module.code(shuffle)
