"""Reading: tables and sites → the Recipe, with a fate for every keyword."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast

import libcst as cst

from ...recipe import Fate, Field, Origin, Severity, Value, read_literal
from ...runtime.facts.field_tables import Row
from ...source.module import Module
from ...source.scopes import Binding
from ...text.expressions import python
from ..packs.kinds import is_of_kind
from ..packs.pack import KEPT, Pack, Rewrite, TableRule, by_claim
from ..packs.said_by_packs import title_of
from .config_attributes import held_value, refused_usually, surely_held
from .dead_blocks import held_while_off, is_dead
from .flow import PLACEMENT, origins
from .sites import Argument, Site, assigned_name, facts_of, read_site, shown
from .subclasses import OF_CHECKPOINTS, added, base_of, refusal, trains_otherwise
from .training import Training

# What the name of a configuration or a trainer ends with.
CONFIGURES = re.compile(r"\.\w*(?:Config|Arguments|Trainer)$")


def find_sites(porting: Training) -> None:
    """Every call that a table of a pack describes, in source order."""
    by_class = tables_by_class(porting.packs)
    trainers = {name.split(".", 1)[0] for name in trainers_known(porting)}
    if not mentions_import(porting.module.text, trainers) or not trainers & porting.module.roots:
        return

    def named(call: cst.Call) -> str:
        name = porting.module.qualified(call.func)
        if name is None and (base := base_of(porting.module, call.func)) is not None and base in by_class:
            is_trainer = by_class[base].role == "trainer" and not trains_otherwise(porting.module, call.func)
            name = base if is_trainer else None
        return name or ""

    for call in porting.module.calls_that(lambda call: named(call) in by_class):
        name = named(call)
        rule = by_class[name]
        if porting.options.active(rule.id):
            if is_dead(porting.module, call):
                continue
            site = read_site(porting.module, call, rule.role, rule.id, name, rule.positional)
            if not _has_asked(site, rule):
                continue
            if rule.role == "trainer" and is_in_expression(porting.module, site):
                site = replace(site, is_bound=False)
            porting.sites.append(_with_placement(porting.module, site) if rule.role == "model" else site)


def _has_asked(site: Site, rule: TableRule) -> bool:
    """Whether a call has the keyword, true, without which its table doesn't mean it (`only_with`)."""
    keyword = rule.head.get("only_with")
    argument = site.argument(keyword) if isinstance(keyword, str) else None
    return keyword is None or (argument is not None and argument.value.is_literal(True))


OWN_WAY = "own trainer"  # the key of what is said of a class that trains in a way which no rule reads
JUDGED = "judged when the script starts, which refuses by name what can't be ported"

# Expressions that are not evaluated just once where they stand.
CONDITIONAL = (cst.Lambda, cst.CompFor, cst.GeneratorExp, cst.ListComp, cst.DictComp, cst.IfExp, cst.BooleanOperation)


def is_in_expression(module: Module, site: Site) -> bool:
    """Whether a call stands in a larger expression, `return SFTTrainer(...)`, that its statement surely evaluates."""
    if site.variable is not None or site.alone or site.place != "line":
        return False
    for ancestor in module.ancestors(site.node):
        if isinstance(ancestor, cst.BaseSmallStatement):
            return True
        if isinstance(ancestor, CONDITIONAL):
            return False
    return False


def _with_placement(module: Module, site: Site) -> Site:
    """`from_pretrained(...).to(device)` is one site: Tunix's model is on the mesh when it is loaded."""
    outer: cst.CSTNode = site.node
    while isinstance(around := module.parents[outer], cst.Attribute) and around.attr.value in PLACEMENT:
        call = module.parents[around]
        if not isinstance(call, cst.Call) or call.func is not around:
            break
        outer = call
    if outer is site.node:
        return site
    start, end = module.span(outer)
    return replace(site, start=start, end=end, variable=assigned_name(module, outer))


def find_other_trainer(porting: Training, *, todo: bool = False) -> str | None:
    """A trainer that is refused, or a subclass that does something of its own: recorded, and its name given.

    `todo`: beside a trainer that is ported, the finding stands in the port too.
    """
    module, trainers = porting.module, trainers_known(porting)
    if not mentions_import(module.text, {name.split(".", 1)[0] for name in trainers}):
        return None
    found = None

    def named(call: cst.Call) -> str | None:
        return module.qualified(call.func) or base_of(module, call.func)

    for call in module.calls_that(lambda call: named(call) in trainers):
        own, name = module.qualified(call.func) is None, named(call) or ""
        if not porting.options.active(trainers[name].id):
            continue
        severity: Severity = "error"
        rule, stands = trainers[name], todo
        text = f"{module.code(call.func)}({name})" if own else name.split(".", 1)[-1]
        if isinstance(rule, Rewrite) and todo and not own:
            continue  # its rewrite says it
        if isinstance(rule, Rewrite):
            reason, fix = rule.reason, rule.fix
        elif own and (methods := added(module, call.func)):
            reason, fix = refusal(methods)
            if OF_CHECKPOINTS.issuperset(methods):
                severity, stands = "warning", False
        else:
            continue
        key = OWN_WAY if own and severity == "error" else ""
        porting.find(rule.id, severity, f"{text}: {reason}.", fix, *module.location(call), todo=stands, key=key)
        found = found or name
    return found


