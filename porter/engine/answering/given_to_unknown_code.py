"""The model and the trainer in the hands of code that no rule knows: `freeze(model)`, `model = wrap(model)`.

What that code did to a torch model it doesn't do to Tunix's, and a model that is bound again is not the one that the
port trains. Both are named, so that nothing is lost in silence.
"""

from __future__ import annotations

import libcst as cst

from ...source.calls import calls_of, function_around, parameter_of
from ...source.indexes import index_of
from ...source.module import Module
from ...source.scopes import Binding
from ..script.fill_from_tables import find_other_trainer, tables_of
from ..script.flow import binding_origins, is_itself
from ..script.porting import Porting
from ..script.sites import Site, facts_of, shortened
from ..script.trainers import is_behind
from ..script.training import Training
from ..script.uses_of_training import Use, role_uses
from ..steps.step import Phase, step

RULE = "TP190"
LOADED_AGAIN = "TP314"
READERS = frozenset({"print", "len", "type", "isinstance", "issubclass", "id", "repr", "str", "hasattr", "callable"})
LOGS = frozenset({"debug", "info", "warning", "error", "critical", "log", "print"})


@step(Phase.NAME, of="trainer", reads=("checkpoints", "checkpoint paths"))
def name_handed(porting: Porting) -> None:
    """A finding for every call that gets the model or the trainer, and for every later binding of the model."""
    for use in role_uses(porting):
        if use.kind == "bare":
            _name_call(porting, use)
    for site in (porting.model, porting.inject):
        if site is not None and site.variable is not None:
            _name_bindings(porting, site)


def _name_call(porting: Porting, use: Use) -> None:
    module = porting.module
    around = module.parents[use.name]
    if isinstance(around, cst.Call) and around.func is use.name and use.role == "model":
        _name_forward(porting, around)
    if isinstance(around, cst.Return):
        _name_callers(porting, use, around)
    around = argument_with(module, around)
    call = module.parents[around]
    if not isinstance(around, cst.Arg) or not isinstance(call, cst.Call) or _is_known(porting, call, around):
        return
    if _is_answered(porting, use.name, call) or _is_continued(porting, use.name):
        return
    code = shortened(module.code(call))
    what = "model" if use.role == "model" else "trainer"
    message = f"{code}: this gets Tunix's {what} now, not a torch {what}."
    fix = "Do to Tunix's model what it did, or take it out."
    puts_in = module.qualified(call.func) in facts_of(module).loads_adapters
    if puts_in and is_behind(porting, call):
        message = f"{code}: this is Tunix's model, which has the adapters that it was trained with."
        fix = "Use it as it is; rt.load_trained loads it anew from where it was saved."
    elif puts_in:
        message = f"{code}: the port trains the model without this adapter."
        fix = "rt.apply_adapter trains it on; to train beside it, merge it and load the merged folder."
    porting.find(RULE, "error", message, fix, *module.location(call))


