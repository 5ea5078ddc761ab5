"""From the bytes of a Python file or a notebook to a `Module`; what is neither is refused with its place and reason."""

from __future__ import annotations

import ast
import codecs
import contextlib
import re
import tokenize
import warnings
from functools import cached_property
from io import BytesIO, StringIO
from pathlib import Path

import libcst as cst

from ..errors import InputError
from ..files import is_folder, read_file
from ..safety.limits import DEEP, FLATTEN
from ..safety.nesting import MOST, nesting
from .module import Module
from .notebooks.magics import masked
from .notebooks.notebook import Notebook, read_notebook

# Characters of Python beyond which a file is generated data rather than a script that somebody wrote.
LARGEST = 1_000_000
# A backslash before a line that is empty, or alone on its line.
IDLE = re.compile(
    r"(?<!\\\n)(?<!\\\r\n)^[ \t]*(?P<alone>\\)\r?\n|(?P<before_nothing>\\)(?=\r?\n[ \t]*(?:\r?\n|\Z))", re.MULTILINE
)
INDENTED_BY_TABS = re.compile(r"^[ ]*\t[ \t]*(?=[^\s])", re.MULTILINE)
TEXTS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def read_module(path: Path, *, lazily: bool = False) -> Module:
    """Read and parse a Python file or a notebook. InputError when it is no readable Python source.

    `lazily`: see `parse_module`.
    """
    if is_folder(path):
        raise InputError("is a folder, not a file", path, fix="name a .py or .ipynb file in it")
    try:
        data = read_file(path)
    except FileNotFoundError:
        raise InputError("does not exist", path, fix="check the path") from None
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror}", path, fix="check its permissions") from None
    if not data.strip():
        raise InputError("is empty", path, fix="name the training script")
    if b"\0" in data:
        raise InputError("is a binary file, not Python source", path, fix="name the training script")
    if path.suffix == ".ipynb" or (data.lstrip().startswith(b"{") and b'"nbformat"' in data):
        return parse_notebook(data, str(path))
    return parse_module(data, str(path), lazily=lazily)


def parse_module(data: bytes, path: str, *, lazily: bool = False) -> Module:
    """Parse the bytes of a Python file; `path` is only used in messages.

    `lazily`: of what Python's own parser takes, the syntax tree is made when it is asked for. libcst needs seconds for
    a megabyte, and few files have something to port.
    """
    bom = data.startswith(codecs.BOM_UTF8)
    try:
        encoding = tokenize.detect_encoding(BytesIO(data).readline)[0].replace("-sig", "")
        text = data[len(codecs.BOM_UTF8) if bom else 0 :].decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise InputError(
            f"is not text in its declared encoding: {error}", Path(path), fix="save it as UTF-8 or declare its encoding"
        ) from None
    _check_size(text, path)
    is_python = _check_depth(text, path)
    written, text = text, without_idle_continuations(text)
    if lazily and is_python:
        return Unread(path, text, bom, encoding, written)
    tree, parsed = _parsed(text, path)
    return Module(path, text, tree, bom, encoding, parsed, written=written)


class Unread(Module):
    """A module whose syntax tree is made when it is asked for. InputError then, where libcst can't."""

    def __init__(self, path: str, text: str, bom: bool, encoding: str, written: str) -> None:
        self.path, self.text, self.bom, self.encoding, self.written = path, text, bom, encoding, written

    @cached_property
    def _read(self) -> tuple[cst.Module, str]:
        return _parsed(self.text, self.path)

    @cached_property
    def tree(self) -> cst.Module:  # type: ignore[override]
        return self._read[0]

    @cached_property
    def parsed(self) -> str:  # type: ignore[override]
        return self._read[1]


def _parsed(text: str, path: str) -> tuple[cst.Module, str]:
    """As `parse_text`. InputError when it is no Python, with its place."""
    try:
        found = parse_text(text)
    except cst.ParserSyntaxError as error:
        raise _syntax_error(path, text, error) from None
    if found[1] == text and _is_python(text) and (problem := refused(text)) is not None:
        raise _not_compiled(path, problem)
    return found


def without_idle_continuations(text: str) -> str:
    """The text with spaces for backslashes that continue nothing: before an empty line, or alone before a statement.

    libcst loses the latter, and what is put behind the former would be continued.
    """
    if IDLE.search(text) is None:
        return text
    kept = list(text)
    strings = None
    for found in IDLE.finditer(text):
        at = found.start(found.lastgroup or 0)
        strings = _string_spans(text) if strings is None else strings
        if not any(start <= at < end for start, end in strings):
            kept[at] = " "
    return "".join(kept)


