"""Settings that only what was replaced read: `load_in_4bit = True` once the model is loaded by Tunix.

A plain value goes with its last use, as a person would take it out; something the source itself never used stays.
"""

from __future__ import annotations

import re

import libcst as cst

from ...source.scopes import Scope, walk
from ...text.edits import Spans
from ..script.porting import Porting
from ..steps.step import Phase, step
from .unused import for_a_person

RULE = "TP001"
# What may read a name without naming it, or hand the file's names on.
UNSEEN = re.compile(r"(?<![\w.])(?:globals|locals|vars|eval|exec)\(|\b__all__\b|\bsys\.modules\b|import __main__")
PLAIN = (
    *(cst.SimpleString, cst.Integer, cst.Float, cst.Name, cst.List, cst.Tuple, cst.Set, cst.Dict),
    *(cst.UnaryOperation, cst.BinaryOperation),
)


@step(Phase.SETTLE, reads=("leftovers", "functions"), fills=("settings",))
def drop_unread_settings(porting: Porting) -> None:
    """Take out plain values that nothing reads any more; repeated, as one may be made of another."""
    module = porting.module
    if porting.trainer is None or UNSEEN.search(module.text):
        return
    scopes = {id(scope): scope for scope in module.scopes.values() if not isinstance(scope.node, cst.ClassDef)}
    while any(_drop(porting, scope) for scope in scopes.values()):
        pass


def _drop(porting: Porting, scope: Scope) -> bool:
    module = porting.module
    spans = Spans((edit.start, edit.end) for edit in porting.edits)
    written = {name.split(".")[0] for name in porting.written_names()} | porting.options.imported
    for name, bindings in scope.bindings.items():
        if len(bindings) != 1 or bindings[0].kind != "assign" or name in written:
            continue
        node, value = bindings[0].node, bindings[0].value
        alone = isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name)
        if not alone or value is None or not _is_plain(value):
            continue
        start, end = module.span(node)
        uses = [use for use in module.references(name, scope) if not start <= module.span(use)[0] < end]
        if start in spans or not uses or not all(module.span(use)[0] in spans for use in uses):
            continue
        if any(for_a_person(porting, use) for use in uses) or _is_named(porting, name, (start, end), spans):
            continue
        porting.remove_statement(node, RULE, f"nothing uses {name} any more")
        return True
    return False


def _is_plain(value: cst.BaseExpression) -> bool:
    """Whether a value is written out, or calculated of such by their names: making it does nothing else."""
    parts = [part for part in walk(value) if isinstance(part, cst.BaseExpression)]
    return all(isinstance(part, PLAIN) for part in parts)


def _is_named(porting: Porting, name: str, own: tuple[int, int], spans: Spans) -> bool:
    """Whether the code that stays has the name's word elsewhere: in a string, or a line of the shell."""
    text = porting.module.text
    for found in re.finditer(rf"(?<![\w.]){re.escape(name)}\b(?!\s*=[^=])", text):
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if found.start() not in spans and not own[0] <= found.start() < own[1] and "#" not in line:
            return True
    return False
