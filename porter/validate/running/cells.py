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

RESTARTED = "the notebook ends its kernel to start it anew: its names stayed, and the next cells went on"


def run_cells(path: str, note: Callable[[str], None]) -> None:
    """Run the notebook at `path` (or its program in its place) as `__main__`; `note` hears what was not run of it."""
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
        _run(text, path, names)
    finally:
        if kept is not None:
            sys.modules["__main__"] = kept


def _run(text: str, path: str, names: dict[str, Any]) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(text, path, "exec", flags=flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    loop: asyncio.AbstractEventLoop | None = None
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            for alias in statement.names:
                flags |= getattr(__future__, alias.name).compiler_flag
        code = compile(ast.Module([statement], []), path, "exec", flags=flags, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            loop = loop or asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            loop.run_until_complete(_coroutine(eval(code, names)))
        else:
            exec(code, names)


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
