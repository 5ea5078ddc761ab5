"""A config object that is spread over the port: what the script reads of it later, `args.output_dir`, is its value."""

from __future__ import annotations

import libcst as cst

from ...text.edits import Spans
from ...text.expressions import is_tight
from ...text.format_strings import in_f_string
from ..script.fill_from_tables import table_of
from ..script.following.rebound import holds
from ..script.porting import Porting
from ..script.uses_of_training import uses
from ..steps.step import Phase, step
from .member_uses import stands_alone

SPREAD = "the config object is spread over the port"


@step(Phase.CARRY, of="trainer", reads=("carried",))
def spread_arguments(porting: Porting) -> None:
    """Reads of a config object that is gone (`args.output_dir`) become the values that it held, also in new code."""
    site = porting.arguments
    if site is None or site.variable is None:
        return
    table = table_of(porting, site).table
    covered = Spans((edit.start, edit.end) for edit in porting.edits)
    found = uses(porting, "arguments", site.variable, site.scope)
    others = [use for use in found if holds(porting.module, use.name, site.node) is False]
    apart = [porting.module.span(use.name)[0] for use in others]
    for use in found:
        if use.kind != "read" or use in others:
            continue
        row = table.row(use.chain.split(".")[0])
        if row is None or not row.place or porting.value(row.place) is None:
            continue
        text = porting.text(row.place)
        read = f"{site.variable}.{use.chain}"
        porting.respell(read, text, operand=True, apart=apart)
        node, start, end = use.outer, *porting.module.span(use.outer)
        if start in covered:
            continue
        parent = porting.module.parents[node]
        value = porting.recipe.values[row.place]
        if isinstance(parent, cst.FormattedStringExpression) and value.known and parent.format_spec is None:
            around = porting.module.parents[parent]
            inside = in_f_string(str(value.literal), around) if isinstance(around, cst.FormattedString) else None
            if inside is not None:
                porting.edit(*porting.module.span(parent), inside, site.rule, SPREAD)
                continue
        if not (stands_alone(parent) or is_tight(text, in_braces=isinstance(parent, cst.FormattedStringExpression))):
            text = f"({text})"
        porting.edit(start, end, text, site.rule, SPREAD)
