"""A script and the modules of its own project that it imports, as texts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ....errors import InputError
from ....source.notebooks.program import program_text

MOST = 60  # modules: beyond that a project is a library
LARGEST = 400_000  # bytes
LIBRARIES = {"transformers", "trl", "peft", "accelerate", "datasets", "torch", "unsloth", "deepspeed", "verl"}


def project_files(script: Path, beside: Path | None = None) -> list[Path]:
    """`script` and the files that it imports from its own folder, those above it or their `src`, nearest first.

    A port may lie elsewhere: it finds the modules of the script `beside` which it runs, too.
    """
    script = script.absolute()
    homes = [script, *([beside.absolute()] if beside is not None else [])]
    above = dict.fromkeys(folder for home in homes for folder in list(home.parents)[:4])
    roots = [*above, *(folder / "src" for folder in above)]  # as `pip install -e .` of its project would have it
    found, waiting = [script], [script]
    while waiting and len(found) < MOST:
        here = waiting.pop(0)
        for name in _imported(here):
            importers = homes if here == script else [here]
            for file in (file for importer in importers for file in _files(name, importer, roots)):
                if file not in found and len(found) < MOST and file.stat().st_size < LARGEST:
                    found.append(file)
                    waiting.append(file)
                    break
    return found


def project_sources(script: Path) -> list[str]:
    """The texts of `project_files`, the script's own first."""
    return [program_text(file) for file in project_files(script)]


def _imported(file: Path) -> Iterator[str]:
    """Dotted names, relative ones with their dots."""
    try:
        tree = ast.parse(program_text(file))
    except (SyntaxError, ValueError, OSError, InputError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield start
            yield from (f"{start}{'' if start.endswith('.') or not start else '.'}{alias.name}" for alias in node.names)


def _files(name: str, here: Path, roots: list[Path]) -> Iterator[Path]:
    dots = len(name) - len(name.lstrip("."))
    folders = [list(here.parents)[dots - 1]] if dots else [here.parent, *roots]
    parts = [part for part in name.split(".") if part]
    if LIBRARIES & {*parts[:1], *here.parts[-4:-1]}:
        return  # a copy of a library beside the script: its own reads are not the script's
    for folder in folders:
        if folder == folder.parent:
            continue
        place = folder.joinpath(*parts)
        for file in (place.with_suffix(".py") if parts else place / "__init__.py", place / "__init__.py"):
            if file.is_file():
                yield file