def argument_with(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    """The argument that an entry of a dict or a list is a part of: `log({"model": model})`; else the node itself."""
    around = node
    while isinstance(around, cst.DictElement | cst.Element):
        around = module.parents[module.parents[around]]
    return around if isinstance(around, cst.Arg) and not around.star else node


def _name_forward(porting: Porting, call: cst.Call) -> None:
    """`outputs = model(**inputs, labels=ids)`: Tunix's model is called with other arguments, and gives other things."""
    if _is_answered(porting, call, call):
        return
    code = shortened(porting.module.code(call))
    if (entry := _entry_asked(porting.module, call)) is not None:
        message = f"{code}: this is the model, no pipeline, and its logits have no {entry}: the GPU run raises here, "
        message += "as does the port."
        fix = "Call a text-generation pipeline of the model, or take it out."
        porting.find(RULE, "warning", message, fix, *porting.module.location(call))
        return
    message = f"{code}: Tunix's model takes no torch tensors and gives no loss: the port raises here."
    fix = "Evaluate with the trainer, sample with rt.generate, or load the saved model in torch for this."
    porting.find(RULE, "error", message, fix, *porting.module.location(call))


def _entry_asked(module: Module, call: cst.Call) -> str | None:
    """The key in `model(prompt)[0]["generated_text"]`, which is what a pipeline gives."""
    first = module.parents[call]
    second = module.parents[first]
    for node, kind in ((first, cst.Integer), (second, cst.SimpleString)):
        index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
        if not isinstance(index, cst.Index) or not isinstance(index.value, kind):
            return None
    return module.code(second.slice[0].slice.value)  # type: ignore[attr-defined]


def _name_callers(porting: Porting, use: Use, node: cst.Return) -> None:
    """A finding where what a function gives back is handed to code that isn't followed."""
    module = porting.module
    function = function_around(module, node)
    for call in calls_of(module, function) if function is not None else ():
        argument = module.parents[call]
        outer = module.parents[argument]
        if isinstance(argument, cst.Arg) and isinstance(outer, cst.Call) and not _is_known(porting, outer, argument):
            code = shortened(module.code(outer))
            message = f"{code}: this gets Tunix's {use.role}, and what is done with it there is not followed."
            porting.find(RULE, "error", message, "Check it, or do it in this file.", *module.location(outer))


def _is_known(porting: Training, call: cst.Call, argument: cst.Arg) -> bool:
    """Whether a call only looks at what it gets, has a rule of its own, or is of this file, where it is followed."""
    asked = ("known", argument)  # the same for all trainers of the file
    if asked not in porting.answers:
        porting.answers[asked] = _find_known(porting, call, argument)
    known: bool = porting.answers[asked]
    return known


def _find_known(porting: Training, call: cst.Call, argument: cst.Arg) -> bool:
    name = porting.module.qualified(call.func)
    if name in facts_of(porting.module).loads_adapters:
        return any(site.node is call for site in porting.sites)
    if parameter_of(porting.module, argument, call) is not None:
        return True
    if isinstance(call.func, cst.Name) and call.func.value in (*READERS, "dict"):
        is_builtin = porting.module.scope(call).lookup(call.func.value) is None
        return is_builtin and (call.func.value != "dict" or _is_for_sites(porting, call, argument))
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in LOGS:
        return True
    matches = _matches(porting)
    return name is not None and (name in tables_of(porting) or name in matches or f"{name}()" in matches)


def _is_for_sites(porting: Training, call: cst.Call, argument: cst.Arg) -> bool:
    """Whether `kwargs = dict(model=model, ...)` is handed to calls that are read as `**kwargs`, and the entry of the
    argument is read nowhere else."""
    module, line = porting.module, porting.module.parents[call]
    if isinstance(line, cst.AnnAssign):
        target: cst.BaseExpression | None = line.target
    else:
        target = line.targets[0].target if isinstance(line, cst.Assign) and len(line.targets) == 1 else None
    found = module.scope(call).lookup(target.value) if isinstance(target, cst.Name) else None
    if argument.keyword is None or found is None or not isinstance(target, cst.Name):
        return False
    read = {site.node for site in porting.sites}
    for use in module.references(target.value, found[0]):
        around = module.parents[use]
        if isinstance(around, cst.Arg) and around.star == "**" and module.parents[around] in read:
            continue
        key = _key_of(module, use)
        if key is None or key == argument.keyword.value:
            return False
    return True


def _key_of(module: Module, use: cst.CSTNode) -> str | None:
    """The key that a use of a dictionary is about: `kwargs["rows"] = rows`, `kwargs.get("rows")`."""
    around = module.parents[use]
    if isinstance(around, cst.Attribute) and around.attr.value in ("get", "pop", "setdefault"):
        called = module.parents[around]
        first = called.args[0].value if isinstance(called, cst.Call) and called.args else None
    else:
        first = index_of(around) if isinstance(around, cst.Subscript) and around.value is use else None
    key = first.evaluated_value if isinstance(first, cst.SimpleString) else None
    return key if isinstance(key, str) else None


def _matches(porting: Training) -> set[str]:
    """All that rules answer."""
    if "matches" not in porting.answers:
        rules = [rule for pack in porting.packs for rule in pack.every_rule]
        porting.answers["matches"] = {match for rule in rules for match in getattr(rule, "matches", ())}
    found: set[str] = porting.answers["matches"]
    return found


def _name_bindings(porting: Porting, site: Site) -> None:
    """Later assignments of the model's name that are no site: the trainer would get something else."""
    module, variable = porting.module, site.variable
    assert variable is not None
    known = [site.node for site in porting.sites if site.role in ("model", "inject")]
    bound = site.home.attributes if "." in variable else site.home.bindings
    for binding in bound.get(variable.rpartition(".")[2], ()):
        node = binding.node
        if binding.kind not in ("assign", "unpack", "other") or module.span(node)[0] <= site.start:
            continue
        if any(isinstance(value, cst.Call) and value in known for value in binding_origins(module, binding)):
            continue
        if (name := _target(binding)) is not None and is_itself(module, binding, name):
            continue
        if _is_answered(porting, node, node) or is_behind(porting, node) or _is_loaded_again(porting, node):
            continue
        message = f"{shortened(module.code(node))}: from here on {variable} is an object that the port doesn't know."
        fix = f"Do the same to Tunix's model, or take it out if {variable} is not trained after it."
        porting.find(RULE, "error", message, fix, *module.location(node))


def _is_loaded_again(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether what is bound is a model that the port loads again behind the training, or that one merged."""
    if not isinstance(node, cst.Assign):
        return False
    start, end = porting.module.span(node.value)
    return any(edit.rule == LOADED_AGAIN and edit.start == start and edit.end >= end for edit in porting.edits)


def _target(binding: Binding) -> cst.BaseExpression | None:
    """The variable of `model = ...`, or of its part of `model, tokenizer = ...`."""
    target = binding.node.targets[0].target if isinstance(binding.node, cst.Assign) else None
    if isinstance(target, cst.Tuple | cst.List) and binding.index is not None and binding.index < len(target.elements):
        return target.elements[binding.index].value
    return target


def _is_answered(porting: Porting, name: cst.CSTNode, around: cst.CSTNode) -> bool:
    """Whether an edit replaces the place, or an error already stands on its lines."""
    module = porting.module
    if porting.covered(module.span(name)[0]):
        return True
    begin, end = module.span(around)
    first, last = module.line_column(begin)[0], module.line_column(end)[0]
    return any(finding.severity == "error" and first <= finding.line <= last for finding in porting.findings)


def _is_continued(porting: Porting, name: cst.CSTNode) -> bool:
    """Whether a rule writes an attribute behind a name: `getattr(trainer.training_hooks, "state", None)`."""
    end = porting.module.span(name)[1]
    return any(edit.start == edit.end == end for edit in porting.edits)


@step(Phase.NAME, of="trainer")
def name_untrained(porting: Porting) -> None:
    """A trainer whose train() isn't called where it can be seen."""
    site = porting.trainer
    assert site is not None
    uses = role_uses(porting, "trainer")
    if porting.loop is None and not any(use.match == "@trainer.train()" for use in uses):
        if not uses and (later := _made_again(porting, site)) is not None:
            message = f"Nothing trains this trainer: {site.variable} is another from line {later.line} on."
            fix = "Take it out, with what is made for it alone."
            porting.find("TP111", "warning", message, fix, site.line, site.column)
            return
        if porting.only_evaluates:
            _say_it_evaluates(porting, site)
            return
        message = "The call of train() on this trainer was not found beside it."
        names = porting.names
        batches = f"{names.trainer}.batches" if porting.given_away else names.batches
        fix = f"Where it is called, write `with {names.mesh}: {names.trainer}.train({batches})`."
        porting.find("TP111", "error", message, fix, site.line, site.column)


def _say_it_evaluates(porting: Porting, site: Site) -> None:
    """Of a trainer that nothing trains, which the port has with batches of its rows all the same."""
    message, rows = "Nothing trains this trainer: it evaluates alone, and saves nothing.", porting.value("data.train")
    if rows is not None and not rows.is_literal(None):
        porting.find("TP111", "info", message, "", site.line, site.column)
        return
    message = f"{message} The port counts steps by its train_dataset, and ends without one."
    fix = "Give it the rows that it evaluates as train_dataset, too."
    porting.find("TP111", "error", message, fix, site.line, site.column)


def _made_again(porting: Porting, site: Site) -> Site | None:
    """The next trainer that the same variable holds, where every run that has made this one makes it."""
    module = porting.module
    block = module.parents[module.statement(site.node)]
    makers = (mate.trainer for mate in porting.mates if mate.trainer is not None)
    later = [each for each in makers if each.start > site.start and each.variable == site.variable]
    return next((each for each in later if module.parents[module.statement(each.node)] is block), None)


@step(Phase.NAME)
def name_other_trainers(porting: Porting) -> None:
    """A trainer of the file that is refused, beside those that are ported."""
    find_other_trainer(porting, todo=True)
