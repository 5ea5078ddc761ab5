"""In which order the DataLoader of a training loop gives its rows: shuffled or not, by `shuffle=` or by a sampler."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...recipe import Value
from ...source.calls import named_arguments
from ...source.conditions import bare
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
    orders = _orders_of(module, loader)
    [order] = orders if len(orders) == 1 else [SEQUENTIAL]
    return _value(order) if order in (RANDOM, SEQUENTIAL) else _by(order)


def has_own_order(module: Module, loader: Site) -> bool:
    """Whether a loader's sampler gives the rows in an order of its own, or in several."""
    orders = _orders_of(module, loader)
    return None in orders or len(orders) > 1


def _orders_of(module: Module, loader: Site) -> set[str | None]:
    """The orders that a loader's rows may have, where there is no sampler that of `shuffle=`."""
    shuffle, sampler = loader.argument("shuffle"), loader.argument("sampler")
    orders: set[str | None] = {*_orders(module, sampler.node)} if sampler is not None else {""}
    if "" not in orders:
        return orders
    if shuffle is None or shuffle.value.known:
        without: str | None = RANDOM if shuffle is not None and shuffle.value.literal else SEQUENTIAL
    else:
        without = RANDOM if sampler is not None and _asks_for_none(module, shuffle, sampler) else shuffle.text
    return {*orders - {""}, without}


def _asks_for_none(module: Module, shuffle: Argument, sampler: Argument) -> bool:
    """`shuffle=(sampler is None)`."""
    code = bare(shuffle.text)
    name = module.code(sampler.node) if sampler.node is not None else ""
    return code in (f"{name} is None", f"not {name}")


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
        holds = _holds(module, made.test)
        for branch, runs in ((made.body, holds is not False), (made.orelse, holds is not True)):
            yield from _orders(module, branch, depth + 1) if runs else ()
    elif isinstance(made, cst.Call):
        yield _order(module, made)
    elif read_value(module, made).is_literal(None):
        yield ""
    else:
        bindings = [each for each in bindings_of(module, made) if _may_run(module, each.node)]
        for binding in bindings:
            yield from _orders(module, binding.value if binding.kind == "assign" else None, depth + 1)
        if not bindings:
            yield None


def _holds(module: Module, test: cst.BaseExpression) -> bool | None:
    found = read_value(module, test)
    return bool(found.literal) if found.known else None


def _may_run(module: Module, node: cst.CSTNode) -> bool:
    """Whether no condition that is known keeps a line from running."""
    below = node
    for holder in module.ancestors(node):
        if isinstance(holder, cst.If) and below is not holder.test:
            if _holds(module, holder.test) is (below is not holder.body):
                return False
        below = holder
    return True


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
