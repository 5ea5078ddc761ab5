"""Lines of a project's modules at which a port ends, whether or not these modules are ported with the script.

    from data import load_rows          # data.py: load_dataset("samsum"), a script that no library of today runs

Which rules name such lines the steps of packs say (`anywhere`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...engine.assembling.names.gone_names import RULE as GONE
from ...engine.packs.packs import load_packs
from ...engine.pipeline import steps_of
from ...engine.steps.step import Phase
from ...port import Options, Port
from ...recipe import Finding
from ...safety.shown import one_line
from ...source.folder import SourceTree
from .reached_code import ReachedCode
from .renamed_imports import Renaming

End = tuple[Path, Finding]


def ends_in_modules(tree: SourceTree, script: Path, whole: Port, options: Options) -> list[End]:
    """What ends the port in code of modules that a run of the script comes to: what `whole`, the port of all of them,
    names there, and what it writes anew for that reason. Each with its file."""
    steps = [each for some in steps_of(load_packs(options.rules)).values() for each in some if each.anywhere]
    named = {each.rule for each in steps} | {GONE}
    mended = {each.rule for each in steps if each.phase is Phase.NAME}
    found: list[End] = []
    reached: ReachedCode | None = None
    for port in whole.modules:
        file = Path(port.path).relative_to(tree.root)
        for finding in (*_errors(port, named), *_mended(port, mended)):
            reached = reached or ReachedCode.of(tree, script)
            if reached.reaches(file, finding.line):
                found.append((file, finding))
    return found


def _errors(port: Port, rules: set[str]) -> list[Finding]:
    return [finding for finding in port.findings if finding.rule in rules and finding.severity == "error"]


def _mended(port: Port, rules: set[str]) -> Iterator[Finding]:
    """What the module's own port writes anew in place of what ends."""
    said = {finding.line for finding in _errors(port, rules)}
    for edit in port.edits:
        if edit.rule in rules and edit.line not in said and edit.new.strip() and "TODO(tpu-port" not in edit.new:
            said.add(edit.line)
            code = one_line(port.masked(port.before.splitlines()[edit.line - 1].strip()))
            message = f"{code}: the port ends here; the module's own port has it otherwise ({edit.reason})."
            fix = "Port the project's folder, where each module keeps its place: tpu-port DIR -o OUT."
            yield Finding(edit.rule, "error", message, fix, edit.line, edit.column)


def with_ends(port: Port, tree: SourceTree, script: Path, ends: Sequence[End]) -> Port:
    """The port of the script without these modules, with what ends it in them, at the lines that import them."""
    if not ends or port.status not in ("ported", "partial"):
        return port
    renaming = Renaming(tree, script, {})
    findings = []
    for file, end in ends:
        message = f"{Path(os.path.relpath(file, script.parent)).as_posix()}:{end.line}: {end.message}"
        findings.append(replace(end, line=renaming.imported(file)[0], column=1, message=message))
    return replace(port, status="partial", recipe=port.recipe.with_findings(findings))
