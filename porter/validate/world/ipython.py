"""IPython's shell for a notebook that is run as a program: `get_ipython()`, its magics, `display`.

What a magic means for the rest of the notebook is done (`%cd`, `%env`, `%%writefile`, `%run`); programs of the shell,
installations among them, are not run, and a note says so. What only shows something, or sets how it is shown, is left
out.
"""

from __future__ import annotations

import importlib
import os
import re
import runpy
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ...source.notebooks.program import is_notebook, program_text
from ..observing.callers import asked_by_script
from .permissive import Permissive
from .shell_lines import INSTALLED, INSTALLERS, run_commands

# Magics that set how something is shown, load an extension or measure time; %%capture keeps what a cell prints.
QUIET = frozenset(
    """
    matplotlib config load_ext reload_ext autoreload aimport unload_ext tensorboard wandb time timeit prun memit mprun
    lprun pinfo pinfo2 psearch pdoc psource who whos who_ls history hist xmode colors pylab precision lsmagic magic
    autosave automagic quickref alias alias_magic autoawait pprint debug pdb tb html HTML javascript js latex markdown
    svg SVG bigquery load notebook page reset reset_selective gui doctest_mode
    """.split()
)
ASSIGNMENT = re.compile(r"(\w+)\s*=\s*(.*)", re.DOTALL)
VARIABLE = re.compile(r"\{\{|\}\}|\{(?P<code>[^{}]+)\}|\$(?P<name>[A-Za-z_]\w*)|\$\{(?P<braced>\w+)\}")
LINES_OF_SHELL = ("bash", "sh", "shell", "system", "sx", "!")
ALIASES = frozenset("ls ll cat cp mv rm mkdir rmdir less more man".split())
SHELLS: list[Shell] = []


class Output(list[str]):
    """What a program that was not run printed: no lines, and an empty one wherever one is asked for."""

    s = n = p = ""

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index) if isinstance(index, slice) or index < len(self) else ""


