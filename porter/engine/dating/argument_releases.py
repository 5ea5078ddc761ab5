"""Of which release the runtime's argument classes are asked for: `trl_arguments("0.19.1", "SFTConfig")`.

While a file is ported, the function and the release stand behind the module that a name comes from,
`porter.runtime.arguments@trl_arguments@0.19.1`, and behind them those of other libraries that matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from ...source.module import Module
from ..script.subclasses import imported_base
from ..script.training import Training

MARK = "@"


@dataclass(frozen=True)
class ArgumentRelease:
    """The runtime's function that makes the classes, and the release that it makes them of; `beside`, by library: that
    of one which wrote the defaults anew, and of the one that they extend where it isn't the release of its day.
    """

    function: str
    release: str
    beside: tuple[tuple[str, str], ...] = ()

    @classmethod
    def behind(cls, module: str) -> ArgumentRelease:
        """The release that a name's module carries."""
        function, release, *beside = module.split(MARK)[1:]
        return cls(function, release, tuple((each.partition("=")[0], each.partition("=")[2]) for each in beside))

    @property
    def suffix(self) -> str:
        """What stands behind the module."""
        return MARK + MARK.join((self.function, self.release, *(f"{name}={release}" for name, release in self.beside)))

    def call(self, names: Sequence[str]) -> str:
        """The call that makes the classes `names`."""
        quoted = [f'"{name}"' for name in (self.release, *names)]
        quoted += [f'{name}="{release}"' for name, release in self.beside]
        return f"{self.function}({', '.join(quoted)})"


def rewritten_by(porting: Training, name: cst.BaseExpression) -> str:
    """The release of the library that has written a class of TRL's anew where `name` is looked up; empty for none."""
    begins = porting.patched_from
    return porting.patched_by if begins is not None and begins < _looked_up_at(porting.module, name) else ""


def _looked_up_at(module: Module, name: cst.BaseExpression) -> tuple[int, ...]:
    """When a class is looked up in its library: at its import, or where it is used for `trl.SFTConfig`."""
    node = imported_base(module, name)
    if not isinstance(node, cst.Name):
        return module.turn(name)
    found = module.scope(node).lookup(node.value)
    imports = [binding for binding in found[1] if binding.kind == "import"] if found is not None else []
    return module.turn(imports[0].node) if imports else ()
