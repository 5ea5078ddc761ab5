"""Variables of the environment that a script asks for and nobody set, made up for its own code alone."""

from __future__ import annotations

import ast
import builtins
import functools
import os
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ....errors import InputError
from ....source.notebooks.program import program_text
from .command_lines import project_of
from .made_up_values import number_value, text_value
from .script_needs import assigned_at, caught, insisted_on, put_back

SECRET = re.compile(r"(?:^|_)(?:token|api_?key|secret|password)$", re.IGNORECASE)
# One process: what torch's launcher would say of it. Nothing is told of these.
ALONE = {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
ALONE |= {"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "NODE_RANK": "0"}


def provide_environment(script: str | Path, note: Callable[[str], None]) -> None:
    """`os.environ["X"]` in the project's own code has a value where nobody set one. For both processes: it is the same.

    Nothing is put into the environment itself, which libraries read.
    """
    folder = project_of(Path(script))
    original = os.environ.__class__.__getitem__

    @functools.wraps(original)
    def getitem(self: Any, name: Any) -> Any:
        try:
            return original(self, name)
        except KeyError:
            frame = sys._getframe(1)
            file = Path(frame.f_code.co_filename)
            own = folder in file.parents and "site-packages" not in file.parts and isinstance(name, str)
            if not own or caught(_parsed(str(file)), frame.f_lineno):
                raise
            if name in ALONE:
                return ALONE[name]
            number = asked_as_number(_parsed(str(file)), frame.f_lineno)
            value = f"{number_value(name):g}" if number else text_value(name)
            note(f"the environment variable {name} was made up: {value}")
            return value

    lookup = os.environ.__class__.get

    @functools.wraps(lookup)
    def answered(self: Any, name: Any, default: Any = None) -> Any:
        if self is not os.environ or default or name in self:
            return lookup(self, name, default)
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__") == "os" and frame.f_back is not None:  # os.getenv
            frame = frame.f_back
        file = Path(frame.f_code.co_filename)
        if folder not in file.parents or "site-packages" in file.parts:
            return default
        tree = _parsed(str(file))
        needed = assigned_at(tree, frame.f_lineno) & insisted_on(tree)
        if not needed and (default is not None or not put_back(tree, frame.f_lineno)):
            return default
        value = text_value(name)
        note(f"the environment variable {name}, without which the script stops, was made up: {value}")
        return value

    os.environ.__class__.__getitem__ = getitem  # type: ignore[method-assign]
    os.environ.__class__.get = answered  # type: ignore[method-assign, assignment]
    _provide_dotenv(note)
    for name in sorted(unmade_secrets(script)):
        setattr(builtins, name, text_value(name))
        note(f"{name}, which the script reads and nowhere makes, was made up: {text_value(name)}")


def unmade_secrets(script: str | Path) -> set[str]:
    """Names of tokens and keys that a script reads and nowhere makes: their line was left out of what was published."""
    try:
        tree = ast.parse(program_text(Path(script)))
    except (OSError, SyntaxError, ValueError, InputError):
        return set()
    nodes = [*ast.walk(tree)]
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes):
        return set()
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    made = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    made |= {(node.asname or node.name).split(".")[0] for node in nodes if isinstance(node, ast.alias)}
    made |= {str(getattr(node, "name", "")) for node in nodes if not isinstance(node, ast.alias)}  # functions, classes
    return {name for name in read - made if SECRET.search(name)}


class _Held(OrderedDict[str, str | None]):
    """What a `.env` file holds; what it lacks is made up where it is asked for by its name."""

    def __init__(self, held: Mapping[str, str | None], note: Callable[[str], None]) -> None:
        super().__init__(held)
        self._note = note

    def __missing__(self, name: str) -> str:
        value = text_value(name)
        self._note(f"{name} of the .env file, which has none, was made up: {value}")
        return value


def _provide_dotenv(note: Callable[[str], None]) -> None:
    """`dotenv_values(".env")["HF_TOKEN"]` has a value where the file, which nobody commits, has none."""
    try:
        import dotenv
    except ImportError:  # then a stand-in answers
        return
    original = dotenv.dotenv_values

    @functools.wraps(original)
    def dotenv_values(*args: Any, **kwargs: Any) -> _Held:
        return _Held(original(*args, **kwargs), note)

    dotenv.dotenv_values = dotenv_values
    dotenv.main.dotenv_values = dotenv_values


@functools.cache
def _parsed(file: str) -> ast.AST:
    return ast.parse(Path(file).read_text(encoding="utf-8", errors="replace"))


def asked_as_number(tree: ast.AST, line: int) -> bool:
    """Whether what the line reads of the environment is made an int or a float."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("int", "float")
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        and any(isinstance(inner, ast.Subscript | ast.Attribute) for inner in ast.walk(node))
        for node in ast.walk(tree)
    )
