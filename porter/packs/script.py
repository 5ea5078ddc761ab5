"""What a step of a pack asks of a script: names and values, functions and calls, uses of the trainer and the model.

A `Module` is the script's syntax tree, with the source span, the scope and the import name of every node. docs/packs.md
documents each name; those that aren't listed here may change with any release.
"""

from __future__ import annotations

from ..engine.dating.release import release_of
from ..engine.script.fill_from_tables import plain_version
from ..engine.script.flow import binding_origins, origins
from ..engine.script.reaching import reaching
from ..engine.script.sites import shortened, shown, small_statement
from ..engine.script.uses_of_training import Use, role_uses
from ..engine.settling.decisions import decide as decide_condition
from ..runtime.facts.field_tables import version_key
from ..source.calls import argument_of, calls_of, function_around, parameter_of, returned
from ..source.module import Module
from ..source.scopes import Binding, Scope, inside
from ..source.values import Unknown, evaluate
from ..text.edits import line_start, within

__all__ = [
    "Binding",
    "Module",
    "Scope",
    "Unknown",
    "Use",
    "argument_of",
    "binding_origins",
    "calls_of",
    "decide_condition",
    "evaluate",
    "function_around",
    "inside",
    "line_start",
    "origins",
    "parameter_of",
    "plain_version",
    "reaching",
    "release_of",
    "returned",
    "role_uses",
    "shortened",
    "shown",
    "small_statement",
    "version_key",
    "within",
]
