"""Constants of the source's libraries that a keyword takes like their text: `torch.bfloat16`, `TaskType.CAUSAL_LM`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from ..module import Module

TORCH_TYPES = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float32",
    "float": "float32",
}
LOWER_CASE_ENUMS = (
    "transformers.IntervalStrategy",
    "transformers.SchedulerType",
    "transformers.trainer_utils.IntervalStrategy",
    "transformers.trainer_utils.SchedulerType",
)


def constant(module: Module, node: cst.BaseExpression) -> str | None:
    """What a library's constant stands for: `torch.bfloat16` → `bfloat16`, `TaskType.CAUSAL_LM` → `CAUSAL_LM`."""
    name = module.qualified(node)
    if name is None:
        return None
    head, _, member = name.rpartition(".")
    if head == "torch":
        return TORCH_TYPES.get(member)
    if head == "peft.TaskType":
        return member
    return member.lower() if head in LOWER_CASE_ENUMS else None
