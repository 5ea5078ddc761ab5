"""A notebook as the one program that its cells make in the order in which they stand, as plain Python.

What IPython alone understands is said with `get_ipython()` (`ipython.as_python`), whoever runs the program provides
that. A script is its own program. Nothing here imports more than Python has: the program may be run anywhere.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ...files import is_file, is_folder, read_file
from .ipython import as_python
from .magics import CANDIDATE
from .notebook import read_notebook

SUFFIX = ".ipynb"
BEGIN = "# %% [cell "
MARKER = BEGIN + "{}]\n"
TRAINS = "Trainer("
EXPORTED = re.compile(
    rb"(?m)^[ \t]*(?:\w+[ \t]*=[ \t]*)?get_ipython\(\)\.(?:system|getoutput|magic|run_line_magic|run_cell_magic)\("
)


@dataclass(frozen=True)
class Program:
    """The Python of a notebook's cells: `text`, and for each cell its number and the line at which it begins there.

    A notebook that was exported as a script has no `cells`: its lines are the file's. `skipped` are the cells that
    don't parse, with why: they can't have run.
    """

    path: str
    text: str
    cells: tuple[tuple[int, int], ...]
    skipped: tuple[tuple[int, str], ...] = ()

    def place(self, line: int) -> tuple[int, int]:
        """The cell, and the line in it, of a line of the text; all from 1. Cell 0 where there are none."""
        number, first = self.cells[0] if self.cells else (0, 1)
        for cell, begin in self.cells:
            if begin > line:
                break
            number, first = cell, begin
        return number, max(1, line - first + 1)

    @property
    def left_out(self) -> list[str]:
        """A line for each cell that doesn't parse."""
        name = Path(self.path).name
        return [f"{name} cell {number} does not parse ({why}): it was left out" for number, why in self.skipped]

    def named(self, text: str) -> str:
        """`text` with places of this notebook as cells and lines: in tracebacks and in warnings."""
        name = re.escape(Path(self.path).name)
        if not self.cells:
            return text

        def traced(found: re.Match[str]) -> str:
            cell, line = self.place(int(found["line"]))
            return f"{found['head']}, cell {cell}, line {line}"

        def warned(found: re.Match[str]) -> str:
            cell, line = self.place(int(found["line"]))
            return f"{found['head']} cell {cell}, line {line}:"

        text = re.sub(rf'(?P<head>File "(?:[^"\n]*/)?{name}"), line (?P<line>\d+)', traced, text)
        return re.sub(rf"(?P<head>(?<![\w.]){name}):(?P<line>\d+):", warned, text)


def is_notebook(path: Path) -> bool:
    """Whether a file is a notebook, by its name or by what it holds: one that was exported as a script, too.

    A notebook's program in its place is one.
    """
    if path.suffix == SUFFIX:
        return True
    try:
        data = read_file(path) if is_file(path) else b""
    except (OSError, InputError):
        return False
    return _is_document(data) or data.startswith(BEGIN.encode()) or _is_exported(data)


def program_text(path: Path) -> str:
    """The Python of a script or a notebook; the text as it stands of what is neither. OSError where none can be read.

    A notebook's program that stands in the notebook's place is its own.
    """
    data = read_file(path)
    if _is_document(data) or _is_exported(data):
        try:
            return program_of(data, str(path)).text
        except InputError:
            pass
    return data.decode("utf-8", errors="replace")


def read_program(path: Path) -> Program:
    """The program of a notebook. InputError where it is none, or where a cell that trains doesn't parse."""
    if is_folder(path):
        raise InputError("is a folder, not a file", path, fix="name a notebook in it")
    try:
        return program_of(read_file(path), str(path))
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror}", path, fix="check its permissions") from None


def program_of(data: bytes, path: str) -> Program:
    """As `read_program`, of the file's bytes."""
    if not _is_document(data) and _is_exported(data):
        return Program(path, as_python(data.decode("utf-8", errors="replace")), ())
    notebook = read_notebook(data, path)
    parts: list[str] = []
    cells: list[tuple[int, int]] = []
    skipped: list[tuple[int, str]] = []
    line = 1
    sources = sorted([*((cell.number, cell.source) for cell in notebook.cells), *notebook.others])
    for number, source in sources:
        text = as_python(source).replace("\r\n", "\n").replace("\r", "\n")
        wrong = _wrong(text)
        if wrong is not None:
            if TRAINS in source or len(notebook.cells) == 1:
                fix = "mend the syntax error"
                raise InputError(
                    f"does not parse: {wrong.msg}", f"{path} cell {number}", wrong.lineno, wrong.offset, fix
                )
            skipped.append((number, f"line {wrong.lineno}: {wrong.msg}"))
            continue
        cells.append((number, line + 1))
        parts.append(f"{MARKER.format(number)}{text.rstrip()}\n\n")
        line += parts[-1].count("\n")
    if not cells:
        number, why = skipped[0]
        raise InputError(f"has no cell that parses: cell {number}, {why}", Path(path), fix="mend the syntax error")
    return Program(path, "".join(parts), tuple(cells), tuple(skipped))


def _wrong(text: str) -> SyntaxError | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "cell", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except SyntaxError as error:
            return error
        except (ValueError, RecursionError, MemoryError) as error:
            return SyntaxError(str(error) or "nested too deeply", ("cell", 1, 1, ""))
    return None


def _is_exported(data: bytes) -> bool:
    """Whether a script is a notebook's: it calls IPython's shell, or has lines that IPython alone understands."""
    if EXPORTED.search(data) is not None:
        return True
    text = data.decode("utf-8", errors="replace")
    return CANDIDATE.search(text) is not None and _wrong(text) is not None and _wrong(as_python(text)) is None


def _is_document(data: bytes) -> bool:
    return data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and (b'"nbformat"' in data or b'"cells"' in data)
