"""Which config objects stay objects in the port: those whose values only the running script knows.

A config that is only read is spread: each value stands where Tunix wants it. One that the script changes, hands on
or fills with what it decides at run time stays, as the runtime's class of the same name, which judges its values
when the script starts.
"""

from __future__ import annotations

import libcst as cst

from ...source.dictionaries.items import dict_items
from ...source.scopes import Scope
from ...text.edits import within
from ..answering.member_uses import apply_rewrite, member_rules
from ..packs.pack import Rewrite, TableRule
from ..script.callback_methods import reads_arguments
from ..script.dead_blocks import is_dead
from ..script.fill_from_tables import tables_of
from ..script.following.drawn_anew import is_drawn_anew
from ..script.following.rebound import holds, is_set_between
from ..script.porting import Porting
from ..script.sites import Argument, Site, shown
from ..script.training import Training, in_reach
from ..script.uses_of_training import Use, role_uses, uses
from ..steps.step import Phase, step

# Values that shape the port's code, so that an expression can't just be written where the value goes.
SHAPES = ("eval.strategy", "save.strategy", "log.strategy", "save.best_at_end")
SHARED = ("run.output_dir", "run.seed", "data.seed")  # what several lines of a port use
# Names that the runtime's own function refuses where it is called.
REFUSED_IN_PLACE = ("optimizer.name", "schedule.name")


def is_spread(porting: Training, argument: Argument, config: Site | None, table: TableRule | None) -> bool:
    """Whether a training config is only read and what decides about the port's form is known."""
    if config is None or table is None or config.unknown_keywords or _decided_later(porting, config, table):
        return False
    if not all(argument.certain for argument in config.arguments):
        return False
    if not _is_beside(porting, config, porting.trainer) or config.node in porting.kept or reads_arguments(porting):
        return False
    if any(is_drawn_anew(porting.module, given.node) for given in config.arguments if _place(table, given) in SHARED):
        return False
    later = [use.outer for use in role_uses(porting, "trainer")]
    if any(is_set_between(porting.module, given.node, use) for given in config.arguments for use in later):
        return False
    if argument.reference is None:
        return True
    if config.variable is None or _changed(porting, "arguments", argument, config):
        return False
    rules = member_rules(porting)
    for use in _reads_of(porting, config):
        name = use.chain.split(".")[0]
        row, given = table.table.row(name), config.argument(name)
        if (row is None or not row.place) and use.match not in rules:
            return False
        if holds(porting.module, use.name, config.node) is None:
            return False
        if given is not None and is_set_between(porting.module, given.node, use.name):
            return False
        if given is not None and is_drawn_anew(porting.module, given.node):
            return False
    return True


def _place(table: TableRule, argument: Argument) -> str:
    row = table.table.row(argument.name)
    return row.place if row is not None else ""


def _reads_of(porting: Training, config: Site) -> tuple[Use, ...]:
    """Where attributes of a training config are read, or may be where its variable is bound several times."""
    asked = ("reads", config.node, config.variable, id(config.scope))  # the file keeps its scopes
    if asked not in porting.answers:
        assert config.variable is not None
        read = (use for use in uses(porting, "arguments", config.variable, config.scope) if use.kind == "read")
        porting.answers[asked] = tuple(use for use in read if holds(porting.module, use.name, config.node) is not False)
    found: tuple[Use, ...] = porting.answers[asked]
    return found


def _is_beside(porting: Training, config: Site, user: Site | None) -> bool:
    """Whether what a config is made of can be read at the call that takes it, and nobody else holds the config."""
    if user is None or not in_reach(config.scope, user.scope):
        return False
    if config.variable is None:
        return user.start <= config.start < user.end
    if any(is_set_between(porting.module, argument.node, user.node) for argument in config.arguments):
        return False
    return "." not in config.variable


def adapters_are_spread(
    porting: Training, argument: Argument, config: Site | None, table: TableRule | None, user: Site
) -> bool:
    """Whether a LoraConfig stays as it was made, and says itself what it asks for."""
    if config is None or table is None or config.unknown_keywords or _decided_later(porting, config, table):
        return False
    if not all(argument.certain for argument in config.arguments):
        return False
    if not _is_beside(porting, config, user) or config.node in porting.kept:
        return False
    return config.variable is None or not _changed(porting, "lora", argument, config)


