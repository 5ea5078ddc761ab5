"""The model and the trainer in the hands of code that no rule knows: `freeze(model)`, `model = wrap(model)`.

What that code did to a torch model it doesn't do to Tunix's, and a model that is bound again is not the one that the
port trains. Both are named, so that nothing is lost in silence.
"""

from __future__ import annotations

import libcst as cst

from .members import Use, roles, uses
from .porting import Porting
from .reading import tables_by_class, without_placement
from .sites import shown

RULE = "TP190"
READERS = frozenset({"print", "len", "type", "isinstance", "issubclass", "id", "repr", "str", "hasattr", "callable"})
LOGS = frozenset({"debug", "info", "warning", "error", "critical", "log", "print"})


def name_handed(porting: Porting) -> None:
    """A finding for every call that gets the model or the trainer, and for every later binding of the model."""
    for role, variable, scope in roles(porting):
        for use in uses(porting, role, variable, scope):
            if use.kind == "bare":
                _name_call(porting, use)
    for site in (porting.model, porting.inject):
        if site is not None and site.variable is not None:
            _name_bindings(porting, site.variable)


def _name_call(porting: Porting, use: Use) -> None:
    module = porting.module
    argument = module.parents[use.name]
    if isinstance(argument, cst.Return | cst.Element):
        _name_callers(porting, use, argument)
        return
    if (
        isinstance(argument, cst.Assign)
        and argument.value is use.name
        and not _is_answered(porting, use.name, argument)
    ):
        message = f"{_short(module.code(argument))}: what is done through this name is not followed."
        porting.find(RULE, "error", message, f"Use {use.name.value} itself.", *module.location(argument))
        return
    call = module.parents[argument]
    if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call) or _is_known(porting, call):
        return
    if _is_answered(porting, use.name, call):
        return
    code = _short(module.code(call))
    what = "model" if use.role == "model" else "trainer"
    message = f"{code}: this gets Tunix's {what} now, not a torch {what}."
    fix = "Do to Tunix's model what it did, or take it out."
    if (module.qualified(call.func) or "").endswith("PeftModel.from_pretrained"):
        message = f"{code}: the port trains the model without this adapter."
        fix = "Put the adapter's LoraConfig in with rt.apply_peft, then its weights with rt.load_adapter."
    porting.find(RULE, "error", message, fix, *module.location(call))


def _name_callers(porting: Porting, use: Use, holder: cst.CSTNode) -> None:
    """A finding for every call that gets the trainer or the model back from the function that made it."""
    module = porting.module
    around = [holder, *module.ancestors(holder)]
    function = next((node for node in around if isinstance(node, cst.FunctionDef)), None)
    if function is None or not any(isinstance(node, cst.Return) for node in around[: around.index(function)]):
        return
    for call in module.calls:
        named = isinstance(call.func, cst.Name) and call.func.value == function.name.value
        if named and not isinstance(module.parents[call], cst.Expr | cst.Return):
            code = _short(module.code(call))
            message = f"{code}: this gives back Tunix's {use.role}, and what is done with it here is not followed."
            fix = f"Do it in {function.name.value}(), where the {use.role} is made."
            porting.find(RULE, "error", message, fix, *module.location(call))


def _is_known(porting: Porting, call: cst.Call) -> bool:
    """Whether a call only looks at what it gets, or has a rule of its own."""
    name = porting.module.qualified(call.func)
    if isinstance(call.func, cst.Name) and call.func.value in READERS:
        return porting.module.scope(call).lookup(call.func.value) is None
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in LOGS:
        return True
    matches = {match for pack in porting.packs for rule in pack.every_rule for match in getattr(rule, "matches", ())}
    return name is not None and (name in tables_by_class(porting.packs) or name in matches or f"{name}()" in matches)


def _name_bindings(porting: Porting, variable: str) -> None:
    """Later assignments of the model's name that are no site: the trainer would get something else."""
    module = porting.module
    first = min(site.start for site in (porting.model, porting.inject) if site is not None)
    scope = next(site.scope for site in (porting.model, porting.inject) if site is not None)
    known = [site.node for site in porting.sites if site.role in ("model", "inject")]
    for binding in scope.bindings.get(variable, ()):
        node = binding.node
        if binding.kind not in ("assign", "unpack", "other") or module.span(node)[0] <= first:
            continue
        if binding.value is not None and without_placement(binding.value) in known:
            continue
        if _is_answered(porting, node, node):
            continue
        message = f"{_short(module.code(node))}: from here on {variable} is an object that the port doesn't know."
        fix = f"Do the same to Tunix's model, or take it out if {variable} is not trained after it."
        porting.find(RULE, "error", message, fix, *module.location(node))


def _is_answered(porting: Porting, name: cst.CSTNode, around: cst.CSTNode) -> bool:
    """Whether an edit replaces the place, or an error already stands on its lines."""
    module = porting.module
    start = module.span(name)[0]
    if any(edit.start <= start < edit.end for edit in porting.edits):
        return True
    begin, end = module.span(around)
    first, last = module.line_column(begin)[0], module.line_column(end)[0]
    return any(finding.severity == "error" and first <= finding.line <= last for finding in porting.recipe.findings)


def _short(code: str) -> str:
    code = shown(code)
    return code if len(code) <= 80 else f"{code[:77]}..."