def trainers_known(porting: Training) -> Mapping[str, TableRule | Rewrite]:
    """Every class that trains: those with a table, and those that a pack refuses (`library.SomeTrainer()`)."""
    return _trainers(porting.packs)


@lru_cache(maxsize=KEPT)
def _trainers(packs: tuple[Pack, ...]) -> Mapping[str, TableRule | Rewrite]:
    found: dict[str, TableRule | Rewrite] = {
        name: rule for name, rule in tables_by_class(packs).items() if rule.role == "trainer"
    }
    for pack in packs:
        for rewrite in pack.rewrites:
            if rewrite.action == "refuse":
                refused = {match[:-2] for match in rewrite.matches if match.endswith("Trainer()")}
                found |= {name: rewrite for name in refused if name not in found}
    return MappingProxyType(found)


def trainer_libraries(packs: tuple[Pack, ...]) -> frozenset[str]:
    """The libraries whose trainers are ported, or refused by name; a loop written by hand is none's."""
    known = _trainers(packs)
    loops = {name for name, rule in known.items() if isinstance(rule, TableRule) and rule.kind == "loop"}
    return frozenset(name.partition(".")[0] for name in known.keys() - loops)


def configuring(packs: tuple[Pack, ...]) -> frozenset[str]:
    """The libraries that have configurations and trainers with a table, or trainers that a pack refuses."""
    names = [name for pack in packs for table in pack.tables for name in table.names]
    names += [
        match[:-2] for pack in packs for rewrite in pack.rewrites for match in rewrite.matches if match[-2:] == "()"
    ]
    return frozenset(name.partition(".")[0] for name in names if CONFIGURES.search(name))


def mentions_import(text: str, packages: Iterable[str]) -> bool:
    """Whether an import statement of the text may name one of `packages`: a file without one needs no closer look."""
    names = "|".join(map(re.escape, packages))
    return bool(names) and re.search(rf"\b(?:import|from)\b(?:[^\n#]|\\\r?\n)*\b(?:{names})\b", text) is not None


@lru_cache(maxsize=KEPT)
def tables_by_class(packs: tuple[Pack, ...]) -> Mapping[str, TableRule]:
    """The tables by every name of their class."""
    rules = by_claim(rule for pack in packs for rule in pack.tables)
    return MappingProxyType({name.removesuffix("()"): rule for name, rule in rules.items()})


def table_of(porting: Training, site: Site) -> TableRule:
    """The table that describes `site`."""
    return tables_of(porting)[site.qualified]


def argument_at(porting: Training, site: Site, place: str) -> Argument | None:
    """The argument of a call that its table puts at a place of the Recipe: `peft_config=` is `lora.config`."""
    table = table_of(porting, site).table
    rows = ((argument, table.row(argument.name)) for argument in site.arguments)
    return next((argument for argument, row in rows if row is not None and row.place == place), None)


def tables_of(porting: Training) -> Mapping[str, TableRule]:
    """The tables by every name of their class."""
    return tables_by_class(porting.packs)


def follow(porting: Training, argument: Argument | None, role: str) -> Site | None:
    """The site of `role` that an argument's value comes from, through names, attributes and functions."""
    if argument is None or argument.node is None:
        return None
    made = {site.node: site for site in porting.of_role(role)}
    nodes = origins(porting.module, argument.node)
    return next((made[node] for node in nodes if isinstance(node, cst.Call) and node in made), None)


def bindings_of(module: Module, name: cst.BaseExpression | None) -> list[Binding]:
    """Every binding of a name (or of `self.x`) as it is used at that place."""
    found = module.meaning(name)
    return [binding for binding in found[1] if not is_dead(module, binding.node)] if found else []


def fill_defaults(porting: Training, rule: TableRule, versions: Mapping[str, str]) -> None:
    """Put the defaults of a class into the recipe where nothing stands yet."""
    asked = ("defaults", rule.id, rule.table.name, *sorted(versions.items()))
    if asked not in porting.answers:
        origin = Origin(rule.table.name, 0, 0, rule.id)
        rows = rule.table.defaults(versions).items()
        porting.answers[asked] = {
            place: Value("default", row.default, origin, "") for place, row in rows if row.default is not None
        }
    defaults: dict[str, Value] = porting.answers[asked]
    porting.fill({place: value for place, value in defaults.items() if porting.value(place) is None})


