"""Runs a notebook's program as IPython runs its cells: one statement after the other, in one namespace.

`await` may stand outside of functions, `from __future__ import` in any cell, and there is no `__file__`. What ends a
kernel so that it starts anew (`exit()`, `os.kill(os.getpid(), 9)`) ends nothing: the next cells go on.
"""

from __future__ import annotations
import __future__

import ast
import asyncio
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any

from ...source.notebooks.program import program_text
from ..observing.callers import asked_by_script
from ..world.ipython import Shell, begin_session
from .beside_training import LeftOut

RESTARTED = "the notebook ends its kernel to start it anew: its names stayed, and the next cells went on"


def run_cells(
    path: str, note: Callable[[str], None], folder: Path | None = None, trained: Callable[[], bool] = lambda: True
) -> None:
    """Run the notebook at `path` (or its program in its place) as `__main__`; `note` hears what was not run of it.

    Until it has `trained`, what fails beside its training is left out; the run's `folder` tells its side.
    """
    text = program_text(Path(path))
    # Tracebacks and `inspect.getsource` read the program, whatever lies there.
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    module = ModuleType("__main__")
    names = module.__dict__
    shell = Shell(names, note)
    restarted = _restarts(note)
    names |= {"__builtins__": __builtins__, "exit": restarted, "quit": restarted, **begin_session(shell)}
    kept, sys.modules["__main__"] = sys.modules.get("__main__"), module
    try:
        _run(text, path, names, lambda tree: left_out(tree.body, folder, note), trained)
    finally:
        if kept is not None:
            sys.modules["__main__"] = kept


def left_out(statements: list[ast.stmt], folder: Path | None, note: Callable[[str], None]) -> LeftOut | None:
    """What may be left out of a run whose folder is its side's, as `source-x1`; None of another run."""
    side = folder.name.partition("-")[0] if folder is not None else ""
    if folder is None or side not in ("source", "port"):
        return None
    return LeftOut(statements, folder.parent, side == "source", note)


def _run(
    text: str,
    path: str,
    names: dict[str, Any],
    without: Callable[[ast.Module], LeftOut | None],
    trained: Callable[[], bool],
) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(text, path, "exec", flags=flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    loop: asyncio.AbstractEventLoop | None = None
    left = without(tree)
    for place, statement in enumerate(tree.body):
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            for alias in statement.names:
                flags |= getattr(__future__, alias.name).compiler_flag
        code = compile(ast.Module([statement], []), path, "exec", flags=flags, dont_inherit=True)
        try:
            if code.co_flags & inspect.CO_COROUTINE:
                loop = loop or asyncio.new_event_loop()
                asyncio.set_event_loop(loop)
                loop.run_until_complete(_coroutine(eval(code, names)))
            else:
                exec(code, names)
        except Exception as error:
            if left is None or trained() or not left.takes(place, error):
                raise


async def _coroutine(made: Coroutine[Any, Any, Any]) -> None:
    await made


def _restarts(note: Callable[[str], None]) -> Callable[..., None]:
    """What `exit()` does in a notebook's cell; `os.kill` and `os._exit` of its own process do the same."""
    kill, leave = os.kill, os._exit

    def restarted(*args: Any) -> None:
        note(RESTARTED)

    def own_kill(pid: int, signal: int) -> None:
        if pid == os.getpid() and asked_by_script():
            return restarted()
        return kill(pid, signal)

    def own_exit(status: int = 0) -> None:
        if asked_by_script():
            return restarted()
        leave(status)

    os.kill, os._exit = own_kill, own_exit  # type: ignore[assignment]
    return restarted