class Shell(Permissive):
    """What `get_ipython()` gives. `names` is the notebook's namespace."""

    def __new__(cls, names: dict[str, Any], note: Callable[[str], None]) -> Shell:
        made = super().__new__(cls, "get_ipython()")
        made.__dict__.update(user_ns=names, config={}, _note=note, _begun=os.getcwd(), _away=[], _before=[])
        return made

    def __init__(self, *args: Any) -> None:
        pass

    def system(self, command: str) -> None:
        """`!command`: folders are made, everything else is not run."""
        run_commands(self._filled(command), self._note)

    system_raw = system_piped = system

    def getoutput(self, command: str, *args: Any, **kwargs: Any) -> Output:
        """`lines = !command`."""
        command = self._filled(command)
        run_commands(command, self._note)
        return Output([os.getcwd()] if command.strip() == "pwd" else [])

    def run_line_magic(self, name: str, line: str = "", *args: Any, **kwargs: Any) -> Any:
        """`%name line`."""
        method = getattr(type(self), f"magic_{name}", None)
        if method is not None:
            return method(self, self._filled(line).strip())
        if name in INSTALLERS:
            return self._note(INSTALLED)
        if name in LINES_OF_SHELL:
            return self.getoutput(line)
        if name in ALIASES:
            return self.system(f"{name} {line}")
        if name not in QUIET:
            self._note(f"the magic %{name} was not run")
        return None

    def magic(self, line: str) -> Any:
        """`get_ipython().magic('cd out')`, as it was called before."""
        name, _, rest = line.lstrip("%").partition(" ")
        return self.run_line_magic(name, rest)

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        """`%%name line`, whose cell is no Python."""
        if name in ("writefile", "file"):
            self._write(self._filled(line), cell)
        elif name in LINES_OF_SHELL or (name == "script" and line.split()[:1] in (["bash"], ["sh"])):
            for command in re.sub(r"\\\r?\n", " ", cell).splitlines():
                if command.strip() and not command.lstrip().startswith("#"):
                    run_commands(command, self._note)
        elif name not in QUIET:
            self._note(f"a cell that is no Python was not run: %%{name}")

    def run_cell(self, text: str, *args: Any, **kwargs: Any) -> None:
        """Code that the notebook makes and runs."""
        from ...source.notebooks.ipython import as_python

        exec(as_python(text), self.user_ns)

    def register_magic_function(self, function: Any, *args: Any, magic_name: str | None = None, **kwargs: Any) -> None:
        """A magic of the notebook's own."""
        setattr(type(self), f"magic_{magic_name or function.__name__}", lambda self, line: function(line))

    def magic_cd(self, line: str) -> None:
        """`%cd folder`; one that isn't here is stayed out of, until `%cd ..` comes back from it."""
        target = line.strip("'\" ")
        if target == "-":
            target = self._before[-1] if self._before else ""
        if self._away and re.fullmatch(r"\.\.(/\.\.)*/?", target):
            self._away.pop()
            return
        folder = self._folder(target)
        if folder is None:
            self._away.append(target)
            self._note(f"%cd {target}: no such folder: the notebook went on where it was")
        else:
            self._before.append(os.getcwd())
            self._away.clear()
            os.chdir(folder)

    magic_chdir = magic_cd

    def _folder(self, target: str) -> str | None:
        """Where `%cd target` leads; None where there is no such folder."""
        if not target or target.rstrip("/") in ("~", "/content", "/kaggle/working", "/workspace", "/root"):
            return self._begun  # where hosted notebooks start
        inner = re.sub(r"^/(?:content(?:/drive/\w+)?|kaggle/(?:working|input)|workspace)/", "", target)
        for place in (target, inner, os.path.join(self._begun, inner)):
            if os.path.isdir(os.path.expanduser(place)):
                return os.path.expanduser(place)
        return None

    def magic_pwd(self, line: str) -> str:
        """`%pwd`."""
        return os.getcwd()

    def magic_env(self, line: str) -> Any:
        """`%env`, `%env NAME`, `%env NAME=VALUE` and `%env NAME VALUE`."""
        if not line:
            return dict(os.environ)
        found = ASSIGNMENT.fullmatch(line)
        name, value = (found[1], found[2]) if found else (line.partition(" ")[0], line.partition(" ")[2].strip())
        if not found and not value:
            return os.environ.get(name, "")
        os.environ[name] = value
        return None

    magic_set_env = magic_env

    def magic_capture(self, line: str) -> None:
        """`%%capture name`: what the cell prints is printed; the name holds an empty capture."""
        for name in shlex.split(line):
            if name.isidentifier():
                self.user_ns[name] = Permissive(name)

    def magic_run(self, line: str) -> None:
        """`%run file words`: a script or another notebook, whose names are the notebook's then."""
        words = [word for word in shlex.split(line) if word not in ("-i", "-n", "-e", "-t", "-p")]
        files = [Path(words[0] + suffix) for suffix in ("", ".py", ".ipynb")] if words else []
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            self._note(f"%run {line}: no such file: it was not run")
            return
        before, sys.argv = sys.argv, words
        try:
            if is_notebook(file):
                exec(compile(program_text(file), str(file.absolute()), "exec"), self.user_ns)
            else:
                found = runpy.run_path(str(file.absolute()), run_name="__main__")
                self.user_ns.update({name: value for name, value in found.items() if not name.startswith("__")})
        finally:
            sys.argv = before

    def _write(self, line: str, text: str) -> None:
        words = shlex.split(line)
        name = next((word for word in words if not word.startswith("-")), "")
        if not name:
            return
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, exist_ok=True)
        with open(name, "a" if "-a" in words else "w", encoding="utf-8") as file:
            file.write(text)

    def _filled(self, text: str) -> str:
        """`text` with `{expression}` and `$name` of the notebook's own names."""
        frame = sys._getframe(2)
        names = {**self.user_ns, **(frame.f_locals if frame.f_globals is self.user_ns else {})}

        def value(found: re.Match[str]) -> str:
            if found[0] in ("{{", "}}"):
                return found[0][0]
            code = found["code"] or found["name"] or found["braced"]
            if found["code"] is None and code not in names:
                return found[0]
            try:
                return str(eval(code, self.user_ns, names))
            except Exception:  # the shell's own braces
                return found[0]

        return VARIABLE.sub(value, text)


Shell.__name__ = Shell.__qualname__ = "ZMQInteractiveShell"  # what scripts ask for to know that they are notebooks


def begin_session(shell: Shell) -> dict[str, Any]:
    """The names that IPython gives every notebook."""
    SHELLS[:] = [shell]
    _plain_progress_bars()
    installed = sys.modules.get("IPython")
    if installed is not None:
        installed.__dict__["get_ipython"] = get_ipython
    return {
        "get_ipython": get_ipython,
        "display": display,
        "In": [""],
        "Out": {},
        "_dh": [os.getcwd()],
        **dict.fromkeys(("_", "__", "___", "_i", "_ii", "_iii"), ""),
    }


def get_ipython() -> Shell | None:
    """The shell of the notebook that runs; None where a script does, and for libraries, which would draw in it."""
    return SHELLS[-1] if SHELLS and asked_by_script() else None


def display(*values: Any, **kwargs: Any) -> Any:
    """Shows nothing."""
    return Permissive("display") if kwargs.get("display_id") else None


def ipython() -> dict[str, Any]:
    """IPython's names that answer more than nothing."""
    return {"get_ipython": get_ipython, "version_info": (9, 0, 0)}


def ipython_display() -> dict[str, Any]:
    """The functions of `IPython.display`."""
    return {"display": display, "clear_output": display, "update_display": display}


def _plain_progress_bars() -> None:
    """`tqdm.notebook`, which needs Jupyter's widgets, has tqdm's own bars."""
    tqdm: Any = importlib.import_module("tqdm")
    bars: Any = ModuleType("tqdm.notebook")
    bars.tqdm = bars.tqdm_notebook = tqdm.tqdm
    bars.trange = bars.tnrange = tqdm.trange
    sys.modules["tqdm.notebook"] = tqdm.notebook = bars
