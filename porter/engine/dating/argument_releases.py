"""Of which release the runtime's argument classes are asked for: `trl_arguments("0.19.1", "SFTConfig")`.

While a file is ported, the release stands behind the module that a name comes from: `porter.runtime.arguments@0.19.1`,
and behind it that of Unsloth and of transformers, each empty where nothing need be said.
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
    """TRL's release; Unsloth's, where it wrote the defaults anew; transformers', where it isn't that of TRL's day."""

    trl: str
    unsloth: str = ""
    transformers: str = ""

    @classmethod
    def behind(cls, module: str) -> ArgumentRelease:
        """The release that a name's module carries."""
        return cls(*module.split(MARK)[1:])

    @property
    def suffix(self) -> str:
        """What stands behind the module."""
        return MARK + MARK.join((self.trl, self.unsloth, self.transformers))

    def call(self, names: Sequence[str]) -> str:
        """The call that makes the classes `names`."""
        quoted = [f'"{name}"' for name in (self.trl, *names)]
        quoted += [f'unsloth="{self.unsloth}"'] if self.unsloth else []
        quoted += [f'transformers="{self.transformers}"'] if self.transformers else []
        return f"trl_arguments({', '.join(quoted)})"


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