def _string_spans(text: str) -> list[tuple[int, int]]:
    """Where strings and comments stand in the text, as offsets."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    spans = []
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(StringIO(text).readline):
            if token.type in TEXTS:
                start, end = (lines[row - 1] + column for row, column in (token.start, token.end))
                spans.append((start, end))
        return spans
    return [(0, len(text))]


def parse_notebook(data: bytes, path: str) -> Module:
    """Parse the Python cells of a notebook as one module, without those that are no Python.

    InputError when a cell that trains is one of them.
    """
    notebook = read_notebook(data, path)
    _check_size(notebook.text, path)
    _check_depth(notebook.text, path)
    try:
        tree, parsed = parse_text(notebook.text)
    except cst.ParserSyntaxError:
        notebook = _without_broken_cells(notebook, data)
        tree, parsed = parse_text(notebook.text)
    if refused(parsed, cells=True) is not None:  # each cell is a program of its own: what one alone is refused for
        notebook = _without_broken_cells(notebook, data)
        tree, parsed = parse_text(notebook.text)
    return Module(path, notebook.text, tree, parsed=parsed, notebook=notebook)


def parse_text(text: str) -> tuple[cst.Module, str]:
    """The tree of a text, and the text it was parsed from: lines of IPython's own count as statements, tabs before
    spaces as Python counts them.

    `cst.ParserSyntaxError` when it is no Python.
    """
    try:
        return cst.parse_module(text), text
    except cst.ParserSyntaxError:
        parsed = masked(text)
        spaced = _with_spaces(parsed)
        if spaced != parsed and _is_python(parsed):
            parsed = spaced
        if parsed == text:
            raise
        return cst.parse_module(parsed), parsed


def _with_spaces(text: str) -> str:
    """The text with a space for every tab that indents a line.

    libcst wants a block's indentation to begin with that around it. Python counts a tab up to the next eight columns,
    and again as one, and takes what both counts nest alike: what it takes is nested so with spaces, too.
    """
    tabs = [found.span() for found in INDENTED_BY_TABS.finditer(text)]
    strings = _string_spans(text) if tabs else []
    for start, end in tabs:
        if not any(first < start < last for first, last in strings):
            text = text[:start] + " " * (end - start) + text[end:]
    return text


def _is_python(text: str) -> bool:
    """Whether the interpreter's own parser takes a text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "x.py", "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def refused(text: str, *, cells: bool = False) -> SyntaxError | None:
    """What Python's compiler refuses of a text that its parser takes: a keyword given twice, `return` outside of a
    function, a `global` behind its name's use. Cells may `await` outside of one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "x.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if cells else 0, dont_inherit=True)
        except SyntaxError as error:
            return error
        except (ValueError, RecursionError, MemoryError):
            pass
    return None


def check_parses(text: str) -> None:
    """`cst.ParserSyntaxError` when a text is no Python. The interpreter's own parser is asked first, which is quick."""
    if not _is_python(text):
        parse_text(text)


def _without_broken_cells(notebook: Notebook, data: bytes) -> Notebook:
    """The notebook without the cells that don't parse: they can't have run. One that trains has to be mended."""
    broken: list[tuple[int, str]] = []
    for cell in notebook.cells:
        found = _broken(notebook.path, cell.source)
        if found is None:
            continue
        if "Trainer(" in cell.source or len(notebook.cells) == 1:
            place = f"{notebook.path} cell {cell.number}"
            raise InputError(found.message, place, found.line, found.column, found.fix)
        broken.append((cell.number, f"line {found.line} {found.message}"))
    return read_notebook(data, notebook.path, tuple(broken))


def _broken(path: str, source: str) -> InputError | None:
    """What is wrong with a cell that can't run."""
    try:
        parsed = parse_text(source)[1]
    except cst.ParserSyntaxError as error:
        return _syntax_error(path, masked(source), error)
    problem = refused(parsed, cells=True) if _is_python(parsed) else None
    return _not_compiled(path, problem) if problem is not None else None


def _not_compiled(path: str, error: SyntaxError) -> InputError:
    said = f"does not compile: {error.msg}"
    return InputError(said, Path(path), error.lineno, error.offset, fix="mend the syntax error")


def _check_size(text: str, path: str) -> None:
    if len(text) > LARGEST:
        size = f"{len(text) / 1e6:.1f} million characters of Python"
        raise InputError(f"has {size}: no script that trains is that long", path, fix="name the file that trains")


def _check_depth(text: str, path: str) -> bool:
    """Whether Python's own parser takes a text.

    InputError for what it calls too deep; libcst's, which has no limit, would end the process. So is what would take
    it longer than anybody waits.
    """
    is_python = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, path, "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
            is_python = True
        except SyntaxError as error:  # told in its place, unless it is this one
            if error.msg.startswith(("too many nested", "too many levels", "too many statically nested")):
                raise InputError(f"{DEEP}: {error.msg}", Path(path), error.lineno, error.offset, FLATTEN) from None
        except (RecursionError, MemoryError):
            raise InputError(DEEP, Path(path), fix=FLATTEN) from None
        except ValueError:
            pass
    if nesting(text) > MOST:
        raise InputError(DEEP, Path(path), fix=FLATTEN)
    return is_python


def _syntax_error(path: str, text: str, error: cst.ParserSyntaxError) -> InputError:
    """What is wrong and where. The interpreter's own parser says it better, unless it is too old to see it."""
    message, line, column = error.message.splitlines()[0], error.editor_line, error.editor_column
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, path, "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
        except SyntaxError as better:
            message, line, column = better.msg, better.lineno or line, better.offset or column
        except (ValueError, RecursionError, MemoryError):
            pass
    return InputError(f"does not parse: {message}", Path(path), line, column, fix="mend the syntax error")
