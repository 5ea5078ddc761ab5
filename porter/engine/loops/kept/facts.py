"""What is known of a loop whose epochs stay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import libcst as cst

from ...script.sites import Site


@dataclass(frozen=True)
class Evaluated:
    """A loop over a validation loader: `parts` are the lines that lead to each batch's loss, `uses` the loss itself
    (`tensors`: where it is none of Python's numbers), `name` what it is called in the port; `function`: the one that it
    stands in, where the epoch calls one."""

    loop: cst.For
    target: cst.BaseExpression  # what the batch is called
    name: str
    parts: tuple[cst.CSTNode, ...]
    uses: tuple[cst.BaseExpression, ...]
    tensors: tuple[cst.BaseExpression, ...]
    function: cst.FunctionDef | None


@dataclass(frozen=True)
class Carried:
    """A name that the loop over batches fills and that is read behind it: with the `sum` of the batches' losses or of
    their `shares`, all losses (`list`), the `last` one, how many `batches` or `steps` there were, or the last batch's
    `number` from 0; `line` is the statement that does it. `plain`: the loop's own is a number, too, and no tensor."""

    name: str
    what: Literal["sum", "shares", "list", "last", "batches", "steps", "number"]
    line: cst.CSTNode | None = None
    plain: bool = True


@dataclass
class KeptEpochs:
    """`batches` is the loop that the trainer takes the place of; the rest of the loop over epochs stays.

    `trained` is its DataLoader; `loaders` are those that are evaluated, by their names where the loop stands; `gone`
    are lines that the trainer has; `dropout`: why only the losses of a model without dropout are the port's, "" where
    all are.
    """

    batches: cst.For
    trained: Site
    evaluated: list[Evaluated] = field(default_factory=list)
    loaders: dict[str, Site] = field(default_factory=dict)
    carried: list[Carried] = field(default_factory=list)
    gone: list[cst.CSTNode] = field(default_factory=list)
    dropout: str = ""
