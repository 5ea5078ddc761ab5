"""Modules of the project that a port imports and that stay as they are: which libraries of the GPU they ask for.

`from utils import clean` ends a port on a machine without torch where utils.py begins with `import torch`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...recipe import Severity
from ...source.merged import Merged
from ...source.module import Module
from ...text.edit import Edit
from ...text.edits import apply_edits
from ..packs.facts import Facts, is_like
from ..script.fill_from_tables import trainer_libraries
from ..script.porting import Porting
from ..script.sites import absent_packages, facts_of
from .left_modules import Import, ProjectModule, aliases_of, left_modules
from .per_file import is_touched, own_edits, parts_of

RULE = "TP001"


def modules_beside(porting: Porting, edits: Sequence[Edit]) -> list[ProjectModule]:
    """The project's modules that the port's imports lead to, and that stay as they are."""
    changed: dict[Path, str] = {}
    for part in parts_of(porting.module):
        own = own_edits(part, edits)
        if is_touched(porting, part, own):
            changed[Path(part.module.path).absolute()] = apply_edits(part.module.text, own)
    return left_modules(changed)


def say_own_modules(porting: Porting, modules: Sequence[ProjectModule]) -> None:
    """A finding for each module that imports a library of the GPU's when it is read, or where it runs."""
    if porting.options.active(RULE):
        for module in modules:
            _say(porting, module, _line(porting, module.named) if module.named else 1)


def needed_by_module(script: Module, module: ProjectModule, *, when_imported: bool = False) -> dict[str, str]:
    """The packages of the GPU's side that a module needs, each with what of it asks for it; "" for all of it. With
    `when_imported` without what only its functions ask for."""
    facts, packages = facts_of(script), absent_packages(script)
    found: dict[str, str] = {}
    for where, node in [*(("", each) for each in module.at_top), *(() if when_imported else module.inside)]:
        for name in _imported(node):
            if (root := name.partition(".")[0]) in packages:
                found.setdefault(root, where and f"in {where}")
            elif needed := _brought(name, facts):
                found.setdefault(needed, f"by {name}")
    return found


def _brought(name: str, facts: Facts) -> str:
    """The package that a library's module imports, or a name of it is nothing without."""
    return next((needed for fact, needed in facts.import_needs if is_like(name, (fact,))), "")


def _imported(node: Import) -> Iterator[str]:
    """The modules that an import reads, none of them beside it."""
    if isinstance(node, ast.Import):
        yield from (name for name, _ in aliases_of(node))
    elif not node.level:
        yield node.module or ""


def _say(porting: Porting, module: ProjectModule, line: int) -> None:
    shown, facts = module.shown, facts_of(porting.module)
    needs = needed_by_module(porting.module, module)
    alone = not isinstance(porting.module, Merged)
    how = "isn't ported with this file" if alone else "stays as it is"
    roots = dict.fromkeys(name.partition(".")[0] for node in module.at_top for name in _imported(node))
    if drivers := " and ".join(name for name in roots if name in facts.gpu_drivers):
        message = f"{shown} {how} and imports {drivers}: a TPU machine has no such driver, and the port ends there."
        fix = "Take out there what asks the GPU, or put the import into a `try` that says what holds without one."
        porting.find(RULE, "error", message, fix, line, 1)
    kinds = {text: package for text, package in facts.tensors if package not in needs}
    asked = _asks_for_tensors(module.tree, kinds) if kinds else None
    if not needs and asked is None:
        return
    named = " and ".join(f"{name} ({where})" if where else name for name, where in needs.items())
    message = f"{shown} {how} and imports {named}, which the port needs installed then."
    if asked is not None and not needs:
        line_of, package = asked
        message = f"{shown} {how} and asks for {package}'s tensors (line {line_of}): the port needs {package} where "
        message += "that runs."
    fix = "Port the project's folder (tpu-port DIR -o OUT)" if alone else "Replace it there"
    fix = f"{fix}, or take out there what the port doesn't use."
    trainers = trainer_libraries(porting.packs) & absent_packages(porting.module)
    ends = any((name in trainers or name in facts.needs_gpu) and not where for name, where in needs.items())
    severity: Severity = "error" if ends else "warning"
    porting.find(RULE, severity, message, fix, line, 1)


def _asks_for_tensors(tree: ast.Module, kinds: Mapping[str, str]) -> tuple[int, str] | None:
    """The line of `rows.set_format("torch")`, `tokenizer(text, return_tensors="pt")`, and whose tensors they are."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        asked = [given.get("type"), *node.args[:1]] if called in ("set_format", "with_format") else []
        for value in (given.get("return_tensors"), *asked):
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value in kinds:
                return node.lineno, kinds[value.value]
    return None


def _line(porting: Porting, name: str) -> int:
    """Where the source imports a name."""
    found = (each.node for each in porting.module.import_bindings if each.qualified == name)
    return next((porting.module.location(node)[0] for node in found), 1)
