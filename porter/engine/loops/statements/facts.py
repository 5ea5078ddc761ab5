"""What a training loop says, as it is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from .counts import End
from .made_labels import Unlabelled
from .not_standard import NotStandard

if TYPE_CHECKING:
    from ..kept.facts import KeptEpochs


@dataclass(frozen=True)
class Left:
    """A statement of the loop that the port has no room for: `what` it did."""

    node: cst.CSTNode
    what: str


@dataclass
class Loop:
    """A standard training loop: `statement` is the whole of it; names are those of the source.

    `inputs` is what the model is given: keyword → key of the batch. Its `labels` may be the `input_ids`, -100 where
    `unlabelled` says. `call` is the forward pass, `trained` its model where the loop over epochs stands; `function`:
    the one that it calls for each epoch. `accumulates` when `accelerator.accumulate` decides, by the Accelerator's own
    setting; `divides` is what the loss is divided by; `steps_at_last`: the last batch of an epoch makes a step with
    those left before it. `end` says when `max_steps` are over; `ends_all`: no later epoch trains on then.
    `first_epoch`: where `range(first, epochs)` begins. `scheduled_by_epoch`: the schedule steps once an epoch.
    `clip_if`, `autocast_if`: the conditions under which gradients are clipped and products computed in 16 bits.
    `kept`: where the loop over epochs stays and only the one over batches goes.
    `obstacles`: what makes it another loop than the standard one.
    """

    statement: cst.For | cst.While
    model: str = ""
    optimizer: str = ""
    scheduler: str = ""
    scheduled_by_epoch: bool = False
    loader: cst.BaseExpression | None = None
    epochs: cst.BaseExpression | None = None
    first_epoch: int = 0
    max_steps: cst.BaseExpression | None = None
    end: End | None = None
    ends_all: bool = False
    accumulation: cst.BaseExpression | None = None
    divides: cst.BaseExpression | None = None
    accumulates: bool = False
    steps_at_last: bool = False
    drops_rest: bool = False
    clip: cst.BaseExpression | None = None
    clip_if: cst.BaseExpression | None = None
    autocast: bool = False
    autocast_if: str = ""
    autocast_flag: cst.BaseExpression | None = None
    autocast_at: cst.BaseExpression | None = None
    call: cst.Call | None = None
    trained: cst.BaseExpression | None = None
    function: cst.FunctionDef | None = None
    unlabelled: Unlabelled | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    kept: KeptEpochs | None = None
    left: list[Left] = field(default_factory=list)
    obstacles: list[NotStandard] = field(default_factory=list)

    @property
    def gone(self) -> list[cst.CSTNode]:
        """What of the source Tunix's trainer takes the place of."""
        if self.kept is not None:
            return [self.kept.batches, *self.kept.gone]
        return [self.statement, *([self.function] if self.function is not None else [])]

    @property
    def sums(self) -> bool:
        """Whether a step adds the gradients of its batches up, and divides them by nothing."""
        return self.accumulation is not None and self.divides is None
