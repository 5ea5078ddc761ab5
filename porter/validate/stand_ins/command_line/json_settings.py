"""Settings that a script takes as JSON on its command line: a dictionary of its project that it fits."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....errors import InputError
from ....source.notebooks.program import program_text

MOST, LARGEST = 60, 2_000_000  # files that are looked through, and their bytes
FEWEST = 2  # keys that the script must know


def read_as_json(tree: ast.AST) -> set[str]:
    """Names of settings whose text the script reads as JSON: `json.loads(args.config)`."""
    return {
        node.args[0].attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("json.loads", "loads")
        and node.args
        and isinstance(node.args[0], ast.Attribute)
    }


def document_for(script: Path, project: Path) -> tuple[str, str]:
    """The dictionary that the project's notebooks and scripts write out and of which the script knows most keys, as
    JSON, and the file's name; ("{}", "") where there is none.

    What only the run knows of it is left out.
    """
    asked = {node.value for node in ast.walk(_tree(script)) if isinstance(node, ast.Constant)}
    best: tuple[int, dict[str, Any], str] = (FEWEST - 1, {}, "")
    files = sorted(file for kind in ("*.ipynb", "*.py") for file in project.rglob(kind))
    for file in files[:MOST]:
        if file.resolve() == script.resolve() or not file.is_file() or file.stat().st_size > LARGEST:
            continue
        for node in ast.walk(_tree(file)):
            if isinstance(node, ast.Dict):
                written = dict(_written(node))
                known = len(asked & {*written})
                if known > best[0]:
                    best = (known, written, file.name)
    return json.dumps(best[1], ensure_ascii=False), best[2]


def _written(node: ast.Dict) -> Iterator[tuple[str, Any]]:
    """The keys and values that stand there as they are."""
    for key, value in zip(node.keys, node.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            continue
        if isinstance(value, ast.Dict):
            yield key.value, dict(_written(value))
            continue
        try:
            yield key.value, ast.literal_eval(value)
        except (ValueError, TypeError):
            continue


def _tree(file: Path) -> ast.AST:
    try:
        return ast.parse(program_text(file))
    except (OSError, SyntaxError, ValueError, RecursionError, InputError):
        return ast.Module([], [])
