"""A name of a GPU library that has no substitute: it can be imported and passed on, and says so when it is called."""

from __future__ import annotations

from typing import Any


class Unknown:
    """Stands for `path`, such as `flash_attn.ops.fused_dense.FusedDense`."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Unknown(f"{self.path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{self.path} needs a GPU and has no counterpart on the CPU: this source can't be run here, so it can't be "
            "compared; leave it out of the script for the comparison"
        )

    def __getitem__(self, key: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return Any

    __ror__ = __or__

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (UnknownBase,)


class UnknownBase:
    """What a class inherits from an `Unknown`: it can be written down, not made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        Unknown(type(self).__name__)()
