"""Reward functions that end on made-up rows: a number of each completion's text stands in, the same on both sides.

What a reward reads of a row (a board, a table, a program) is of a form that nothing tells. All that follows from
rewards is compared; what such a function says isn't.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ...observing.remedies import REWARDS, said_of

FILE = "rewards.json"  # the names of those that ended in the source
LEVELS = 5


def scores(completions: Sequence[Any]) -> list[float]:
    """A number from 0 to 1 of each completion, a text or its messages."""
    return [zlib.crc32(repr(each).encode()) % LEVELS / (LEVELS - 1) for each in completions]


def stand_in(function: Any, failed: Callable[[str], None]) -> Any:
    """`function`, until it raises: from then on `scores` answer for it, and `failed` hears its name.

    Models and coroutines stay as they are.
    """
    if not inspect.isroutine(function) and not isinstance(function, functools.partial):
        return function
    if inspect.iscoroutinefunction(function):
        return function
    ended = False

    @functools.wraps(function)
    def rewarded(*args: Any, **kwargs: Any) -> Any:
        nonlocal ended
        if not ended:
            try:
                return function(*args, **kwargs)
            except Exception:
                failed(name_of(function))
                ended = True
        return scores(kwargs["completions"] if "completions" in kwargs else args[1])

    return rewarded


def name_of(function: Any) -> str:
    """Its own name, also behind `functools.partial`."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def of_source(work: str, error: str, note: Callable[[str], None]) -> None:
    """Those of TRL's trainers, whose source ended with `error` in one of them before."""
    names: list[str] = []

    def failed(name: str) -> None:
        names.append(name)
        (Path(work) / FILE).write_text(json.dumps(names), encoding="utf-8")
        note(f"{name}: {said_of(REWARDS, error)}")

    for kind in ("GRPO", "RLOO"):
        with contextlib.suppress(ImportError, AttributeError):
            trainer = getattr(import_module(f"trl.trainer.{kind.lower()}_trainer"), f"{kind}Trainer")
            trainer.__init__ = _standing_in(trainer.__init__, failed)


def _standing_in(init: Callable[..., None], failed: Callable[[str], None]) -> Callable[..., None]:
    @functools.wraps(init)
    def patched(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.reward_funcs = [stand_in(function, failed) for function in getattr(self, "reward_funcs", [])]

    return patched


def of_port(runtime: str, work: str) -> None:
    """Those of the runtime package `runtime` that ended in the source."""
    file = Path(work) / FILE
    if not file.is_file():
        return
    known: Iterable[str] = json.loads(file.read_text(encoding="utf-8"))
    rewards = import_module(f"{runtime}.rollouts.rewards").Rewards
    init = rewards.__init__

    @functools.wraps(init)
    def patched(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.functions = [
            stand_in(function, lambda name: None) if name in known else function
            for function, name in zip(self.functions, self.names, strict=True)
        ]

    rewards.__init__ = patched