def fill_site(porting: Training, site: Site, rule: TableRule, versions: Mapping[str, str]) -> None:
    """Put what a call says into the recipe, and give every keyword of it a fate."""
    asked = ("rows", rule.id, *sorted(versions.items()))
    if asked not in porting.answers:
        porting.answers[asked] = rule.table.version(versions), rule.table.rows(versions), rule.table.defaults(versions)
    version, now, defaults = porting.answers[asked]
    short = short_name(site)
    ignored: list[Argument] = []
    for argument in site.arguments:
        source = f"{short}.{argument.name}"
        row = now.get(argument.name) or rule.table.row(argument.name)
        if row is None and (further := _handed_on(porting, site, rule)) is not None:
            row = further.table.row(argument.name)
        if row is None and site.role == "quantization" and not argument.name.startswith("argument "):
            reason = "transformers ignores what it doesn't know here"
            porting.fate(_row(source, argument, "dropped", "", reason, rule.id))
            message = f"{source}={argument.text}: it is no keyword of {short}, and {reason}; it is left out."
            porting.find(rule.id, "warning", message, "Check the spelling.", argument.line, argument.column, key=source)
            ignored.append(argument)
            continue
        if row is None:
            reason = f"{short} {version} has no such keyword"
            message = f"{source} is not a keyword of {short} {version}."
            fix = "Check the spelling, or name the version with --source-trl."
            if by := porting.module.roots.intersection(facts_of(porting.module).rewrites_trainers):
                adds, owner = title_of(porting.packs, min(by)), title_of(porting.packs, rule.library)
                fix = f"If {adds} adds it: say what it holds by keywords that {owner} has, and take it out."
            if argument.name.startswith("argument "):
                reason = "it has no keyword"
                message = f"{short}({argument.text}): {argument.name} is given without its keyword."
                fix = "Write the keyword: the order of a configuration's fields changes between versions."
            porting.fate(_row(source, argument, "manual", "", reason, rule.id))
            porting.find(rule.id, "error", message, fix, argument.line, argument.column, key=source)
            continue
        if row.is_ignored and not argument.value.is_literal(None):
            message = f"{source}={argument.text}: {short} {version} doesn't act on it: {row.reason}."
            fix = "Name the release that the script ran with by --source-trl, if it was an older one."
            porting.find(rule.id, "warning", message, fix, argument.line, argument.column, key=source)
        if (held := held_value(porting, argument)) is not argument.value and judge(held, row)[0] == "dropped":
            argument = replace(argument, value=held)
        off = held_while_off(porting.module, argument.node) if judge(argument.value, row)[0] == "manual" else None
        if off is not None and judge(off[0], row)[0] == "dropped":
            message = f"{source}={argument.text}: it is {off[0].code} as long as {off[1]}."
            fix = "The port takes no notice of it: see to that before you change the constant."
            porting.find(rule.id, "warning", message, fix, argument.line, argument.column, key=source)
            argument = replace(argument, value=off[0])
        otherwise = _otherwise(porting, row)
        if row.place and not otherwise and (not argument.value.known or is_of_kind(argument.value.literal, row.type)):
            porting.fill({row.place: _or_default(argument, defaults.get(row.place))})
        fate, reason = judge(argument.value, row)
        is_off = argument.value.is_literal(None) or argument.value.is_literal(False)
        if is_off and row.default is not None and same(argument.value.code, row.default):
            porting.marks.off.add((argument.line, argument.column))
        if not argument.value.known and row.judged_later and site.role in ("arguments", "lora"):
            fate, reason = "changed", JUDGED
            porting.marks.stays.add(("stays", argument.line, argument.column))
        refused = judge(sure, row) if (sure := surely_held(porting.module, argument)) is not None else None
        if refused is not None and refused[0] == "manual":
            fate, reason = refused
        elif (told := refused_usually(porting.module, argument, site, row)) is not None:
            usual, why = judge(told[0], row)
            if usual == "manual":
                fate, reason = usual, f"{told[1]} {told[0].code}, which the port refuses at its start: {why}"
        if otherwise and fate != "dropped":
            fate, reason = otherwise
        target = "" if fate in ("dropped", "manual") else row.target
        porting.fate(_row(source, argument, fate, target, reason, rule.id))
        if fate == "manual":
            said = f"{source}={' '.join(argument.text.split())}: {reason}"
            porting.find(rule.id, "error", said, "", argument.line, argument.column, key=source)
    if ignored:
        porting.ignored.append((rule.id, tuple(ignored)))
    if site.unknown_keywords:
        reason = "these keywords are not built in this file"
        text, line, column = site.unknown_keywords, site.line, site.column
        porting.fate(Field(f"{short}.**", text, "manual", "", reason, rule.id, line, column))
        message = f"{short}(..., {text}): the keywords in it are not known at port time."
        porting.find(rule.id, "error", message, "Write them at the call.", line, column)


