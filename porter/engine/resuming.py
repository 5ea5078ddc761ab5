"""Whether a run resumes, where the script decides it behind its trainer: Tunix resumes when the trainer is made.

    checkpoint = None
    if training_args.resume_from_checkpoint is not None:
        checkpoint = training_args.resume_from_checkpoint
    elif last_checkpoint is not None:
        checkpoint = last_checkpoint
    trainer.train(resume_from_checkpoint=checkpoint)

resumes from `training_args.resume_from_checkpoint or last_checkpoint`, which can be said at the trainer.
"""

from __future__ import annotations

import ast

import libcst as cst

from ..source.scopes import Binding
from .porting import Porting

RULE = "TP111"


def resume_code(porting: Porting, value: cst.BaseExpression) -> str:
    """What train() is told to resume from, as code that can stand at the trainer; a finding where there is none."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    text = module.code(value)
    found = module.meaning(value)
    if found is None or not isinstance(value, cst.Name):
        return text
    later = [item for item in found[1] if item.kind != "parameter" and _start(porting, item) > trainer.statement_start]
    if not later:
        return text
    choices = _choices(porting, later)
    if choices is not None and len(later) == len(found[1]):
        if "checkpoint-" in " ".join(choices):
            line, column = module.location(value)
            message = f"resume_from_checkpoint={text}: Orbax names its checkpoints by their step, not checkpoint-500."
            porting.find(RULE, "error", message, "Look for them with rt.get_last_checkpoint(folder).", line, column)
        return " or ".join(choices)
    line, column = module.location(value)
    message = f"resume_from_checkpoint={text}: it is set after the trainer, which resumes when it is made."
    porting.find(RULE, "error", message, f"Set {text} before the trainer.", line, column)
    return text


def _choices(porting: Porting, bindings: list[Binding]) -> list[str] | None:
    """What the variable may become, the one that wins first; None when another condition decides."""
    module = porting.module
    found: list[str] = []
    for binding in bindings:
        if binding.kind != "assign" or binding.value is None:
            return None
        code = module.code(binding.value)
        if code == "None":
            continue
        if not _is_there(porting, code, binding) or not _tests_itself(porting, binding, code):
            return None
        found.append(code) if _in_elif(porting, binding) else found.insert(0, code)
    return found or None


def _tests_itself(porting: Porting, binding: Binding, code: str) -> bool:
    """Whether a binding is made without condition, or on the condition that there is such a value."""
    assert porting.trainer is not None
    around = set(porting.module.ancestors(porting.trainer.node))
    for ancestor in porting.module.ancestors(binding.node):
        if ancestor in around:
            return True
        if isinstance(ancestor, cst.If):
            return code in porting.module.code(ancestor.test)
        if isinstance(ancestor, cst.For | cst.While | cst.Try):
            break
    return False


def _in_elif(porting: Porting, binding: Binding) -> bool:
    holder = next((node for node in porting.module.ancestors(binding.node) if isinstance(node, cst.If)), None)
    parent = porting.module.parents.get(holder) if holder is not None else None
    return isinstance(parent, cst.If) and parent.orelse is holder


def _is_there(porting: Porting, code: str, binding: Binding) -> bool:
    """Whether all names of the value mean the same at the trainer."""
    trainer = porting.trainer
    assert trainer is not None
    for name in {part.id for part in ast.walk(ast.parse(code, mode="eval")) if isinstance(part, ast.Name)}:
        found = trainer.scope.lookup(name)
        same = porting.module.scope(binding.node).lookup(name)
        if found is None or same is None or found[0] is not same[0]:
            return False
        if any(item.kind != "parameter" and _start(porting, item) > trainer.statement_start for item in found[1]):
            return False
    return True


def _start(porting: Porting, binding: Binding) -> int:
    return porting.module.span(binding.node)[0]
