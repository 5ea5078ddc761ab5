"""Configurations and trainers of the file that no ported trainer takes: every keyword of theirs has a fate too.

A `LoraConfig` that another branch hands over, a `BitsAndBytesConfig` of a model that only generates, a class that no
table describes: the report says of each keyword whether it stays, is judged when the script runs, or went.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from ...port import Status
from ...recipe import Field
from ...runtime.settings.consumed import CONSUMED
from ...source.read_value import read_value
from ...text.edit import Edit
from ...text.respelled import repeats
from ..packs.pack import TableRule
from ..receipts.marking import STAYS
from ..script.fill_from_tables import (
    CONFIGURES,
    JUDGED,
    configuring,
    is_given,
    judge,
    mentions_import,
    plain_versions,
    tables_by_class,
)
from ..script.porting import Porting
from ..script.sites import assigned_name, shown
from ..script.training import Training

TAKES_ANY = frozenset({"BitsAndBytesConfig"})  # what it doesn't know it reads past


def say_other_calls(porting: Porting, edits: Sequence[Edit], status: Status | None) -> None:
    """A row for every keyword of such a call that has none yet."""
    module = porting.module
    libraries = configuring(porting.packs)
    if not mentions_import(module.text, libraries):
        return
    tables = tables_by_class(porting.packs)
    fated = {(row.line, row.source.rpartition(".")[2]) for row in porting.fields}
    fates = _Fates(porting.fields)
    versions = plain_versions(porting)

    def configures(call: cst.Call) -> bool:
        name = module.qualified(call.func) or ""
        return name.partition(".")[0] in libraries and name.count(".") == 1 and CONFIGURES.search(name) is not None

    for call in module.calls_that(configures):
        name = module.qualified(call.func) or ""
        without = _not_given(porting, call, name)
        for argument in call.args:
            if argument.keyword is None:
                continue
            line, column = module.location(argument.value)
            keyword = argument.keyword.value
            if (line, keyword) in fated:
                continue
            value = shown(module.code(argument.value))
            source = f"{name.split('.', 1)[-1]}.{keyword}"
            row = Field(source, value, "exact", STAYS, "", "TP001", line, column)
            moves = tables.get(name) is None and bool(porting.arguments_object)
            row = _of_holder(porting, call, row, fates) or _of_call(porting, argument, row, edits, status, moves)
            if name in porting.moved and row.target == STAYS and _is_used(porting, call):
                if read := _is_read(porting, call, keyword, edits):
                    porting.marks.objects[("", line, column)] = [(read, keyword)]
                row = _judged(argument.value, row, tables.get(name), porting, versions)
            if without and row.target == STAYS:
                row = replace(row, reason=f"{without} isn't given it: it has no effect, in the source either")
            fates.add(row)
    porting.fields = tuple(fates.rows.values())


class _Fates:
    """The rows of the table of fates, by what they are of and by the keyword of a line."""

    def __init__(self, rows: Iterable[Field]) -> None:
        self.rows: dict[tuple[str, int], Field] = {}
        self.by_keyword: dict[tuple[int, str], list[Field]] = {}
        for row in rows:
            self.add(row)

    def add(self, row: Field) -> None:
        """Add a row, or replace the row of the same keyword."""
        of_keyword = self.by_keyword.setdefault((row.line, row.source.rpartition(".")[2]), [])
        old = self.rows.pop((row.source, row.line), None)
        if old is not None:
            of_keyword.remove(old)
        of_keyword.append(row)
        self.rows[row.source, row.line] = row


def _is_read(porting: Porting, call: cst.Call, keyword: str, edits: Sequence[Edit]) -> str:
    """The variable of an object that the port gives to a helper which reads a keyword of it; else nothing."""
    statement = porting.module.statement(call)
    inner = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    target = inner.targets[0].target if isinstance(inner, cst.Assign) else getattr(inner, "target", None)
    name = porting.module.code(target) if target is not None else ""
    given = {key[1:] for edit in edits for _, key in edit.carries if key[0] == "given"}
    read = any((name, helper) in given and keyword in names for helper, names in CONSUMED.items())
    return name if read else ""


def _not_given(porting: Porting, call: cst.Call, name: str) -> str:
    """The trainer of whose class a call makes the configuration, and that is given none; said."""
    library, _, short = name.partition(".")
    trainer = f"{short.removesuffix('Config')}Trainer"
    own = [site for site in porting.of_role("trainer") if site.qualified == f"{library}.{trainer}"]
    if not short.endswith("Config") or not own or any(is_given(site.argument("args")) for site in own):
        return ""
    if any(site.unknown_keywords for site in own) or not isinstance(porting.module.parents[call], cst.Assign):
        return ""
    line, column = porting.module.location(call)
    message = f"{trainer} isn't given this {short}: its settings have no effect, in the source either."
    fix = f"Give {trainer} args= if they are meant, on the GPU too."
    porting.find("TP001", "warning", message, fix, line, column)
    return trainer


def _is_used(porting: Porting, call: cst.Call) -> bool:
    """Whether something reads what a call makes."""
    name = assigned_name(porting.module, call)
    return name is None or any(True for _ in porting.module.references(name, porting.module.scope(call)))


def _of_holder(porting: Training, call: cst.Call, row: Field, fates: _Fates) -> Field | None:
    """The fate of the keyword that takes the call, `LoraConfig(eva_config=EvaConfig(rho=2))`."""
    module = porting.module
    for node in module.ancestors(call):
        if not isinstance(node, cst.Arg) or node.keyword is None:
            continue
        if fates.rows:
            porting.marks.stays.add(("stays", row.line, row.column))
        for held in fates.by_keyword.get((module.location(node.value)[0], node.keyword.value), ()):
            if held.fate != "exact":
                return replace(row, fate=held.fate, target=held.target, reason=held.reason, rule=held.rule)
    return None


def _of_call(
    porting: Training, argument: cst.Arg, row: Field, edits: Sequence[Edit], status: Status | None, moves: bool
) -> Field:
    """`moves` is whether an edit that repeats the keyword makes the arguments' object of its call, of no table."""
    start, end = porting.module.span(argument.value)
    if status == "unsupported":
        reason = "nothing of this script is ported; the findings say why"
        return replace(row, fate="manual", target="", reason=reason)
    around = [edit for edit in edits if edit.start <= start and end <= edit.end]
    assert argument.keyword is not None
    written = porting.module.text[porting.module.span(argument.keyword)[0] : end]
    if moves and any(repeats(edit, written) for edit in around):
        place = (row.line, row.column)
        porting.marks.stays.add(("moved", *place))
        porting.marks.objects[("", *place)] = [(porting.arguments_object, argument.keyword.value)]
        return replace(row, fate="changed", reason="its call stays as it is, and is read when the script runs")
    if around:
        reason = "no trainer of the port takes it, and its statement is gone"
        return replace(row, fate="dropped", target="", reason=reason)
    return replace(row, reason="no trainer of this file takes it" if status else "no ported trainer takes it directly")


