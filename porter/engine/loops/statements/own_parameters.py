"""Which parameters an optimizer, or what clips gradients, is given: all that the model trains, or a part of it."""

from __future__ import annotations

import re

# What may be given to mean all that the model trains.
WHOLE = re.compile(
    r"(?P<all>[\w.]+)\.parameters\(\)"
    r"|filter\(lambda (?P<f>\w+): (?P=f)\.requires_grad, (?P<filtered>[\w.]+)\.parameters\(\)\)"
    r"|[\[(]?(?P<p>\w+) for (?P=p) in (?P<chosen>[\w.]+)\.parameters\(\) if (?P=p)\.requires_grad[\])]?"
)
WRAPPED = ("module", "model.module")  # where DistributedDataParallel and its like hold the model


def whose(code: str) -> str:
    """The code of whose parameters are given, all or those that are trained; empty for others."""
    found = WHOLE.fullmatch(" ".join(code.split()))
    return next(filter(None, (found["all"], found["filtered"], found["chosen"])), "") if found is not None else ""


def part_trained(code: str, model: str) -> str:
    """The part of `model` whose parameters are given, `model.lm_head`; empty for the whole of it, and other code."""
    owner = whose(code)
    inner = owner.removeprefix(f"{model}.") if model and owner.startswith(f"{model}.") else ""
    return owner if inner and inner not in WRAPPED else ""
