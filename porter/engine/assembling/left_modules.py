"""The modules of the project that a port imports and that stay as they are, and what of them may run.

What a module imports at its top runs with it; what stands in a function or class runs where another takes that name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ...errors import InputError
from ...files import is_file, read_text
from ...source.project.modules import find_project_file
from .imports import OURS

LARGEST = 200_000  # characters of a module
MOST_FILES = 40
DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FAILS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
Import = ast.Import | ast.ImportFrom
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class ProjectModule:
    """A module: its file as it is shown, and the name by which the port imports it, "" where another module does.

    `by`: the module that imports it, as it is shown, "" for one that the port has. `taken`: names that others may use
    of it; of a file that the port changes, all may run.
    """

    file: Path
    shown: str
    text: str
    named: str = ""
    by: str = ""
    changed: bool = False
    taken: set[str] = field(default_factory=set)

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax; of what Python can't parse that of an empty file."""
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError):
            return ast.Module([], [])

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        return {node.name: node for node in self.tree.body if isinstance(node, DEFINES)}

    @property
    def at_top(self) -> list[Import]:
        """What it imports whenever it is read; no guarded imports, nor those for type checkers."""
        return [node for node in self.tree.body if isinstance(node, Import)]

    @property
    def inside(self) -> list[tuple[str, Import]]:
        """What its functions and classes import that may run, each with its name."""
        return [(each.name, node) for each in self._running for node in imports_in(each.body)]

    @property
    def imported(self) -> list[Import]:
        """All that may be imported when the port runs."""
        return imports_in(self.tree.body) if self.changed else [*self.at_top, *(node for _, node in self.inside)]

    @property
    def used(self) -> tuple[set[str], set[str]]:
        """The names, and the attributes, of what may run."""
        if self.changed:
            return read_in(self.tree)
        parts = [read_in(node) for node in (*self._top, *self._running)]
        return self.taken.union(*(names for names, _ in parts)), set[str]().union(*(held for _, held in parts))

    @property
    def _top(self) -> list[ast.stmt]:
        """What runs when it is imported."""
        body = [node for node in self.tree.body if not isinstance(node, DEFINES)]
        return [node for node in body if not (isinstance(node, ast.If) and "__name__" in read_in(node.test)[0])]

    @property
    def _running(self) -> list[Definition]:
        """Its functions and classes that may run: taken by others, or named at its top or in one that may run."""
        reached = {name for name in self.taken if name in self.definitions}
        pending: list[ast.stmt] = [*self._top, *(self.definitions[name] for name in reached)]
        while pending:
            new = (read_in(pending.pop())[0] & self.definitions.keys()) - reached
            reached |= new
            pending += [self.definitions[name] for name in new]
        return [node for name, node in self.definitions.items() if name in reached]


def left_modules(changed: Mapping[Path, str]) -> list[ProjectModule]:
    """The modules that a port's files lead to beside them. `changed`: the port's files, as they will read."""
    known = {file: ProjectModule(file, file.name, text, changed=True) for file, text in changed.items()}
    pending = list(known.values())
    said = [module.used for module in pending]  # what one of them imports, another may use of it
    of_port = set[str]().union(*(names for names, _ in said)), set[str]().union(*(held for _, held in said))
    while pending:
        module = pending.pop(0)
        used: tuple[set[str], set[str]] | None = None  # known once, where something of the project is imported
        for name, alias in [each for node in module.imported for each in aliases_of(node)]:
            for file, shown in _read_by(module, name):
                is_new = file not in known
                if is_new and len(known) < MOST_FILES:
                    named, by = (name, "") if module.changed else ("", module.shown)
                    known[file] = ProjectModule(file, shown, _text(file), named, by)
                other = known.get(file)
                if other is None or other.changed:
                    continue
                used = (of_port if module.changed else module.used) if used is None else used
                taken = _taken(other, alias, *used) - other.taken
                other.taken |= taken
                if (is_new or taken) and other not in pending:
                    pending.append(other)
    return [module for module in known.values() if not module.changed]


def _read_by(module: ProjectModule, name: str) -> list[tuple[Path, str]]:
    """The project's files that Python runs for an import of `name` in a module, as they are shown."""
    found = find_project_file(str(module.file), name) if name.partition(".")[0] not in OURS else None
    read = [*_read_for(*found)] if found is not None else []
    if name.startswith(".") and not name.startswith(".."):
        read = [(file, (Path(module.shown).parent / shown).as_posix()) for file, shown in read]
    return [*_packages_of(module.file), *read] if name.startswith(".") and module.changed else read


def _taken(module: ProjectModule, alias: ast.alias, names: set[str], held: set[str]) -> set[str]:
    """The names that an import lets be used of a module, where these names and attributes are used."""
    if alias.name == "*":
        return names | held
    if (alias.asname or alias.name.partition(".")[0]) not in names:
        return set()
    return {alias.name} if alias.name in module.definitions else {alias.name, *held}


def imports_in(body: list[ast.stmt]) -> list[Import]:
    """The imports in statements and their blocks, without those that may fail and those for type checkers."""
    found: list[Import] = []
    for node in body:
        if isinstance(node, Import):
            found.append(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in set[str]().union(*read_in(node.test)):
            found += imports_in(node.orelse)
        elif isinstance(node, ast.Try) and any(_forgives(handler) for handler in node.handlers):
            found += imports_in([*node.orelse, *node.finalbody])
        else:
            for block in ("body", "orelse", "finalbody"):
                found += imports_in(getattr(node, block, []))
            for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                found += imports_in(part.body)
    return found


def _forgives(handler: ast.ExceptHandler) -> bool:
    """Whether an import that fails goes on there."""
    return handler.type is None or not FAILS.isdisjoint(read_in(handler.type)[0])


def read_in(node: ast.AST) -> tuple[set[str], set[str]]:
    """The names, and the attributes, that stand in code."""
    names, held = set[str](), set[str]()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, ast.Attribute):
            held.add(part.attr)
    return names, held


def aliases_of(node: Import) -> Iterator[tuple[str, ast.alias]]:
    """What an import names: `..configs.make` for modules beside it."""
    home = "" if isinstance(node, ast.Import) else "." * node.level + (node.module or "")
    dot = "" if home.endswith(".") or not home else "."
    yield from ((f"{home}{dot}{alias.name}", alias) for alias in node.names)


def _read_for(file: Path, shown: str) -> Iterator[tuple[Path, str]]:
    """The files that Python runs to import one, as they are shown: each package's `__init__.py` before it."""
    parts = Path(shown).parts
    start = file.absolute().parents[len(parts) - 1]
    for count in range(1, len(parts)):
        package = Path(*parts[:count], "__init__.py")
        if is_file(start / package):
            yield start / package, package.as_posix()
    yield file.absolute(), shown


def _packages_of(file: Path) -> list[tuple[Path, str]]:
    """The `__init__.py` of each package that a file is a module of, the outermost first, as they are shown."""
    found: list[Path] = []
    for folder in file.absolute().parents:
        if not is_file(folder / "__init__.py"):
            break
        found.insert(0, folder / "__init__.py")
    return [(each, each.relative_to(found[0].parent.parent).as_posix()) for each in found]


def _text(file: Path) -> str:
    try:
        return read_text(file, LARGEST)
    except (OSError, ValueError, InputError):
        return ""
