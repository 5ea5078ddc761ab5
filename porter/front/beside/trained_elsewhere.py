"""A file that trains nothing itself, and runs what a module of its project trains: it isn't `unchanged`.

from trainers.dpo import DPO        trainers/dpo.py:  class DPO: def train(self, rows): ... loss.backward()
DPO(model, reference).train(rows)
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from ...engine.pipeline import port_module
from ...port import Options, Port
from ...recipe import Finding
from ...source.folder import SourceTree
from ...source.project.modules import find_project_file
from .reached_code import ReachedCode

RULE = "TP004"
TRAINS = re.compile(r"\.(?:train|backward)\(")


def say_trained_elsewhere(tree: SourceTree, script: Path, alone: Port, options: Options) -> Port:
    """The port of a file that is `unchanged`; `unsupported`, with the module's name, where a module trains for it."""
    texts = {file: tree.module(file).python for file in tree.files if file == script or file.suffix == ".py"}
    able = [file for file in texts if file != script and TRAINS.search(texts[file])]
    if not able or not options.active(RULE):
        return alone
    reached = ReachedCode(texts, script, surely=True)
    for file in able:
        port = port_module(tree.module(file), options)
        at = [each.line for each in port.fields] or [each.line for each in port.findings if each.severity == "error"]
        if port.recipe.trainer is not None and any(reached.reaches(file, line) for line in at):
            return replace(alone, status="unsupported", recipe=alone.recipe.with_findings([_said(tree, script, port)]))
    return alone


def _said(tree: SourceTree, script: Path, port: Port) -> Finding:
    """That a module trains, at the line of the file that imports it, or its first."""
    home = Path(port.path).absolute()
    name = Path(os.path.relpath(home, (tree.root / script).parent)).as_posix()
    line = next((line for line, module in _imports(tree, script) if module == home), 1)
    errors = [each for each in port.findings if each.severity == "error"]
    why = f": {errors[0].message}" if errors else ", which is ported as what calls it, and not from here."
    message = f"{name} trains here ({port.recipe.trainer}){why}"
    fix = f"Port that file: tpu-port {name} says all of it."
    if tree.module(script).notebook is not None:
        fix = f"{fix} A notebook's modules are ported with it once it is a .py file (jupyter nbconvert --to script)."
    return Finding(RULE, "error", message, fix, line, 1)


def _imports(tree: SourceTree, script: Path) -> list[tuple[int, Path]]:
    """The lines of a file's imports of its project, and what they import."""
    module = tree.module(script)
    found = ((each.node, find_project_file(str(tree.root / script), each.qualified)) for each in module.import_bindings)
    return [(module.location(node)[0], file[0]) for node, file in found if file is not None]
