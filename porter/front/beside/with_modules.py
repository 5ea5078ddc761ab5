"""A script alone, with the modules of its project that have to be ported with it.

    from model_utils import load_model      →      from model_utils_tunix import load_model

A script is read with what it imports of its project, too. Unless that is worse, or changes none of these modules, those
that change, and those that import them, are written beside its port under names of their own: the project's files stay
as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...engine.pipeline import port_module
from ...port import Options, Port
from ...recipe import Finding, Recipe
from ...source.folder import SourceTree
from ...source.module import Module
from ...source.parsing import read_module
from ...source.project.around import tree_around
from ...source.project.modules import find_project_file
from .ends_in_modules import ends_in_modules, with_ends
from .packages_before import run_before, said_before
from .reached_code import ReachedCode
from .renamed_imports import SUFFIX, Renaming, renamed
from .trained_elsewhere import say_trained_elsewhere

RANKS = {"ported": 0, "partial": 1}
MOST_SAID = 3  # findings of a module that the script's report has, too
RULE = "TP001"
UNREAD = "TP004"  # a trainer of another class
LISTED = re.compile(r"install|# /// script")


def port_with_modules(path: Path, options: Options) -> Port:
    """Port one file, with what it imports of its project unless that is worse. InputError as `port_file`."""
    module = read_module(path)
    port = _with_what_it_imports(path, module, options)
    if port.status not in RANKS or port.notebook is not None or not options.active(RULE):
        return port
    before = run_before(path, module, port)
    needed = frozenset(name for each in before for name in each.needs)
    if needed and LISTED.search(port.before):  # what the script installs has to have them, too
        port = _with_what_it_imports(path, module, replace(options, needed=needed))
    return said_before(port, before)


def _with_what_it_imports(path: Path, module: Module, options: Options) -> Port:
    alone = port_module(module, options)
    if module.notebook is not None and alone.status != "unchanged":
        return alone
    tree, script = tree_around(path, module)
    if len(tree.files) == 1:
        return alone
    if module.notebook is not None:
        return say_trained_elsewhere(tree, script, alone, options)
    whole = port_module(tree.merged(script), options)
    if alone.status == "ported" and not whole.modules:
        return alone
    ends = ends_in_modules(tree, script, whole, options)
    said = {finding for _, finding in ends}
    if RANKS.get(whole.status) is None or _worse(whole, said) > _worse(alone):
        if alone.status == "unchanged":
            alone = say_trained_elsewhere(tree, script, alone, options)
        return with_ends(alone, tree, script, ends)
    beside = with_modules(tree, script, whole)
    if beside is None:
        return with_ends(_without_modules(path, alone, whole), tree, script, ends)
    return _with_unread_trainers(beside, alone)


def _with_unread_trainers(port: Port, alone: Port) -> Port:
    """The port with the trainers that no rule reads and that stay in the script, beside those of its modules."""
    lines, stays = alone.before.splitlines(), set(port.after.splitlines())
    said = [each for each in alone.findings if each.rule == UNREAD and each.severity == "error"]
    left = [each for each in said if lines[each.line - 1] in stays and each not in port.findings]
    return replace(port, status="partial", recipe=port.recipe.with_findings(left)) if left else port


def _without_modules(path: Path, alone: Port, whole: Port) -> Port:
    """The script's port alone, where modules that would change with it can't be written beside it: which is said."""
    left = [port for port in whole.modules if any(edit.rule != "TP001" for edit in port.edits)]
    if not left:
        return alone
    folder = path.absolute().parent
    names = " and ".join(Path(os.path.relpath(port.path, folder)).as_posix() for port in left)
    reasons = dict.fromkeys(edit.reason for port in left for edit in port.edits if edit.rule != "TP001" and edit.reason)
    why = "; ".join([*reasons][:2]) + ("; ..." if len(reasons) > 2 else "")
    message = f"{names} would change with this file ({why}), and can't be written beside it: it stays as it is."
    fix = "Port the project's folder, where each module keeps its place: tpu-port DIR -o OUT."
    recipe = alone.recipe.with_findings([Finding("TP001", "error", message, fix, 1, 1)])
    return replace(alone, status="partial", recipe=recipe)


def _worse(port: Port, aside: Collection[Finding] = ()) -> tuple[int, int]:
    """How much of a port is left to do: its status, then its errors, but for those of its modules that hold whether or
    not these are ported."""
    errors = [finding for finding in port.findings if finding.severity == "error"]
    held = [finding for each in port.modules for finding in each.findings if finding.severity == "error"]
    left = [*errors, *(finding for finding in held if finding not in aside)]
    is_whole = port.status == "partial" and not left and len(held) > 0
    return 0 if is_whole else RANKS.get(port.status, len(RANKS)), len(left)


def with_modules(tree: SourceTree, script: Path, whole: Port) -> Port | None:
    """The script's port with the modules that are written beside it; None where they can't be."""
    taken = _needed(tree, script, whole)
    reached = [file for file in tree.reached(script) if file != script]
    while new := [file for file in reached if file not in taken and taken.keys() & set(tree.imports(file))]:
        taken |= {file: _unchanged(tree.module(file)) for file in new}
    names = {file: f"{_name(file)}{SUFFIX}" for file in taken}
    circular = any(script in tree.imports(file) for file in taken)
    if circular or len(set(names.values())) < len(names) or any(_knows_its_place(tree, script, file) for file in taken):
        return None
    renaming = Renaming(tree, script, names)
    written = {file: renamed(port, renaming, file) for file, port in {**taken, script: whole}.items()}
    ports = {file: port for file, port in written.items() if port is not None}
    if len(ports) < len(written):
        return None
    used = _used(names, {file: port.after for file, port in ports.items()})
    modules = [replace(ports[file], beside=f"{name}.py") for file, name in names.items() if file in used]
    said = [_said(renaming, file, name if file in used else None, ports[file]) for file, name in names.items()]
    return replace(ports[script], recipe=ports[script].recipe.with_findings(said), modules=tuple(modules))


def _needed(tree: SourceTree, script: Path, whole: Port) -> dict[Path, Port]:
    """The ports of the modules in which something changes that the script's run comes to, or is left to do."""
    ports = {Path(port.path).relative_to(tree.root): port for port in whole.modules}
    if not ports:
        return ports
    reached = ReachedCode.of(tree, script)
    return {
        file: port
        for file, port in ports.items()
        if reached.changes(file, port.edits) or any(each.severity == "error" for each in port.findings)
    }


