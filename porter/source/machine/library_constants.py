"""Constants of the source's libraries that a keyword takes like their text: `torch.bfloat16`, `TaskType.CAUSAL_LM`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from ..module import Module

CONSTANTS = "constants of libraries"  # of `Module.memory`


@dataclass(frozen=True)
class Constants:
    """What packs say: constants by the texts that they stand for, and enumerations whose members stand for their names,
    or for these in small letters.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    named: Collection[str] = ()
    lower: Collection[str] = ()


NONE = Constants()


def constants(module: Module) -> Mapping[str, str]:
    """The packs' constants by their full names, and the text that each stands for."""
    found: Constants = module.memory.get(CONSTANTS, NONE)
    return found.texts


def constant(module: Module, node: cst.BaseExpression) -> str | None:
    """What a library's constant stands for: `torch.bfloat16` → `bfloat16`, `TaskType.CAUSAL_LM` → `CAUSAL_LM`."""
    name = module.qualified(node)
    if name is None:
        return None
    known: Constants = module.memory.get(CONSTANTS, NONE)
    head, _, member = name.rpartition(".")
    if head in known.named or head in known.lower:
        return member if head in known.named else member.lower()
    return known.texts.get(name)
