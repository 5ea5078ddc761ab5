"""One spelling for the arguments of a call: by place, as the functions that stand before a library's take them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def by_place(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], count: int = 1
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call of `function` with its first `count` given by place where they are given at all.

    `from_pretrained(pretrained_model_name_or_path=name)` is `from_pretrained(name)`. Of an unbound method the object or
    class counts.
    """
    placed, named = list(args), dict(kwargs)
    for name in _names(function, count)[len(placed) : count]:
        if name not in named:
            break
        placed.append(named.pop(name))
    return tuple(placed), named


@functools.cache
def _names(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """The parameters of `function`; of what it wraps, where it takes any arguments itself."""
    for through in (False, True):
        try:
            parameters = inspect.signature(function, follow_wrapped=through).parameters.values()
        except (TypeError, ValueError):  # written in C, without one
            return ()
        found = tuple(each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if len(found) >= count:
            return found
    return ()
