"""Which packages a script's libraries need that are not installed: those that compute, by import name."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .finder import table

# Of no use to a run on a CPU; those of `gpu_libraries` have substitutes.
NEED_A_GPU = {"cupy", "pynvml", "tensorflow", "auto_gptq", "optimum", "sglang"}
METRICS = re.compile(r"\b(?:load|load_metric|combine)\(\s*\[?\s*((?:[\"']\w+[\"'][\s,]*)+)")


@dataclass(frozen=True, order=True)
class Requirement:
    """A package to install: `package` as pip knows it, for `module` as scripts import it."""

    package: str
    module: str


def missing_packages(
    sources: Iterable[str],
    installed: Callable[[str], bool],
    local: Container[str] = (),
    asked: Mapping[str, str] | None = None,
) -> list[Requirement]:
    """Packages that the Python `sources` import and `installed(module)` denies, in order of their names.

    Only libraries of `packages.toml` are named, and those that the project asks for by their own name (`asked`: import
    name to package): an unknown import may be the project's own, and a package of any name can lie on an index. `local`
    are the project's own modules. Text that isn't Python is passed over.
    """
    from ..torch_side.gpu_libraries.start import MODULES

    unwanted = {*table(), *MODULES, *NEED_A_GPU}
    known = {name: package for name, package in (asked or {}).items() if name not in unwanted} | _table()["packages"]
    found: set[Requirement] = set()
    for source in sources:
        for module in {*imported(source), *_of_metrics(source)}:
            if module in known and module not in local and module not in sys.stdlib_module_names:
                if not installed(module):
                    found.add(Requirement(known[module], module))
    return sorted(found)


def imported(source: str) -> Iterator[str]:
    """The top-level modules that `source` imports anywhere, relative imports left out; none when it isn't Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def _of_metrics(source: str) -> Iterator[str]:
    names = {package: module for module, package in _table()["packages"].items()}
    asked = {metric for several in METRICS.findall(source) for metric in re.findall(r"\w+", several)}
    for metric in sorted(asked):
        yield from (names[package] for package in _table()["metrics"].get(metric, ()))


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("packages.toml").read_text(encoding="utf-8"))
