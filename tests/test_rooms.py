"""The rooms of `porter/`: none is crowded, and arrows between them point one way."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import porter

ROOT = Path(porter.__file__).resolve().parent
FILES = {
    path: path.relative_to(ROOT.parent)
    for path in sorted(ROOT.rglob("*.py"))
    if "rules" not in path.relative_to(ROOT).parts
}
FOLDERS = sorted({path.parent for path in FILES})
MOST = 16  # modules of a folder, its `__init__` among them
LONGEST = 420  # lines of a file


def name_of(path: Path) -> str:
    """`porter/source/module.py` → `porter.source.module`; a folder's `__init__.py` is the folder."""
    return ".".join(FILES[path].with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in FILES}


def room_of(module: str) -> str:
    """The folder of a module; what stands in `porter/` itself, as `porter.recipe` does, is a room of its own."""
    folder = ".".join(FILES[MODULES[module]].parent.parts)
    return module if folder == "porter" else folder


def imports(node: ast.AST, package: str) -> Iterator[str]:
    """The modules of ours that stand in import statements, also those in functions, but for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name in MODULES)
        elif isinstance(child, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - child.level + 1] if child.level else []
            base = ".".join([*above, *([child.module] if child.module else [])])
            for alias in child.names:
                found = f"{base}.{alias.name}"
                if found in MODULES or base in MODULES:
                    yield found if found in MODULES else base
        else:
            yield from imports(child, package)


@cache
def needed() -> dict[str, set[str]]:
    """The other modules of ours that each imports."""
    found = {}
    for module, path in MODULES.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found[module] = {*imports(ast.parse(path.read_text(encoding="utf-8")), package)} - {module}
    return found


@cache
def arrows() -> dict[tuple[str, str], set[tuple[str, str]]]:
    """From room to room, with the modules that draw each."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for module, others in needed().items():
        for other in others:
            if room_of(module) != room_of(other):
                found[room_of(module), room_of(other)].add((module, other))
    return found


def reached(module: str) -> set[str]:
    """The modules that a module needs, and those that they need."""
    found, left = set[str](), [module]
    while left:
        new = needed()[left.pop()] - found
        found |= new
        left.extend(new)
    return found


RULES = sorted({path.parent for path in (ROOT.parent / "rules").rglob("*.py") if "cases" not in path.parts})


@pytest.mark.parametrize("folder", [*FOLDERS, *RULES], ids=lambda folder: folder.relative_to(ROOT.parent).as_posix())
def test_no_folder_is_crowded(folder: Path) -> None:
    modules = sorted(path.stem for path in folder.glob("*.py"))
    assert len(modules) <= MOST, f"{len(modules)} modules: which of them belong in a room of their own?"


def test_no_file_is_long() -> None:
    """What is longer says two things: each of them is a file of its own."""
    rules = [path for path in (ROOT.parent / "rules").rglob("*.py") if "cases" not in path.parts]
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in (*FILES, *rules)}
    assert not {path.relative_to(ROOT.parent): count for path, count in lines.items() if count > LONGEST}


def test_arrows_between_rooms_point_one_way() -> None:
    found = arrows()
    below: dict[str, set[str]] = defaultdict(set)
    for room, other in found:
        below[room].add(other)
    try:
        TopologicalSorter(below).prepare()
    except CycleError as circle:
        rooms = circle.args[1][::-1]
        raise AssertionError({f"{a} -> {b}": sorted(found[a, b]) for a, b in pairwise(rooms)}) from None


def test_no_modules_need_each_other() -> None:
    behind = {module: reached(module) for module in MODULES}
    circles = {frozenset(other for other in behind[one] if one in behind[other]) for one in MODULES}
    assert not circles - {frozenset()}


def test_the_runtime_imports_no_other_room() -> None:
    """It is copied beside a port, where nothing else of `porter` is."""
    out = {
        pair for pair in arrows() if pair[0].startswith("porter.runtime") and not pair[1].startswith("porter.runtime")
    }
    assert not out


def test_what_ports_import_keeps_its_name() -> None:
    for name in (
        "porter.runtime",
        "porter.runtime.arguments",
        "porter.runtime.callbacks",
        "porter.runtime.reward_functions",
    ):
        assert name in MODULES
