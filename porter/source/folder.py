"""A folder of source files: which files it has, and which of them a file's imports mean.

Files that git would ignore are no part of it. Links to folders are never walked through.
"""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..files import LARGEST_SETTINGS, is_file, is_folder, read_file
from .merged import Merged
from .module import Module
from .parsing import LARGEST, read_module
from .scopes import starred

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SOURCES = (".py", ".ipynb")
NEVER = (".git", "__pycache__", ".ipynb_checkpoints")
# A script is read together with at most this much of its project, the nearest first.
MOST_FILES, MOST_LINES = 40, 6_000


@dataclass
class SourceTree:
    """The files of `root` by their paths relative to it, and what can't be read or followed (path → why)."""

    root: Path
    files: list[Path] = field(default_factory=list)
    links: list[Path] = field(default_factory=list)
    troubles: dict[Path, InputError] = field(default_factory=dict)
    modules: dict[Path, Module] = field(default_factory=dict)

    @property
    def sources(self) -> list[Path]:
        return [path for path in self.files if path.suffix in SOURCES]

    def module(self, path: Path) -> Module:
        """The parsed file. InputError when it can't be read."""
        if path not in self.modules:
            self.modules[path] = read_module(self.root / path)
        return self.modules[path]

    @cached_property
    def users(self) -> dict[Path, set[Path]]:
        """For each Python file the files that import it."""
        found: dict[Path, set[Path]] = {}
        for path in self.sources:
            for file in self.imports(path):
                found.setdefault(file, set()).add(path)
        return found

    def imports(self, path: Path) -> list[Path]:
        """The project's files that a file imports, in its order; none of a file that Python can't parse."""
        if path not in self._imports:
            names = imported_names(self.root / path) if path.suffix == ".py" else []
            found = (self.find(name, path) for name in names)
            self._imports[path] = list(dict.fromkeys(target[0] for target in found if target is not None))
        return self._imports[path]

    @cached_property
    def _imports(self) -> dict[Path, list[Path]]:
        return {}

    @cached_property
    def _known(self) -> frozenset[Path]:
        return frozenset(self.files)

    def find(self, name: str, user: Path) -> tuple[Path, str] | None:
        """The file that an import of `user` means, and the name in it: `..config.LR` → `config.py`, `LR`.

        "" for the name when the import means the file itself. An absolute import is looked for beside the file, then
        from each folder above it, then in the `src` of each of these.
        """
        dots = len(name) - len(name.lstrip("."))
        parts = tuple(name.lstrip(".").split(".")) if name.lstrip(".") else ()
        folders = [user.parent, *user.parent.parents]
        if dots:
            starts = folders[dots - 1 : dots]
        else:
            starts = [*folders, *(folder / "src" for folder in folders)]
        for start in starts:
            for count in range(len(parts), 0, -1):
                inner = start.joinpath(*parts[:count])
                for file in (inner.with_name(f"{inner.name}.py"), inner / "__init__.py"):
                    if file in self._known and file != user and len(parts) - count <= 1:
                        return file, parts[count] if count < len(parts) else ""
            package = start / "__init__.py"
            if dots and len(parts) == 1 and package in self._known and package != user:
                return package, parts[0]
        return None

    def links_of(self, path: Path) -> dict[str, tuple[Path, str]]:
        """The imports of a file (as `Binding.qualified` has them) that mean names in files of the project.

        `utils.*` for `from utils import *`.
        """
        homes = {home: self.find(home, path) for home in starred(self.module(path).tree)}
        found = {f"{home}.*": (file[0], "*") for home, file in homes.items() if file is not None and not file[1]}
        for binding in self.module(path).import_bindings:
            if binding.qualified not in found and (target := self.find(binding.qualified, path)) is not None:
                found[binding.qualified] = target
        return found

    def reached(self, path: Path) -> list[Path]:
        """The project's files that a script imports, itself last and what it imports before it.

        A file that can't be parsed is left out (it has its own line in the report); so is what lies too far.
        """
        order: list[Path] = []
        pending, lines = [path], 0
        while pending:
            current = pending.pop(0)
            if current in order:
                continue
            try:
                module = self.module(current)
            except InputError:
                if current == path:
                    raise
                continue
            lines += len(module._line_starts)
            if order and (len(order) >= MOST_FILES or lines > MOST_LINES):
                break
            order.append(current)
            pending += self.imports(current)
        return order[::-1]

    def merged(self, path: Path) -> Module:
        """A script with the modules of the project that it imports; the script's own module when it imports none."""
        order = self.reached(path)
        if len(order) == 1 or path.suffix == ".ipynb":
            return self.module(path)
        index = {file: number for number, file in enumerate(order)}
        links = [
            {name: (index[file], there) for name, (file, there) in self.links_of(user).items() if file in index}
            for user in order
        ]
        return Merged([self.module(file) for file in order], links)

    def circles(self, paths: Sequence[Path]) -> list[list[Path]]:
        """Each circle of imports that is met on the way from one of `paths`, once."""
        found: dict[frozenset[Path], list[Path]] = {}
        done: set[Path] = set()
        for path in paths:
            self._walk_imports(path, [], done, found)
        return list(found.values())

    def _walk_imports(
        self, path: Path, trail: list[Path], done: set[Path], found: dict[frozenset[Path], list[Path]]
    ) -> None:
        if path in trail:
            circle = trail[trail.index(path) :]
            found.setdefault(frozenset(circle), circle)
        if path in trail or path in done:
            return
        for file in self.imports(path):
            self._walk_imports(file, [*trail, path], done, found)
        done.add(path)


