"""Modules of the project that a port imports and that stay as they are: which libraries of the GPU they ask for.

`from utils import clean` ends a port on a machine without torch where utils.py begins with `import torch`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...errors import InputError
from ...files import is_file, read_text
from ...recipe import Severity
from ...source.merged import Merged
from ...source.project.modules import find_project_file
from ...text.edit import Edit
from ...text.edits import apply_edits
from ..script.fill_from_tables import trainer_libraries
from ..script.porting import Porting
from ..script.sites import absent_packages, facts_of
from .imports import OURS
from .per_file import is_touched, own_edits, parts_of

RULE = "TP001"
LARGEST = 200_000  # characters of a module
MOST_FILES = 40


def say_own_modules(porting: Porting, edits: Sequence[Edit]) -> None:
    """A finding for each module that the port's imports lead to, and that imports such a library when it is read."""
    if not porting.options.active(RULE):
        return
    changed: dict[Path, str] = {}
    for part in parts_of(porting.module):
        own = own_edits(part, edits)
        if is_touched(porting, part, own):
            changed[Path(part.module.path).absolute()] = apply_edits(part.module.text, own)
    seen, pending = set(changed), list(changed.items())
    while pending and len(seen) < MOST_FILES:
        path, text = pending.pop(0)
        tree = _parsed(text)
        for name in _imported(tree) if tree is not None else ():
            if name.partition(".")[0] in OURS:
                continue
            found = find_project_file(str(path), name)
            for file, shown in _read_for(*found) if found is not None else ():
                if file in seen:
                    continue
                seen.add(file)
                held = _text(file)
                pending.append((file, held))
                _say(porting, shown, held, _line(porting, name) if path in changed else 1)


def _read_for(file: Path, shown: str) -> Iterator[tuple[Path, str]]:
    """The files that Python runs to import one, as they are shown: each package's `__init__.py` before it."""
    parts = Path(shown).parts
    start = file.absolute().parents[len(parts) - 1]
    for count in range(1, len(parts)):
        package = Path(*parts[:count], "__init__.py")
        if is_file(start / package):
            yield start / package, package.as_posix()
    yield file.absolute(), shown


def _say(porting: Porting, shown: str, text: str, line: int) -> None:
    tree = _parsed(text)
    roots = dict.fromkeys(name.partition(".")[0] for name in _imported(tree)) if tree is not None else {}
    facts = facts_of(porting.module)
    needs = [name for name in roots if name in absent_packages(porting.module) or name in facts.needs_gpu]
    alone = not isinstance(porting.module, Merged)
    how = "isn't ported with this file" if alone else "stays as it is"
    if drivers := " and ".join(name for name in roots if name in facts.gpu_drivers):
        message = f"{shown} {how} and imports {drivers}: a TPU machine has no such driver, and the port ends there."
        fix = "Take out there what asks the GPU, or put the import into a `try` that says what holds without one."
        porting.find(RULE, "error", message, fix, line, 1)
    kinds = {text: package for text, package in facts.tensors if package not in needs}
    asked = _asks_for_tensors(tree, kinds) if tree is not None and kinds else None
    if not needs and asked is None:
        return
    message = f"{shown} {how} and imports {' and '.join(needs)}, which the port needs installed then."
    if asked is not None and not needs:
        line_of, package = asked
        message = f"{shown} {how} and asks for {package}'s tensors (line {line_of}): the port needs {package} where "
        message += "that runs."
    fix = "Port the project's folder (tpu-port DIR -o OUT)" if alone else "Replace it there"
    fix = f"{fix}, or take out there what the port doesn't use."
    trainers = trainer_libraries(porting.packs) & absent_packages(porting.module)
    severity: Severity = "error" if trainers.intersection(needs) else "warning"
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
    for scope in porting.module.scopes.values():
        for bindings in scope.bindings.values():
            for binding in bindings:
                if binding.kind == "import" and binding.qualified == name:
                    return porting.module.location(binding.node)[0]
    return 1


def _imported(tree: ast.Module) -> Iterator[str]:
    """What a module imports when it is read, `..configs.make` for names of modules beside it; guarded imports and those
    for type checkers are left out."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            dot = "" if home.endswith(".") else "."
            yield from (f"{home}{dot}{alias.name}" for alias in node.names)


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _text(file: Path) -> str:
    try:
        return read_text(file, LARGEST)
    except (OSError, ValueError, InputError):
        return ""
