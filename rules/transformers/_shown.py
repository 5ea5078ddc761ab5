"""Whether a value goes into a line of output and nowhere else."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from porter.packs.api import Porting


def is_shown_by(porting: Porting, node: cst.CSTNode, calls: Collection[str], *, keywords: bool = True) -> bool:
    """Whether `node` is given to `calls` alone in a statement of its own: `print(f"on {model.device}")`.

    Without `keywords` a call that has one isn't followed: `print(sorted(names, key=own))`.
    """
    for around in porting.module.ancestors(node):
        if isinstance(around, cst.Call):
            called = around.func.attr if isinstance(around.func, cst.Attribute) else around.func
            plain = keywords or all(argument.keyword is None for argument in around.args)
            if not plain or not isinstance(called, cst.Name) or called.value not in calls:
                return False
        elif isinstance(around, cst.Expr):
            return True
        elif not isinstance(around, cst.Arg | cst.BaseFormattedStringContent | cst.FormattedString):
            return False
    return False
