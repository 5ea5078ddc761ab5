"""What a training loop clips its gradients to: `clip_grad_norm_(model.parameters(), 1.0)`."""

from __future__ import annotations

import libcst as cst

from ....source.module import Module
from .not_standard import NotStandard
from .own_parameters import part_trained


def clipped_to(module: Module, call: cst.Call, model: str) -> cst.BaseExpression:
    """The norm that a call of torch's, accelerate's or FSDP's `clip_grad_norm_` gives; NotStandard for another kind of
    norm, or where it clips a part of `model` alone."""
    values = {
        argument.keyword.value if argument.keyword is not None else index: argument.value
        for index, argument in enumerate(call.args)
    }
    owner = module.code(call.func.value) if isinstance(call.func, cst.Attribute) else ""
    of_model = owner == model and 0 in values  # FSDP's own method: model.clip_grad_norm_(1.0)
    norm = values.get("max_norm", values.get(0 if of_model else 1))
    if norm is None:
        raise NotStandard(call, "what the gradients are clipped to is not given")
    kind = values.get("norm_type", values.get(1 if of_model else 2))
    if kind is not None and module.code(kind) not in ("2", "2.0"):
        raise NotStandard(call, "gradients are clipped by another norm than the second")
    given = values.get("parameters", values.get(0)) if not of_model else None
    if given is not None and (part := part_trained(module.code(given), model)):
        raise NotStandard(call, f"the gradients of `{part}` are clipped, and no others")
    return norm
