"""The Python files of packs as modules: those of one folder import each other, `from ._shared import lines`.

A pack's folder is a package of its own, found by nothing but the names here. A file of somebody's pack runs from its
source: what lies in `__pycache__` may be another program than the one that was trusted.
"""

from __future__ import annotations

import importlib
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
        file = folder / f"{stem}.py" if folder is not None else None
        if file is None or not file.is_file():
            return None
        kind = SourceFileLoader if file.is_relative_to(rules_folder()) else _FromSource
        return spec_from_file_location(fullname, file, loader=kind(fullname, str(file)))


FINDER = _Finder()


def run(file: Path, pack: str) -> ModuleType:
    """The module of a pack's file, run once since `forget` was called."""
    name = PACKAGE.format(pack.replace(".", "_"))
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)
    if FOLDERS.get(name) != file.parent or name not in sys.modules:
        forget(pack)
        FOLDERS[name] = file.parent
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = []
    return importlib.import_module(f"{name}.{file.stem}")


def forget(pack: str) -> None:
    """The next time a file of the pack is asked for it runs anew: its folder may hold other code by then."""
    name = PACKAGE.format(pack.replace(".", "_"))
    for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
        del sys.modules[known]
