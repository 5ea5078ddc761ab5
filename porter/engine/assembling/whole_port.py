"""A whole port: its edits joined, its imports and TODO comments, what nothing of it needs any more; it has to parse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from ...errors import InputError
from ...port import Port, Status
from ...recipe import Field
from ...source.merged import Merged
from ...source.parsing import check_parses
from ...text.edit import Edit
from ...text.edits import apply_edits, joined_removals, without_inner, without_orphans
from ...text.format_strings import requoted, unnested
from ...text.sections import without_bare_banners
from ..answering.unclaimed_configs import say_other_calls
from ..dating.evidence.used import guarded_lines
from ..reading.families import family_files
from ..script.dead_blocks import turned_off
from ..script.porting import Porting
from ..settling.taken_keywords import refuse_keywords
from .long_lines import without_long_lines
from .names.gone_names import say_gone_names
from .names.lost_names import find_lost_names
from .names.unbound_names import say_unbound_names
from .own_modules import modules_beside, say_own_modules
from .per_file import divided, own_edits, parts_of, take_back, view_of, whole_edits
from .port_imports import with_imports, with_installs
from .receipts import receipts, refuse_unsettled
from .todos import with_todos

NOTHING = ("", "pass")


def finish(porting: Porting, status: Status | None) -> Port:
    """Put the text together: edits, imports, TODO comments; the result has to parse."""
    module = porting.module
    edits = requoted(module, without_inner(module.text, porting.edits))
    if porting.trainer is not None and status is None:
        edits = with_imports(porting, edits)
    beside = modules_beside(porting, edits) if status is None else []
    if porting.trainer is not None and status is None:
        edits = with_installs(porting, edits, beside)
    if status is None:
        _say_lost_training(porting, edits)
        refuse_keywords(porting, edits, guarded_lines(porting))
        say_own_modules(porting, beside)
        say_gone_names(porting, edits)
    _forget_what_is_gone(porting, edits)
    say_other_calls(porting, edits, status)
    for part in parts_of(module):
        view = view_of(porting, part, own := own_edits(part, edits))
        find_lost_names(view, own)
        if status is None:
            say_unbound_names(view, own)
        take_back(porting, part, view)
    edits = _without_gaps(porting, edits)
    edits = without_long_lines(module, edits)
    if status is None:
        refuse_unsettled(porting, edits)
        _lower_what_is_off(porting)
    edits = with_todos(porting, edits) if status != "unsupported" else []
    before = module.as_written
    if edits:
        edits = unnested(edits, apply_edits(module.text, edits))
    after = apply_edits(module.text, edits) if edits else before
    if status is None:
        worst = {finding.severity for finding in porting.findings}
        status = "partial" if "error" in worst or porting.findings.standing() else "ported"
    if edits:
        try:
            check_parses(after)
        except cst.ParserSyntaxError as error:
            said = f"the port would not parse ({error.message}): a defect of tpu-port"
            raise InputError(said, module.path) from error
    ordered = tuple(sorted(edits, key=lambda edit: edit.start))
    # The script's own first, then the launch files' (`fsdp.yaml: num_processes`), each by its lines.
    porting.fields = tuple(sorted(porting.fields, key=lambda row: (_file_of(row), row.line, row.column)))
    fields = receipts(porting, edits, refused=status in ("unsupported", "unchanged"))
    recipe = replace(porting.recipe, fields=fields, findings=porting.findings.by_place())
    kind = (module.bom, module.encoding, family_files(porting), module.notebook)
    port = Port(module.path, before, after, status, recipe, ordered, *kind)
    return divided(port, module, edits) if isinstance(module, Merged) else port


def _lower_what_is_off(porting: Porting) -> None:
    """What needs a person in a branch to which no run comes is needed by who turns that on."""
    module = porting.module
    for finding in porting.findings:
        test = turned_off(module, module.offset(finding.line, finding.column)) if finding.severity == "error" else None
        if test is not None:
            message = f"{finding.message.removesuffix('.')}; no run comes here as long as {test}."
            porting.findings.lower(finding, replace(finding, severity="warning", message=message))


def _say_lost_training(porting: Porting, edits: Sequence[Edit]) -> None:
    """Something that took out a function, taking it for another, took the training along: no port is without it."""
    trainers = [site for site in porting.sites if site.role == "trainer"]
    takers = [
        next((edit for edit in edits if edit.start < site.start < edit.end and edit.new.strip() in NOTHING), None)
        for site in trainers
    ]
    for site, taker in zip(trainers, takers, strict=True):
        if taker is not None and all(takers):
            message = f"This training is gone from the port, with the lines that {taker.rule} took out: {taker.reason}."
            fix = f"Port with --ignore {taker.rule}, and please report it."
            porting.find(site.rule, "error", message, fix, site.line, site.column)


def _file_of(row: Field) -> str:
    return row.source.rpartition(": ")[0]


def _without_gaps(porting: Porting, edits: list[Edit]) -> list[Edit]:
    """The edits of each file, those that take something out grown by the comments and blank lines that told of it."""
    module, found = porting.module, list[Edit]()
    todos = [module.offset(line, 1) for line in porting.findings.standing()]
    for part in parts_of(module):
        text = part.module.text
        said = [todo - part.start for todo in todos]
        own = without_bare_banners(text, without_orphans(text, own_edits(part, edits), said), said)
        found += whole_edits(part, joined_removals(text, own))
    return found


def _forget_what_is_gone(porting: Porting, edits: list[Edit]) -> None:
    """A use that no rule knows, in a statement that another rule takes out, needs nobody any more."""
    gone = [(edit.start, edit.end) for edit in edits if edit.new.strip() in ("", "pass") and edit.end > edit.start]
    for finding in porting.findings:
        offset = porting.module.offset(finding.line, finding.column)
        if finding.rule in ("TP190", "TP420") and any(start <= offset < end for start, end in gone):
            porting.findings.drop(finding)
