"""What a step asks that writes: the lines of the report that its code is for, and the code of calls.

A row of the report names the line of the port that it went to: code that is written for a value or an argument carries
its mark. docs/packs.md documents each name; those that aren't listed here may change with any release.
"""

from __future__ import annotations

from ..engine.answering.member_uses import apply_rewrite, member_rules
from ..engine.answering.scoped_names import named_at
from ..engine.packs.pack import Rewrite
from ..engine.reading.precision import under_autocast
from ..engine.receipts.marking import keys_at, mark, mark_at, mark_of, stays, unread_unless
from ..engine.script.following.held_devices import holds_devices
from ..engine.script.porting import MESH, TRAINER, TRAINING
from ..engine.script.sites import read_site
from ..engine.tokens.numpy_tokens import settle_inputs, settle_outputs, settle_places
from ..target.mesh import mesh_code
from ..text.expressions import quoted
from ..text.layout import Arg, Call, render

__all__ = [
    "MESH",
    "TRAINER",
    "TRAINING",
    "Arg",
    "Call",
    "Rewrite",
    "apply_rewrite",
    "holds_devices",
    "keys_at",
    "mark",
    "mark_at",
    "mark_of",
    "member_rules",
    "mesh_code",
    "named_at",
    "quoted",
    "read_site",
    "render",
    "settle_inputs",
    "settle_outputs",
    "settle_places",
    "stays",
    "under_autocast",
    "unread_unless",
]
