"""The Python files of packs as modules: those of a pack import each other, `from ._shared import lines`.

A pack's folder is a package of its own, and each folder in it is one of that, found by nothing but the names here. A
file of somebody's pack runs from its
source: what lies in `__pycache__` may be another program than the one that was trusted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from ...tables import rules_folder

PACKAGE = "_tpu_port_rules_{}"
FOLDERS: dict[str, Path] = {}  # of the packages, by their names


class _FromSource(SourceFileLoader):
    """Reads the file, and never its compiled form."""

    def get_code(self, fullname: str) -> CodeType:
        return compile(Path(self.path).read_bytes(), self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, stem = fullname.rpartition(".")
        folder = FOLDERS.get(package)
        if folder is None:
            return None
        file = folder / f"{stem}.py"
        if not file.is_file():
            return self._folder(fullname, folder / stem)
        kind = SourceFileLoader if str(file).startswith(f"{rules_folder()}{os.sep}") else _FromSource
        return spec_from_file_location(fullname, file, loader=kind(fullname, str(file)))

    def _folder(self, name: str, folder: Path) -> ModuleSpec | None:
        """A folder of a pack, as a package without code of its own."""
        if not folder.is_dir():
            return None
        FOLDERS[name] = folder
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = []
        return spec


FINDER = _Finder()


def run(file: Path, pack: str, root: Path) -> ModuleType:
    """The module of a file of the pack in `root`, run once since `forget` was called."""
    name = PACKAGE.format(pack.replace(".", "_"))
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)
    if FOLDERS.get(name) != root or name not in sys.modules:
        forget(pack)
        FOLDERS[name] = root
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = []
    stem = str(file).removeprefix(f"{root}{os.sep}").removesuffix(".py").replace(os.sep, ".")
    return importlib.import_module(f"{name}.{stem}")


def forget(pack: str) -> None:
    """The next time a file of the pack is asked for it runs anew: its folder may hold other code by then."""
    name = PACKAGE.format(pack.replace(".", "_"))
    if FOLDERS.pop(name, None) is None:
        return
    for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
        del sys.modules[known]
    for known in [known for known in FOLDERS if known.startswith(f"{name}.")]:
        del FOLDERS[known]
