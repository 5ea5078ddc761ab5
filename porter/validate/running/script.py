"""Runs a user's script unmodified inside an observer's process, as `python SCRIPT ARGS` would.

One with relative imports, which Python can't run so, runs as `python -m PACKAGE.SCRIPT ARGS`.
"""

from __future__ import annotations

import ast
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from ...errors import InputError
from ...source.notebooks.program import is_notebook, program_text
from ..stand_ins.command_line.command_lines import packages_in, project_of
from ..stand_ins.command_line.project import project_files
from ..stand_ins.data.repair import given_all_splits, write_repair
from ..stand_ins.pydantic_models import asked_by_model
from .calling import call_training
from .cells import run_cells

CRASHED = "crash.txt"
# An import, or what transformers loads with torch though nothing of the script names it.
LOADS_MODELS = re.compile(r"^\s*(?:import|from)\s+peft\b|\bAutoModel\w*\.from_|(?<!\w)pipeline\(", re.MULTILINE)
USES_TORCH = re.compile(
    r"^\s*(?:import|from)\s+torch\b|(?<!\w)(?<!rt\.)(?:pipeline|AutoModel\w*\.from_(?:pretrained|config))\(",
    re.MULTILINE,
)
RELATIVE = re.compile(r"^\s*from\s+\.", re.MULTILINE)


def search_only_libraries(instead: str) -> None:
    """Import nothing from the folder that this process was started in, as `python -m` does: a project may have a
    package of its own named `datasets`, which its script does not see either. `instead` is searched until then."""
    if sys.path[0] in ("", os.getcwd()):
        sys.path[0] = instead


def run_script(
    script: str,
    arguments: list[str],
    folder: Path,
    note: Callable[[str], None] = lambda line: None,
    trained: Callable[[], bool] = lambda: True,
) -> int:
    """Run `script` as `__main__` and return the exit status that Python would give.

    A notebook runs cell by cell; `note` hears what of it was not run. A module that has not `trained` when it ends, and
    only defines what does, has that called.

    An exception's traceback, from the script's first line on, is printed and written to `folder`/crash.txt; where
    made-up data may be to blame, `folder`/repair.json says what to add to them.
    """
    path = str(Path(script).absolute())
    sys.argv = [script, *arguments]
    root, module = as_module(Path(path))
    sys.path[0] = str(root)
    # As `pip install -e .` of its project, and of packages in it, would have it.
    project = project_of(Path(path))
    for place in (*packages_in(project), project, project / "src"):
        if place.is_dir() and str(place) not in sys.path:
            sys.path.append(str(place))
    try:
        if is_notebook(Path(path)):
            run_cells(path, note, folder, trained)
        else:
            as_main = "__main__"
            names = (
                runpy.run_module(module, run_name=as_main, alter_sys=True)
                if module
                else runpy.run_path(path, None, as_main)
            )
            if not trained():
                call_training(Path(path), names, folder, note)
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            return 0
        if isinstance(leaving.code, int):
            return leaving.code
        (folder / CRASHED).write_text(f"{leaving.code}\n", encoding="utf-8")
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException as error:
        text = "".join(traceback.format_exception(type(error), error, own_frames(error.__traceback__, path)))
        text += given_all_splits(error)
        (folder / CRASHED).write_text(text, encoding="utf-8")
        print(text, file=sys.stderr)
        write_repair(error, folder, asked_by_model(error))
        return 1
    return 0


def as_module(script: Path) -> tuple[Path, str]:
    """The folder to start in and the dotted name for `-m`: "" for a script without relative imports.

    Its package reaches up to the last folder with an `__init__.py`, and as far as its relative imports do; but not
    above a folder that holds what it imports by name alone.
    """
    try:
        tree = ast.parse(program_text(script))
    except (OSError, InputError, SyntaxError, ValueError):
        return script.parent, ""
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    levels = max((node.level for node in froms), default=0)
    named = {node.module.partition(".")[0] for node in froms if node.module and not node.level}
    named |= {
        name.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }

    def is_within(root: Path) -> bool:
        beside = any((root / name).is_dir() or (root / f"{name}.py").is_file() for name in named)
        return (root / "__init__.py").is_file() and (root.name in named or not beside)

    root, parts = script.parent, [script.stem]
    while levels and root != root.parent and (len(parts) <= levels or is_within(root)):
        root, parts = root.parent, [root.name, *parts]
    loaded = sys.modules.get(parts[0])  # a library that is loaded already hides a folder of its name
    hidden = loaded is not None and str(root / parts[0]) not in getattr(loaded, "__path__", ())
    if not levels or hidden or any("." in part for part in parts):
        return script.parent, ""
    return root, ".".join(parts)


def uses_torch(script: Path, source: Path | None = None) -> bool:
    """Whether a port keeps torch: for its data, as tensors that transformers makes, or for another model, also one that
    a module of its own or of its `source`'s project loads. A package that it lies in may import the source itself."""
    text = program_text(script)
    if USES_TORCH.search(text) is not None:
        return True
    if RELATIVE.search(text) is not None:
        packages = dict.fromkeys(file.parent / "__init__.py" for file in (script, source or script))
        files = [file for package in packages if package.is_file() for file in project_files(package)]
        if any(USES_TORCH.search(program_text(file)) for file in files):
            return True
    modules = project_files(script, source)[1:]
    return any(LOADS_MODELS.search(program_text(file)) for file in modules if file != script.absolute())


def own_frames(trace: TracebackType | None, path: str) -> TracebackType | None:
    """The traceback from the first frame in `path` on; all of it when the script has none (a syntax error)."""
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename != path:
        first = first.tb_next
    return first or trace