def imported_names(path: Path) -> list[str]:
    """What a file imports, as dotted names (`..config.LR`); nothing of a file that can't be read, parsed or ported."""
    try:
        data = read_file(path)
    except (OSError, InputError):
        return []
    return names_in(data) if len(data) <= LARGEST else []


def names_in(code: str | bytes) -> list[str]:
    """What a module's code imports, as `imported_names`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names += [
                base if alias.name == "*" else f"{base}{'' if base.endswith('.') else '.'}{alias.name}"
                for alias in node.names
            ]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return names


def read_tree(root: Path, leave_out: Sequence[Path] = ()) -> SourceTree:
    """The files of a folder, without those that its `.gitignore` files name, and without `leave_out`."""
    tree = SourceTree(root)
    skipped = {path.absolute() for path in leave_out}
    _walk(tree, Path(), [], skipped)
    tree.files.sort()
    return tree


def _walk(tree: SourceTree, folder: Path, ignores: list[tuple[Path, GitIgnoreSpec]], skipped: set[Path]) -> None:
    here = tree.root / folder
    try:
        entries = sorted(os.scandir(here), key=lambda entry: entry.name)
    except OSError as error:
        tree.troubles[folder] = InputError(f"can't be read: {error.strerror}", here, fix="check its permissions")
        return
    rules = _ignore_file(here / ".gitignore")
    ignores = [*ignores, (folder, rules)] if rules is not None else ignores
    for entry in entries:
        path = folder / entry.name
        holds_more = entry.is_dir(follow_symlinks=False)
        if entry.name in NEVER or _is_ignored(path, holds_more, ignores) or (here / entry.name).absolute() in skipped:
            continue
        if entry.is_symlink():
            _link(tree, path)
        elif holds_more:
            if not is_file(here / entry.name / "pyvenv.cfg"):
                _walk(tree, path, ignores, skipped)
        elif entry.is_file(follow_symlinks=False):
            tree.files.append(path)


def _link(tree: SourceTree, path: Path) -> None:
    """A link is kept as it is; one that leads back to itself is named."""
    file = tree.root / path
    try:
        target = Path(os.path.realpath(file, strict=True))
    except FileNotFoundError:
        tree.links.append(path)
        return
    except OSError:
        tree.troubles[path] = InputError("is a symbolic link that leads back to itself", file, fix="take it out")
        return
    tree.links.append(path)
    if is_folder(target) and target in file.absolute().parents:
        message = "is a symbolic link to a folder above it: kept as a link, not followed"
        tree.troubles[path] = InputError(message, file)


def _ignore_file(path: Path) -> GitIgnoreSpec | None:
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(read_file(path, LARGEST_SETTINGS).decode("utf-8", "replace").splitlines())
    except (OSError, InputError, ValueError):
        return None


def _is_ignored(path: Path, is_folder: bool, ignores: Sequence[tuple[Path, GitIgnoreSpec]]) -> bool:
    """Whether the innermost `.gitignore` that says anything of a path ignores it."""
    for folder, rules in reversed(ignores):
        text = path.relative_to(folder).as_posix()
        said = rules.check_file(f"{text}/" if is_folder else text).include
        if said is not None:
            return said
    return False