def _decided_later(porting: Training, config: Site, table: TableRule) -> bool:
    """Whether a keyword's value is open at port time that has to be judged, or that shapes the code."""
    for argument in config.arguments:
        row = table.table.row(argument.name)
        if row is None or argument.value.known:
            continue
        if row.place in SHAPES or (row.judged_later and row.place not in REFUSED_IN_PLACE):
            return True
        if row.place == "data.kwargs":
            return True
        if row.place == "model.init_kwargs" and (
            argument.node is None or not dict_items(porting.module, argument.node)
        ):
            return True
    return False


def _changed(porting: Training, role: str, argument: Argument, config: Site) -> bool:
    """Whether the script sets an attribute of the config, calls a method of one, or hands it to other code."""
    assert config.variable is not None
    asked = ("changed", role, config.variable, id(config.scope))  # the file keeps its scopes
    if asked not in porting.answers:
        porting.answers[asked] = _changing(porting, role, config.variable, config.scope)
    for use in porting.answers[asked]:
        held = isinstance(porting.module.parents[use.name], cst.DictElement)  # kwargs = {"args": config}
        if use.kind != "bare" or use.name is not argument.node or held:
            return True
    return False


def _changing(porting: Training, role: str, variable: str, scope: Scope) -> list[Use]:
    """The uses of a config that change it, or hand it (bare) to other code than a trainer."""
    takers = {site.node for site in porting.sites if site.role in ("trainer", "inject")}
    rules = member_rules(porting)
    found = []
    for use in uses(porting, role, variable, scope):
        if is_dead(porting.module, use.name):
            continue
        parent = porting.module.parents[use.name]
        is_typed = isinstance(parent, cst.AnnAssign) and parent.target is use.name
        taken = isinstance(parent, cst.Arg) and porting.module.parents[parent] in takers
        if (
            (use.kind in ("assign", "call") and use.match not in rules)
            or (use.kind == "bare" and not taken and not is_typed)
            or (use.kind == "read" and role == "lora" and not is_typed)  # the spread config has no attributes any more
        ):
            found.append(use)
    return found


@step(Phase.ANSWER, of="trainer", reads=("claimed uses",))
def answer_uses(porting: Porting) -> None:
    """Methods and properties of the config that are no fields: the packs' rewrites, or a finding."""
    module, site, trainer = porting.module, porting.arguments, porting.trainer
    assert trainer is not None
    variable, scope = (site.variable, site.scope) if site is not None else (None, trainer.scope)
    if site is None and porting.arguments_object.isidentifier():
        found = module.scope(trainer.node).lookup(porting.arguments_object)
        variable, scope = (porting.arguments_object, found[0]) if found is not None else (None, scope)
    if variable is None:
        return
    rules = member_rules(porting)
    covered = [(edit.start, edit.end) for edit in porting.edits]
    for use in _no_fields(porting, variable, scope):
        if within(module.span(use.name)[0], covered):
            continue
        rule = rules.get(use.match)
        if isinstance(rule, Rewrite):
            apply_rewrite(porting, rule, use.outer, variable, use.kind)
        else:
            line, column = module.location(use.name)
            message = f"{shown(module.code(use.outer))}: the ported config has the fields, but not this."
            porting.find("TP190", "error", message, "Set or read the fields themselves.", line, column)


def _no_fields(porting: Training, variable: str, scope: Scope) -> list[Use]:
    """The uses of a config that a pack rewrites, or that the runtime's class hasn't."""
    asked = ("no fields", variable, id(scope))  # the file keeps its scopes
    if asked not in porting.answers:
        rules = member_rules(porting)
        heads = [rule.head for rule in tables_of(porting).values() if rule.role == "arguments"]
        members = {member for head in heads for member in head.get("members", ())}
        porting.answers[asked] = [
            use
            for use in uses(porting, "arguments", variable, scope)
            if isinstance(rules.get(use.match), Rewrite)
            or (use.kind != "assign" and use.chain.split(".")[0] in members)
        ]
    found: list[Use] = porting.answers[asked]
    return found
