"""A last look at the port: a name whose last binding went must not be used any more."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from ..port import Edit
from ..source.parsing import parse_module
from .edits import apply_edits
from .porting import Porting

RULE = "TP190"


def find_lost_names(porting: Porting, edits: Sequence[Edit]) -> None:
    """Findings for names that the source binds and the port would use without binding them."""
    module = porting.module
    if not edits:
        return
    after = parse_module(apply_edits(module.text, edits).encode("utf-8"), module.path)
    gone = (module.bound_names - after.bound_names) - set(dir(builtins))
    spans = [(edit.start, edit.end) for edit in edits]
    for name in sorted(gone):
        if not after.loads(name):
            continue
        for use in module.loads(name):
            start = module.span(use)[0]
            if not any(begin <= start < end for begin, end in spans):
                line, column = module.line_column(start)
                message = f"{name} is used here, and what it stood for is spread over the port."
                porting.find(RULE, "error", message, "Write the value, or keep the object by hand.", line, column)


def find_taken_names(porting: Porting, bound: Sequence[str]) -> None:
    """Findings for names of the port's libraries that the file uses for something of its own."""
    module = porting.module
    for scope in module.scopes.values():
        for name in bound:
            own = [binding for binding in scope.bindings.get(name, ()) if binding.kind != "import"]
            if own:
                line, column = module.location(own[0].node)
                message = f"{name} is a name of this file's own, and of a library that the port uses."
                porting.find(RULE, "error", message, f"Rename your {name}, and port again.", line, column)
