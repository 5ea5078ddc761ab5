"""A module of a project that trains a model which its caller makes: it is read with the script that calls it.

    main.py:  train(load_model(), rows)        trainer.py:  def train(model, rows): ... SFTTrainer(model=model, ...)

Given alone, `trainer.py` doesn't say what it trains. A script of the project that imports it is read in its place, and
what becomes of the module there is its port; a finding names the script, whose own port goes with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..engine.pipeline import port_module
from ..errors import InputError
from ..files import read_text
from ..port import Options, Port
from ..recipe import Finding
from ..source.folder import NEVER, SourceTree, imported_names
from ..source.parsing import read_module
from ..source.project.around import tree_around
from ..source.project.folders import project_folders
from ..source.project.modules import find_project_file
from .beside.with_modules import with_modules

MOST_FILES, MOST_CALLERS = 300, 2
LARGEST = 200_000  # characters of a script that may call it
RULE = "TP001"


def port_by_caller(path: Path, options: Options) -> Port | None:
    """The port of a module as a script of its project calls it; None where none does, or where more is left to do."""
    script = path.absolute()
    root = project_folders(script, above=0)[-1]
    for caller in _callers(script, root):
        try:
            tree, main = tree_around(caller, read_module(caller))
            if script not in {tree.root / file for file in tree.files}:
                continue
            whole = port_module(tree.merged(main), options)
        except InputError:
            continue
        port = _of_module(tree, script.relative_to(tree.root), whole) if whole.status == "ported" else None
        if port is not None:
            name = caller.relative_to(root).as_posix()
            message = f"{name} makes the model of this module, and it is ported as that calls it."
            fix = f"Port that script, too: tpu-port {name} -o OUT, which writes its modules beside it."
            finding = Finding(RULE, "warning", message, fix, 1, 1)
            return replace(port, recipe=port.recipe.with_findings([finding]))
    return None


def _callers(script: Path, root: Path) -> Iterator[Path]:
    """Scripts that import a module, itself or through others of the project, the nearest first."""
    users: dict[Path, list[Path]] = {}
    for file in _sources(root):
        for name in imported_names(file):
            found = find_project_file(str(file), name)
            if found is not None and found[0] != file:
                users.setdefault(found[0], []).append(file)
    seen, pending, given = {script}, [script], 0
    while pending and given < MOST_CALLERS:
        for user in users.get(pending.pop(0), ()):
            if user in seen:
                continue
            seen.add(user)
            if user in users:
                pending.append(user)
            elif not user.name.startswith("test_"):
                given += 1
                yield user


def _sources(root: Path) -> Iterator[Path]:
    """The Python files of a project, of a large one the first."""
    count = 0
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in NEVER and not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            if file.suffix == ".py" and not file.is_symlink() and _is_small(file):
                count += 1
                if count > MOST_FILES:
                    return
                yield file


def _is_small(file: Path) -> bool:
    try:
        read_text(file, LARGEST)
    except (OSError, ValueError, InputError):
        return False
    return True


def _of_module(tree: SourceTree, module: Path, whole: Port) -> Port | None:
    """What became of a module in the port of the script that calls it, with the modules that it imports."""
    ports = {Path(port.path).relative_to(tree.root): port for port in whole.modules}
    port = ports.get(module)
    if port is None or whole.recipe.trainer is None:
        return None
    reached = set(tree.reached(module))
    recipe = replace(whole.recipe, source=port.recipe.source, findings=port.findings, fields=port.recipe.fields)
    inner = tuple(other for file, other in ports.items() if file in reached and file != module)
    return with_modules(tree, module, replace(port, recipe=recipe, modules=inner))
