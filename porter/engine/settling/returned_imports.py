"""`SFTConfig, SFTTrainer = libraries()`, of a function that imports names and gives them back: those that nothing needs
any more go from both, and the function with the last of them."""

from __future__ import annotations

import libcst as cst

from ...source.calls import calls_of, returned
from ..script.porting import Porting
from ..steps.step import Phase, step

RULE = "TP001"
REASON = "nothing uses it any more"


@step(Phase.SETTLE, reads=("leftovers",), fills=("returned imports",))
def drop_returned_imports(porting: Porting) -> None:
    """Leave what is still used in the `return` of such a function, and where its only call is taken apart."""
    module = porting.module
    for call, function in list(module.callees.items()):
        assign, given = module.parents[call], returned(module, function)
        if not isinstance(assign, cst.Assign) or len(assign.targets) != 1 or porting.covered(module.span(call)[0]):
            continue
        if len(given) != 1 or len(calls_of(module, function)) != 1 or not _imports_alone(function):
            continue
        targets, values = _names(assign.targets[0].target), _names(given[0])
        if not targets or len(targets) != len(values):
            continue
        left = [place for place, name in enumerate(targets) if _is_used(porting, name)]
        if not left:
            porting.remove_statement(assign, RULE, REASON)
            porting.remove_statement(function, RULE, REASON)
        elif len(left) < len(targets):
            for node, names in ((assign.targets[0].target, targets), (given[0], values)):
                porting.edit(*module.span(node), ", ".join(names[place].value for place in left), RULE, REASON)


def _imports_alone(function: cst.FunctionDef) -> bool:
    """Whether a function imports and gives back, with no more than a docstring."""
    for line in function.body.body:
        parts = line.body if isinstance(line, cst.SimpleStatementLine) else (line,)
        if not all(isinstance(part, cst.Import | cst.ImportFrom | cst.Return | cst.Expr) for part in parts):
            return False
    return True


def _names(node: cst.CSTNode) -> list[cst.Name]:
    """The names of `a, b`, or the one; none where anything else stands there."""
    parts = [element.value for element in node.elements] if isinstance(node, cst.Tuple) else [node]
    found = [part for part in parts if isinstance(part, cst.Name)]
    return found if len(found) == len(parts) else []


def _is_used(porting: Porting, name: cst.Name) -> bool:
    """Whether a name that is bound is read where no edit stands, or by new code."""
    module = porting.module
    found = module.scope(name).lookup(name.value)
    uses = module.references(name.value, found[0]) if found is not None else ()
    if any(use is not name and not porting.covered(module.span(use)[0]) for use in uses):
        return True
    return any(part.partition(".")[0] == name.value for part in porting.written_names())