def _judged(
    node: cst.BaseExpression, row: Field, rule: TableRule | None, porting: Training, versions: Mapping[str, str]
) -> Field:
    """The fate that the runtime's class of the same name gives a keyword when the script runs."""
    short, _, name = row.source.rpartition(".")
    known = rule.table.rows(versions).get(name) or rule.table.row(name) if rule is not None else None
    if rule is None or (known is None and short in TAKES_ANY):
        return row
    if known is None:
        reason = f"{short} {rule.table.version(versions)} has no such keyword"
        message = f"{row.source} is not a keyword of {short} {rule.table.version(versions)}: the port ends there."
        fix = "Check the spelling, or name the version with --source-trl."
        porting.find(rule.id, "error", message, fix, row.line, row.column)
        return replace(row, fate="manual", target="", reason=reason, rule=rule.id)
    value = read_value(porting.module, node)
    fate, reason = judge(value, known)
    if fate == "manual" and value.known:
        porting.find(rule.id, "error", f"{row.source}={row.value}: {reason}", "", row.line, row.column)
        return replace(row, fate=fate, target="", reason=reason, rule=rule.id)
    if not value.known and known.judged_later:
        fate, reason = "changed", JUDGED
    if fate == "dropped":
        return replace(row, fate=fate, target="", reason=reason, rule=rule.id)
    target = known.target if porting.marks.objects.get(("", row.line, row.column)) else STAYS
    return replace(row, fate=fate, target=target, reason=reason or row.reason, rule=rule.id)
