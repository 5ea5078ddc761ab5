"""The modules of its project that a script imports, directly or through others."""

from __future__ import annotations

from pathlib import Path

from ...errors import InputError
from ..folder import MOST_FILES, SourceTree, imported_names, names_in
from ..merged import Merged
from ..module import Module
from ..parsing import read_module
from .folders import project_folders
from .modules import ABOVE, find_project_file

OURS = ("porter", "porter_runtime")
WHOLE = "the script with what it imports"  # of `Module.memory`


def with_what_it_imports(module: Module) -> Module:
    """A script together with the modules of its project that it imports; itself where it imports none, or is so
    already."""
    if isinstance(module, Merged) or module.notebook is not None or not Path(module.path).is_file():
        return module
    if WHOLE not in module.memory:
        tree, script = tree_around(Path(module.path), module)
        module.memory[WHOLE] = tree.merged(script)
    whole: Module = module.memory[WHOLE]
    return whole


def tree_around(path: Path, module: Module) -> tuple[SourceTree, Path]:
    """The files of its project that a script imports, directly or through others, and its own path among them."""
    script = path.absolute()
    root = project_folders(script, above=ABOVE)[-1]
    found, pending = {script: module}, [script]
    while pending and len(found) < MOST_FILES:
        file = pending.pop(0)
        for name in imported_names(file) if file != script else names_in(module.python):
            if name.partition(".")[0] in OURS:
                continue
            target = find_project_file(str(file), name)
            if target is None or target[0] in found or root not in target[0].parents:
                continue
            try:
                found[target[0]] = read_module(target[0])
            except InputError:
                continue
            pending.append(target[0])
    modules = {file.relative_to(root): read for file, read in found.items()}
    return SourceTree(root, sorted(modules), modules=modules), script.relative_to(root)
