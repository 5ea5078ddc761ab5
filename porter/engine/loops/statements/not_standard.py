"""What makes a training loop another one than the standard one."""

from __future__ import annotations

import libcst as cst


class NotStandard(Exception):
    """A loop that trains in its own way: `node` is the line that shows it, `reason` why it can't be ported.

    `fix`: what to write instead, where that is known; `own_loss`: whether it is the loss, or its labels, that isn't the
    model's.
    """

    def __init__(self, node: cst.CSTNode, reason: str, fix: str = "", *, own_loss: bool = False) -> None:
        super().__init__(reason)
        self.node, self.reason, self.fix, self.own_loss = node, reason, fix, own_loss
