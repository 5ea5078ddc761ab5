"""What of the project runs as it is before what a port imports: packages' own files, and originals of what is ported.

    from shop.prices import load      # Python runs shop/__init__.py first, which imports torch

The report of each file was made as if all that changes kept its place. Written beside the script, the originals stay
where they are, and a package that imports one needs what it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...engine.assembling.left_modules import left_modules
from ...engine.assembling.own_modules import needed_by_module
from ...port import Port
from ...recipe import Finding
from ...source.module import Module
from .renamed_imports import SUFFIX

RULE = "TP001"


@dataclass(frozen=True)
class Before:
    """A file of the project as it is shown, who imports it, and the packages of the GPU's side that it needs."""

    shown: str
    by: str
    needs: tuple[str, ...]


def run_before(path: Path, module: Module, port: Port) -> list[Before]:
    """The files that the port and the modules beside it lead to and that need what nothing said yet."""
    folder = path.absolute().parent
    written = {folder / f"{path.stem}{SUFFIX}.py": port.after}
    written |= {folder / each.beside: each.after for each in port.modules if each.beside}
    told = [finding.message for each in (port, *port.modules) for finding in each.findings if finding.rule == RULE]
    found: list[Before] = []
    for left in left_modules(written):
        about = [text for text in told if text.startswith(f"{left.shown} ")]
        needs = needed_by_module(module, left, when_imported=True)
        new = tuple(name for name in needs if not any(name in text for text in about))
        if new:
            found.append(Before(left.shown, left.by, new))
    return found


def said_before(port: Port, before: Sequence[Before]) -> Port:
    """The port, with a finding for each of these files."""
    if not before:
        return port
    findings = []
    for each in before:
        whose = f", which {each.by} imports" if each.by else ""
        message = f"{each.shown}{whose}, runs as it is before what the port imports of the project, and imports "
        message += f"{' and '.join(each.needs)}, which the port needs installed then."
        home = each.by or each.shown
        fix = f"Take that import out of {home}, or install {' and '.join(each.needs)} where the port runs."
        findings.append(Finding(RULE, "warning", message, fix, 1, 1))
    return replace(port, recipe=port.recipe.with_findings(findings))
