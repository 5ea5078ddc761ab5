"""Several trainers in one file: each is read and written by itself, and what they say of the same lines must agree.

`if args.use_peft:` one trainer, `else:` another; two stages one after the other; a function for each. A view is a
`Training` of its own over the same source, then a `Porting`; the edits of all are one port.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

import libcst as cst

from ...source.calls import argument_of, calls_of, function_around
from ...source.module import Module
from ...source.scopes import Binding
from ...text.edit import Edit
from .flow import Variable, is_itself, put_in_again, without_placement
from .porting import Porting
from .sites import Site, shown
from .training import Names, Training
from .where_values_go import asks_for_wrapper, holders, unwraps

RULE = "TP190"


def read_views(whole: Training, trainers: Sequence[Site], read: Callable[[Training], None]) -> list[Training]:
    """A view of every trainer, read. A config that stays an object for one of them stays one for all."""
    kept: frozenset[cst.CSTNode] = frozenset()
    full: frozenset[cst.CSTNode] = frozenset()
    while True:
        views = [_view(whole, site, trainers, kept) for site in trainers]
        mates: dict[object, list[Training]] = {}
        for view in views:
            mates.setdefault(_holder(view), []).append(view)
        for view in views:
            _name(view, mates[_holder(view)])
            if view.others:
                view.full_elsewhere = bool(full)
            read(view)
        objects = {view.config.node for view in views if view.config is not None and view.arguments_object}
        objects |= {site.node for view in views if view.lora_object for site in whole.of_role("lora")}
        trained_whole = {view.model.node for view in views if view.model is not None and not _has_adapters(view)}
        if len(views) == 1 or (objects <= kept and trained_whole <= full):
            break
        kept, full = kept | objects, full | trained_whole
    injects = [view.inject for view in views if view.inject is not None]
    injects += [site for view in views for site in view.own_injects]
    for view in views:
        view.own_injects = tuple(injects)
    return views


def _view(whole: Training, site: Site, trainers: Sequence[Site], kept: frozenset[cst.CSTNode]) -> Training:
    others = tuple(other for other in trainers if other is not site)
    names = Names(runtime="tpu_rt" if "rt" in whole.module.bound_names else "rt")
    found = copy(whole.findings)
    return replace(whole, trainer=site, others=others, kept=kept, names=names, findings=found, loads={}, ignored=[])


def _has_adapters(view: Training) -> bool:
    return bool(view.lora or view.lora_object or view.inject)


def _holder(view: Training) -> object:
    """The variable that holds a view's trainer, and the scope that binds it."""
    assert view.trainer is not None
    return view.trainer.variable, view.trainer.home


def _name(view: Training, same: Sequence[Training]) -> None:
    """The trainer's name; trainers of one variable (the views `same`) share the names of their data, others have
    their own."""
    site = view.trainer
    assert site is not None
    view.names.trainer = site.variable or view.fresh_at(site.scope, "trainer")
    view.mates = tuple(other for other in same if other is not view)


def reached(module: Module, site: Site, rivals: Sequence[Site], uses: Sequence[Variable]) -> list[Variable]:
    """The uses at which a variable may hold this site's trainer, though `rivals` assign the same variable."""
    if not rivals:
        return [*uses]
    places, own = _places(module, site, rivals), function_around(module, site.node)
    found = []
    for use in uses:
        function, start, last = places.of(use)
        if function is own:
            held = last <= site.start <= start and not are_apart(module, site.node, use)
        else:
            held = function not in places.functions
        if held or use is site.node:
            found.append(use)
    return found


class _Places:
    """Where the sites of one variable stand: their functions, and in each block where they begin, in order."""

    def __init__(self, module: Module, sites: Sequence[Site]) -> None:
        self.module = module
        self.functions = {function_around(module, site.node) for site in sites}
        self.starts: dict[cst.CSTNode | None, list[int]] = {}
        for site in sorted(sites, key=lambda site: site.start):
            self.starts.setdefault(_block(module, site.node), []).append(site.start)
        self.found: dict[cst.CSTNode, tuple[cst.CSTNode | None, int, int]] = {}

    def of(self, use: cst.CSTNode) -> tuple[cst.CSTNode | None, int, int]:
        """A use's function, where it begins, and where the last site before it does, of those that run whenever the use
        is come to; else -1."""
        if use not in self.found:
            start = self.module.span(use)[0]
            blocks = (self.starts.get(block, ()) for block in self.module.ancestors(use))
            last = max(
                (block[bisect_left(block, start) - 1] for block in blocks if block and block[0] < start), default=-1
            )
            self.found[use] = function_around(self.module, use), start, last
        return self.found[use]


def _places(module: Module, site: Site, rivals: Sequence[Site]) -> _Places:
    asked = ("places of rivals", site.variable, site.home)
    if asked not in module.memory:
        module.memory[asked] = _Places(module, [site, *rivals])
    found: _Places = module.memory[asked]
    return found


def is_another(porting: Training, use: cst.BaseExpression) -> bool:
    """Whether a variable of the model holds something else where it is used: bound anew behind the training.

    `model = AutoPeftModelForCausalLM.from_pretrained("out")`, to merge or to generate, is torch's and works as it did.
    """
    module = porting.module
    assert porting.trainer is not None
    start = module.span(use)[0]
    for binding in _bound_behind(porting, use):
        if module.span(binding.node)[1] <= start and _block(module, binding.node) in [*module.ancestors(use)]:
            if not is_itself(module, binding, use) and not unwraps(binding.value) and not _names_it(porting, binding):
                return True
    return False