def _handed_on(porting: Training, site: Site, rule: TableRule) -> TableRule | None:
    """The table of the class that a call hands on what it doesn't know to, where it does."""
    asked = [site.argument(name) for name in rule.hands_on_with]
    if asked and all(argument is None or argument.value.is_literal(False, None) for argument in asked):
        return None
    return tables_of(porting).get(rule.hands_on)


def _otherwise(porting: Training, row: Row) -> tuple[Fate, str] | None:
    """The fate and the reason of a keyword that the trainer takes no notice of; None where it does, or may."""
    trainer = porting.trainer
    if not row.kinds or trainer is None or table_of(porting, trainer).kind in row.kinds:
        return None
    fate = cast(Fate, row.otherwise.get("fate", "dropped"))
    if porting.arguments_object and fate != "dropped":
        return None  # the object is judged when the script runs
    reason = row.otherwise.get("reason", "{trainer} takes no notice of it")
    return fate, reason.replace("{trainer}", short_name(trainer))


def _or_default(argument: Argument, row: Row | None) -> Value:
    """The value of a keyword; one that a dictionary may lack, `kw.get("packing")`, has its default there."""
    value = argument.value
    default = read_literal(row.default) if row is not None and row.default is not None else None
    if argument.certain or default in (None, "auto"):
        return value
    missing, read = python(default), value.code
    if read.endswith('")'):
        read = f"{read[:-1]}, {missing})"
    elif read.endswith(" else None)"):
        read = f"{read.removesuffix('None)')}{missing})"
    elif not read.endswith("]") and argument.node is not None:  # given where it is not None
        read = f"({read} if {read} is not None else {missing})"
    return replace(value, code=read, text=read)


def short_name(site: Site) -> str:
    """`SFTConfig` for `trl.SFTConfig`, `AutoModelForCausalLM` for its `from_pretrained`."""
    return site.qualified.split(".", 1)[-1].replace(".from_pretrained", "")


def judge(value: Value, row: Row) -> tuple[Fate, str]:
    """The fate of a keyword with this value, and why; a value that is the default changes nothing."""
    if not value.known:
        return row.fate, row.reason
    if not is_of_kind(value.literal, row.type):
        return "manual", f"the release wants {row.type} here."
    fate, reason = row.verdict(value.literal)
    former = [read_literal(default) for default in row.defaults.values()] if row.choices else []
    if row.choices and isinstance(value.literal, str) and value.literal not in (*row.choices, *former):
        return "manual", f"this is not known; choose one of {', '.join(row.choices)}."
    if fate == "manual" and row.default is not None and same(value.code, row.default):
        return "dropped", "this is the default, which changes nothing"
    return fate, reason


def same(code: str, other: str) -> bool:
    """Whether two literal texts mean the same object (`"2e-4"` and `"0.0002"`), booleans apart from numbers."""
    try:
        one, two = read_literal(code), read_literal(other)
    except (ValueError, SyntaxError):
        return code == other
    return (isinstance(one, bool) == isinstance(two, bool)) and one == two


def _row(source: str, argument: Argument, fate: Any, target: str, reason: str, rule: str) -> Field:
    return Field(source, shown(argument.text), fate, target, reason, rule, argument.line, argument.column)


def is_given(arguments: Argument | None) -> bool:
    """Whether a trainer's `args=` is an object: a literal is None, or a finding."""
    return arguments is not None and not arguments.value.known


def config_table(porting: Training) -> TableRule | None:
    """The table of the config class whose defaults hold where the trainer is given none."""
    assert porting.trainer is not None
    return tables_of(porting).get(table_of(porting, porting.trainer).config)


def plain_versions(porting: Training) -> dict[str, str]:
    """The release of each library that the script was written for, without what is said of it."""
    return {library: plain_version(said) for library, said in porting.versions.items()}


def plain_version(text: str) -> str:
    """`"1.16.0 (newest table)"` → `"1.16.0"`."""
    return text.split(" ", 1)[0]


def object_values(rows: Mapping[str, Row], text: str) -> dict[str, Value]:
    """The values of a config object that the script has at run time: each place is an attribute of `text`."""
    return {row.place: Value("expression", f"{text}.{row.name}", None, "") for row in rows.values() if row.place}
