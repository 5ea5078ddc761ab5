"""An object that takes whatever a script does with a tracker or a login: any call, attribute, item or comparison.

It is a text, so that it can be printed, joined to a path and written as JSON; as a number it is 0, and as rows none.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import PurePath
from types import FrameType, FunctionType
from typing import Any, Self

EVENT = ("args", "state", "control")  # what a trainer gives its callbacks by place


class Permissive(str):
    """Stands for the object of dotted name `path`, such as `wandb.run.summary`; its text is that name.

    Used as a decorator it gives the function back; as a base class, a class that takes any arguments.
    """

    def __new__(cls, path: str = "stand_in") -> Self:
        return super().__new__(cls, path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return answer(f"{self}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], FunctionType | type):
            return args[0]
        if len(args) == len(EVENT) and str(self).rpartition(".")[2].startswith("on_"):
            return None  # an event of a trainer's callback, which takes any other answer for its control
        return Permissive(str(self))

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter([Permissive(str(self)) for _ in range(_unpacked(sys._getframe(1)))])

    def __next__(self) -> Any:
        raise StopIteration

    def __contains__(self, item: object) -> bool:
        return False

    def __getitem__(self, key: Any) -> Any:
        return Permissive(str(self))

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __delitem__(self, key: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self

    def __int__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __index__(self) -> int:
        return 0

    def __format__(self, spec: str) -> str:
        try:
            return format(str(self), spec)
        except ValueError:
            return format(0.0 if spec[-1] in "eEfFgGn%" else 0, spec)

    def __add__(self, other: Any) -> Any:
        return other if isinstance(other, int | float) else str.__add__(self, other)

    def __radd__(self, other: Any) -> Any:
        return other if isinstance(other, int | float) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return -other if isinstance(other, int | float) else 0

    def __rsub__(self, other: Any) -> Any:
        return other

    def __mul__(self, other: Any) -> Any:
        return 0

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return os.path.join(str(self), other) if isinstance(other, str) else 0.0

    def __floordiv__(self, other: Any) -> Any:
        return 0

    def __rtruediv__(self, other: Any) -> Any:
        return other / str(self) if isinstance(other, PurePath) else 0.0

    def __or__(self, other: Any) -> Any:
        return Any

    __ror__ = __or__

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (PermissiveBase,)


class PermissiveBase:
    """What a script's own class inherits when its base is a stand-in: any arguments, any attribute."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return answer(f"{type(self).__name__}.{name}")


def answer(path: str) -> Any:
    """What stands for `path`: an exception class where the name says so, for `except`; else a `Permissive`."""
    name = path.rpartition(".")[2]
    if name.endswith(("Error", "Exception", "Warning")) and name[0].isupper():
        return type(name, (Exception,), {})
    return Permissive(path)


def _unpacked(frame: FrameType) -> int:
    """How many names the statement that `frame` is at unpacks into, as `figure, axes = plt.subplots()`; else 0."""
    code = frame.f_code.co_code
    if code[frame.f_lasti] == dis.opmap["UNPACK_SEQUENCE"]:
        return code[frame.f_lasti + 1]
    return 0


def nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""
