"""Finds a stand-in for a module that isn't installed, after everything else has looked, and for the script alone."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ..observing.callers import asked_by_runtime, asked_by_script, asking_line
from .permissive import answer

TABLE = Path(__file__).with_name("stand_ins.toml")
REFUSED, TRACKER = "refused", "tracker"


@dataclass(frozen=True)
class StandIn:
    """A module that may be stood in for: its dotted name, its kind in the table, and its package or why it can't."""

    name: str
    kind: str
    text: str


class StandInModule(ModuleType):
    """A module whose every name is there: those `given`, and what `other` makes of the rest.

    `told` hears that the script uses it; `parts` are modules that answer more than nothing.
    """

    def __init__(
        self,
        name: str,
        told: Callable[[], None] = lambda: None,
        given: dict[str, Any] | None = None,
        other: Callable[[str], Any] = answer,
        parts: Collection[str] = (),
    ) -> None:
        super().__init__(name, "Stands in for a module that is not installed.")
        self.__path__: list[str] = []
        self.__version__ = "0.0.0"
        self.__dict__["_told"] = told
        self.__dict__["_other"] = other
        self.__dict__["_parts"] = parts
        self.__dict__.update(given or {})

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and not isinstance(super().__getattribute__("__dict__").get(name), ModuleType):
            super().__getattribute__("_told")()
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__" and (line := asking_line()) is not None:  # from pynvml import *
            return sorted(unbound(line[0]) - sys._getframe(1).f_globals.keys())
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        path = f"{self.__name__}.{name}"
        if any(part == path or part.startswith(path + ".") for part in self.__dict__["_parts"]):
            return importlib.import_module(path)  # bnb.nn without `import bitsandbytes.nn`
        return self.__dict__["_other"](path)


def unbound(file: str) -> set[str]:
    """The names that a file reads and nothing in it binds: what a `from library import *` is there for."""
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        tree = ast.parse(Path(file).read_text("utf-8"))
        read: set[str] = set()
        bound = set(dir(builtins))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                bound.add(node.name)
            elif isinstance(node, ast.alias):
                bound.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
        return read - bound
    return set()


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands last in `sys.meta_path`.

    `special` makes the names of a module that answers more than nothing. `computing` are libraries with substitutes of
    their own, with what the verdict says of them: a name that `special` doesn't make is `unknown` there.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        special: Mapping[str, Callable[[], dict[str, Any]]],
        computing: Mapping[str, str] | None = None,
        unknown: Callable[[str], Any] = answer,
    ) -> None:
        self._note = note
        self._special = special
        self._computing = computing or {}
        self._unknown = unknown
        self.owned: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The stand-in of `name` when the user's code imports it; ImportError with its reason for a refused one."""
        if name.partition(".")[0] in self._computing:
            return self._spec(name) if asked_by_script() else None
        found = known(name)
        parent = found is None and any(entry.startswith(name + ".") for entry in table())
        tracks = found is not None and found.kind == TRACKER and asked_by_runtime()  # for the script's own callback
        if (found is None and not parent) or not (tracks or asked_by_script()):
            return None
        if found is not None and found.kind == REFUSED:
            raise ImportError(f"{found.name} is not installed. {found.text}", name=name)
        if parent and name != "google":  # the rest of a library that is there is its own
            return None
        if found is not None and found.kind == "platform" and (line := asking_line()) and copes(*line):
            return None
        return self._spec(name)

    def _spec(self, name: str) -> importlib.machinery.ModuleSpec:
        self.owned.add(name)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        given = self._special[spec.name]() if spec.name in self._special else {}
        if (top := spec.name.partition(".")[0]) in self._computing:
            told = functools.partial(self._tell, self._computing[top])
            return StandInModule(spec.name, told, given, self._unknown, self._special)
        found = known(spec.name)
        text = f"{found.name} {kinds()[found.kind]}" if found else ""
        return StandInModule(spec.name, functools.partial(self._tell, text), given, parts=self._special)

    def exec_module(self, module: ModuleType) -> None:
        pass

    def _tell(self, text: str) -> None:
        if text and asked_by_script():
            self._note(text)


def known(name: str) -> StandIn | None:
    """The table's entry for module `name` or a package that it lies in."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        if found := table().get(".".join(parts[:count])):
            return found
    return None


@functools.cache
def table() -> dict[str, StandIn]:
    """Dotted name → entry of `stand_ins.toml`."""
    data = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {
        name: StandIn(name, kind, text)
        for kind, entries in data.items()
        if kind != "kinds"
        for name, text in entries.items()
    }


@functools.cache
def kinds() -> dict[str, str]:
    """Kind → what a verdict says of a stand-in of that kind."""
    found: dict[str, str] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["kinds"]
    return found


@functools.cache
def copes(file: str, line: int) -> bool:
    """Whether the import at that line stands in a `try` that goes on without it.

    `try: from google.colab import drive` is how scripts ask where they run: here, not in Colab.
    """
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return False
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try) or not node.body:
            continue
        if node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
            handlers = [handler for handler in node.handlers if _catches(handler)]
            if handlers and not any(_ends(handler) for handler in handlers):
                return True
    return False


def _catches(handler: ast.ExceptHandler) -> bool:
    text = ast.unparse(handler.type) if handler.type is not None else "Exception"
    return any(name in text for name in ("ImportError", "ModuleNotFoundError", "Exception"))


def _ends(handler: ast.ExceptHandler) -> bool:
    for node in ast.walk(handler):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("exit", "quit", "sys.exit", "os._exit"):
            return True
    return False


def hide_from_libraries(finder: StandInFinder) -> None:
    """`importlib.util.find_spec` tells libraries that a stand-in isn't there, though it lies in `sys.modules`."""
    original = importlib.util.find_spec

    @functools.wraps(original)
    def find_spec(name: str, package: str | None = None) -> Any:
        top = name.partition(".")[0]
        if (name in finder.owned or top in finder.owned) and not asked_by_script():
            return None
        return original(name, package)

    importlib.util.find_spec = find_spec


def append(finder: StandInFinder) -> None:
    """Let `finder` look when all others have found nothing."""
    sys.meta_path.append(finder)