def is_given_another(porting: Training, use: cst.BaseExpression) -> bool:
    """Whether a variable is a parameter, and all calls of its function give it something bound anew behind the
    training: `generate(model, tokenizer)`, with `model = PeftModel.from_pretrained(...)` above.
    """
    module = porting.module
    found = module.meaning(use)
    parameter = found[1][0].node if found is not None and [item.kind for item in found[1]] == ["parameter"] else None
    if not isinstance(parameter, cst.Param):
        return False
    function = next((node for node in module.ancestors(parameter) if isinstance(node, cst.FunctionDef)), None)
    if function is None:
        return False
    calls = calls_of(module, function)
    if not calls or len(calls) != len(module.loads(function.name.value)):
        return False
    given = [argument_of(module, call, parameter.name.value) for call in calls]
    return all(isinstance(value, cst.Name) and is_another(porting, value) for value in given)


def _names_it(porting: Training, binding: Binding) -> bool:
    """`final = model`, `final = model.module if hasattr(model, "module") else model`, `final = trainer.model`: another
    name of the model."""
    module, value = porting.module, binding.value
    value = put_in_again(module).get(value, value) if isinstance(value, cst.Call) else value
    while isinstance(value, cst.IfExp) and asks_for_wrapper(module, value.test):
        value = value.orelse
    value = without_placement(value)
    if isinstance(value, cst.Attribute) and value.attr.value == "model" and porting.trainer is not None:
        if _is_held(module, porting.trainer, value.value):
            return True
    found = module.meaning(value)
    if found is None or binding in found[1] or binding.index is not None:
        return False
    sites = [site for site in (porting.model, porting.inject) if site is not None]
    same = value is not None and any(_is_held(module, site, value) for site in sites)
    return same and value is not None and not is_another(porting, value)


def _is_held(module: Module, site: Site, value: cst.BaseExpression) -> bool:
    """Whether a variable holds what a site makes."""
    found = module.meaning(value)
    places = holders(module, site)[0] if found is not None else ()
    return any(found is not None and p.scope is found[0] and p.variable == module.code(value) for p in places)


def _bound_behind(porting: Training, use: cst.BaseExpression) -> list[Binding]:
    """The assignments, behind the training, of what a name or `self.x` means."""
    found = porting.module.meaning(use)
    if found is None:
        return []
    asked = ("bound behind", id(found[1]))  # the file keeps its bindings
    if asked not in porting.answers:
        made = [item for item in found[1] if item.kind != "parameter" and isinstance(item.node, cst.Assign)]
        porting.answers[asked] = [item for item in made if is_behind(porting, item.node)]
    bound: list[Binding] = porting.answers[asked]
    return bound


def is_behind(porting: Training, node: cst.CSTNode) -> bool:
    """Whether a statement runs after all trainers of its function, in no loop around them."""
    module = porting.module
    sites = [site for site in (porting.trainer, *porting.others) if site is not None]
    here = [site for site in sites if function_around(module, site.node) is function_around(module, node)]
    return bool(here) and not module.loops(node) and all(site.statement_end <= module.span(node)[0] for site in here)


def _block(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """The block of statements in which `node` stands."""
    return next((item for item in module.ancestors(node) if isinstance(item, cst.BaseSuite | cst.Module)), None)


def are_apart(module: Module, one: cst.CSTNode, later: cst.CSTNode) -> bool:
    """Whether two nodes stand in branches of which only one runs."""
    branches = _branches(module, later)
    nested = bisect_right(branches, module.span(one)[0], key=lambda branch: module.span(branch[0])[0])
    if not nested:
        return False
    innermost, inner = branches[nested - 1]
    around = _around(module, one)
    return innermost in around and inner not in around


def _branches(module: Module, node: cst.CSTNode) -> list[tuple[cst.If, cst.CSTNode]]:
    """Every `if` around a node, with the part of it that holds the node, the outermost first."""
    asked = ("branches", node)
    if asked not in module.memory:
        found = []
        inner = node
        for ancestor in module.ancestors(node):
            if isinstance(ancestor, cst.If):
                found.append((ancestor, inner))
            inner = ancestor
        module.memory[asked] = found[::-1]
    branches: list[tuple[cst.If, cst.CSTNode]] = module.memory[asked]
    return branches


def _around(module: Module, node: cst.CSTNode) -> frozenset[cst.CSTNode]:
    asked = ("around", node)
    if asked not in module.memory:
        module.memory[asked] = frozenset(module.ancestors(node))
    found: frozenset[cst.CSTNode] = module.memory[asked]
    return found


def merge(views: Sequence[Porting]) -> Porting:
    """One Porting with the edits of all views; where they want different code at one place, a person is asked."""
    whole = views[0]
    if len(views) == 1:
        return whole
    edits: dict[object, Edit] = {}
    for view in views:
        for edit in view.edits:
            place = (edit.start, edit.end)
            known = place if edit.end > edit.start else (place, edit.new)
            rival = edits.setdefault(known, edit)
            if rival.new == edit.new:
                edits[known] = replace(rival, carries=tuple(dict.fromkeys((*rival.carries, *edit.carries))))
            if rival.new != edit.new:
                code = shown(whole.module.text[edit.start : edit.end])
                message = f"{code}: the trainers of this file need different code here: {shown(edit.new)}"
                view.find(RULE, "error", message, "Make it for each of them.", edit.line, edit.column)
    whole.edits = list(edits.values())
    return merge_findings(whole, views)


def merge_findings(whole: Porting, views: Sequence[Porting]) -> Porting:
    """The findings, fates and comments of all views in one."""
    fields = dict.fromkeys(row for view in [whole, *views] for row in view.fields)
    for view in views:
        whole.findings.take(view.findings)
    others = tuple(replace(view.recipe, fields=(), findings=()) for view in views if view is not whole)
    whole.fields = tuple(fields)
    whole.recipe = replace(whole.recipe, others=others)
    return whole