def _used(names: Mapping[Path, str], texts: Mapping[Path, str]) -> set[Path]:
    """The modules whose new names the script's port says, or a module that is used itself."""
    used: set[Path] = set()
    while True:
        said = [text for file, text in texts.items() if file in used or file not in names]
        found = {file for file, name in names.items() if any(re.search(rf"\b{name}\b", text) for text in said)}
        if found <= used:
            return used
        used |= found


def _name(file: Path) -> str:
    return file.parent.name if file.stem == "__init__" else file.stem


def _knows_its_place(tree: SourceTree, script: Path, file: Path) -> bool:
    """Whether a module finds other files by where it lies, which changes."""
    return file.parent != script.parent and "__file__" in tree.module(file).text


def _unchanged(module: Module) -> Port:
    """The port of a module that stays as it is, but for its imports."""
    text = module.as_written
    recipe = Recipe(module.path)
    return Port(module.path, text, text, "ported", recipe, bom=module.bom, encoding=module.encoding)


def _said(renaming: Renaming, file: Path, name: str | None, port: Port) -> Finding:
    """That a module was ported, at the line where the script imports it, or at the first, and what is left to look at
    there; `name` None: that it isn't used."""
    line, imported = renaming.imported(file)
    found = find_project_file(str(renaming.tree.root / renaming.script), imported) if imported else None
    own = found[1] if found else file.name
    if name is None:
        message = f"{own} has no part in the port: what the script takes from it is answered where it is used, or gone."
        if errors := [finding for finding in port.findings if finding.severity == "error"]:
            return Finding("TP001", "error", message + _left(own, errors), errors[0].fix, line, 1)
        return Finding("TP001", "info", message, "", line, 1)
    message = f"{own} is ported with this file: {name}.py, written beside the port."
    left = [finding for finding in port.findings if finding.severity != "info"]
    if not left:
        return Finding("TP001", "info", message, "Keep the two files together.", line, 1)
    message += _left(own, left)
    return Finding("TP001", "warning", message, "Keep the two files together, and look at that.", line, 1)


def _left(own: str, left: Sequence[Finding]) -> str:
    """What is left to look at in a module, in its script's report."""
    said = "".join(f" {own}:{each.line}: {each.message}" for each in left[:MOST_SAID])
    return f"{said} {len(left) - MOST_SAID} more are said there." if len(left) > MOST_SAID else said
