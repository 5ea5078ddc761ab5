"""Jupyter notebooks: the code of all cells as one module, and the module's edits back in their cells.

The file's own text is kept: only the sources, outputs and execution counts of cells that an edit touched are written
anew, in the file's own layout, so every other byte of the notebook stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from .magics import is_python

if TYPE_CHECKING:
    from ...text.edit import Edit

OLDEST = 4  # nbformat 4 has `cells` at the top; 3 had worksheets
SEPARATOR = "\n\n"
SPACE = re.compile(r"[ \t\r\n]*")
COLAB_TPU = "V5E1"  # Colab's name of a machine with one TPU v5e chip


@dataclass(frozen=True)
class Span:
    """A value in the file's text."""

    start: int
    end: int


@dataclass(frozen=True)
class Cell:
    """A cell of Python: its number among all cells (from 1), its source, and where that stands in the module's text.

    `marker` is the offset of the line that heads the cell there; `source`'s own offsets are `start` and `end`.
    `values` are the spans of its members in the file.
    """

    number: int
    source: str
    marker: int
    start: int
    values: dict[str, Span]

    @property
    def end(self) -> int:
        return self.start + len(self.source)


@dataclass(frozen=True)
class Notebook:
    """A notebook as read: the file's text, its Python cells, and the module's text that they make up.

    `skipped` are the cells that are no Python (number, why): they can't run, and stay as they are. `others` are the
    cells of code in another language (number, source), that of a cell magic such as `%%bash`. `items` are the spans of
    all cells in the file.
    """

    path: str
    raw: str
    cells: tuple[Cell, ...]
    text: str
    skipped: tuple[tuple[int, str], ...] = ()
    others: tuple[tuple[int, str], ...] = ()
    items: tuple[Span, ...] = ()

    def place(self, line: int) -> tuple[int, int]:
        """The cell and the line in it (both from 1) of a line of the module's text."""
        found, first = self.cells[0].number, 2
        position = 0
        for cell in self.cells:
            position = self.text.count("\n", 0, cell.start) + 1
            if position > line + 1:
                break
            found, first = cell.number, position
        return found, max(1, line - first + 1)

    def written(self, edits: Sequence[Edit]) -> str:
        """The file's text with the module's edits in their cells; a changed cell loses its outputs and its count, one
        of which nothing is left goes."""
        gone = self.emptied(edits)
        changes = [(span, "") for span in self._without(gone)]
        for cell in self.cells:
            source = self._ported(cell, edits)
            if source == cell.source or cell.number in gone:
                continue
            span = cell.values["source"]
            changes.append((span, self._source_text(self.raw[span.start : span.end], source, span.start)))
            for name, empty in (("outputs", "[]"), ("execution_count", "null")):
                if name in cell.values:
                    changes.append((cell.values[name], empty))
        if changes:
            changes += _colab_changes(self.raw)
        text = self.raw
        for span, new in sorted(changes, key=lambda change: -change[0].start):
            text = text[: span.start] + new + text[span.end :]
        return text

    def emptied(self, edits: Sequence[Edit]) -> frozenset[int]:
        """The numbers of the cells of which the edits leave nothing."""
        return frozenset(cell.number for cell in self.cells if not self._ported(cell, edits).strip())

    def _without(self, gone: frozenset[int]) -> Iterator[Span]:
        """What goes of the file's text with these cells: each with the comma that parts it from those that stay."""
        first = next((number for number, _ in enumerate(self.items, 1) if number not in gone), 1)
        if first > 1:
            yield Span(self.items[0].start, self.items[first - 1].start)
        for number in sorted(gone):
            if number > first:
                yield Span(self.items[number - 2].end, self.items[number - 1].end)

    def _ported(self, cell: Cell, edits: Sequence[Edit]) -> str:
        """The cell's source with those edits that begin in it."""
        later = [other.marker for other in self.cells if other.marker > cell.marker]
        first, last = (0 if cell is self.cells[0] else cell.marker), (min(later) if later else len(self.text) + 1)
        text = cell.source + SEPARATOR
        mine = sorted((e for e in edits if first <= e.start < last), key=lambda edit: (edit.start, edit.end))
        if not mine:
            return cell.source
        for edit in reversed(mine):
            start = min(max(edit.start - cell.start, 0), len(text))
            end = min(max(edit.end - cell.start, start), len(text))
            text = text[:start] + edit.new + text[end:]
        if not cell.source.startswith("\n"):
            text = text.lstrip("\n")
        if text.endswith(SEPARATOR):
            return text.removesuffix(SEPARATOR)
        return text.rstrip("\n") + ("\n" if cell.source.endswith("\n") else "")

    def _source_text(self, old: str, source: str, offset: int) -> str:
        """A source as JSON in the layout of `old`: one string, or a list of lines as the file sets its lists."""
        ascii_only = self.raw.isascii() and re.search(r"\\u(?!00[01])[0-9a-fA-F]{4}", self.raw) is not None

        def quoted(text: str) -> str:
            return json.dumps(text, ensure_ascii=ascii_only)

        if not old.startswith("["):
            return quoted(source)
        lines = source.splitlines(keepends=True)
        if not lines:
            return "[]"
        layout = re.match(r"\[(\s*)\"", old)
        space = layout[1] if layout else self._item_space(offset)
        closing = re.search(r"\"(\s*)\]$", old)
        end = closing[1] if closing else re.sub(r" $|\t$", "", space)
        between = f",{space}" if "\n" in space else ", "
        return f"[{space}{between.join(quoted(line) for line in lines)}{end}]"

    def _item_space(self, offset: int) -> str:
        """The white space before an item of a list that was empty: a level deeper than the line it stands on."""
        begin = self.raw.rfind("\n", 0, offset) + 1
        indent = re.match(r"[ \t]*", self.raw[begin:offset])
        step = re.match(r"\{\r?\n([ \t]+)", self.raw)
        return f"\n{indent[0] if indent else ''}{step[1]}" if step else ""


def read_notebook(data: bytes, path: str, skipped: tuple[tuple[int, str], ...] = ()) -> Notebook:
    """The notebook in `data`, without the cells `skipped`.

    InputError when it is none, is of an old format or another language, or has no code.
    """
    file = Path(path)
    try:
        raw = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"is no notebook: not UTF-8 ({error})", file, fix="save it again with Jupyter") from None
    try:
        document = json.loads(raw.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:  # a whole number may be too long, too
        line, column = getattr(error, "lineno", None), getattr(error, "colno", None)
        said = "nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", "a number too long")
        raise InputError(f"is no notebook: broken JSON: {said}", file, line, column, "mend the file") from None
    _check(document, file)
    start = SPACE.match(raw, 1 if raw.startswith("\ufeff") else 0)
    top = dict(_members(raw, start.end() if start else 0))
    cells, others, parts, offset = [], [], [], 0
    items = tuple(_items(raw, top["cells"].start))
    for number, span in enumerate(items, start=1):
        cell = document["cells"][number - 1]
        source = _source(cell, number, file)
        values = dict(_members(raw, span.start))
        is_code = cell.get("cell_type") == "code" and bool(source.strip())
        if is_code and not is_python(source):
            others.append((number, source))
            continue
        if not is_code or any(number == other for other, _ in skipped):
            continue
        marker = f"# %% [cell {number}]\n"
        cells.append(Cell(number, source, offset, offset + len(marker), values))
        parts.append(f"{marker}{source}{SEPARATOR}")
        offset += len(parts[-1])
    if not cells:
        raise InputError("has no cell of Python", file, fix="name the notebook that trains")
    return Notebook(path, raw, tuple(cells), "".join(parts), skipped, tuple(others), items)


def _check(document: Any, file: Path) -> None:
    if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
        old = isinstance(document, dict) and "worksheets" in document
        said = "is a notebook of format 3" if old else "is no notebook: it has no list of cells"
        raise InputError(said, file, fix="open and save it with Jupyter" if old else "name a notebook")
    version = document.get("nbformat", OLDEST)
    if not isinstance(version, int) or version < OLDEST:
        raise InputError(f"is a notebook of format {version}", file, fix="open and save it with Jupyter")
    kernel = _text_in(document, "metadata", "language_info", "name")
    kernel = kernel or _text_in(document, "metadata", "kernelspec", "language")
    if kernel and "python" not in str(kernel).lower():
        raise InputError(f"is a notebook in {kernel}, not Python", file, fix="name a Python notebook")


def _text_in(document: Any, *keys: str) -> str:
    """The text at a path of keys; empty where something else is there."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, str) else ""


def _source(cell: Any, number: int, file: Path) -> str:
    source = cell.get("source") if isinstance(cell, dict) else None
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise InputError(f"is no notebook: cell {number} has no source", file, fix="open and save it with Jupyter")
    if not source.isascii() and re.search("[\ud800-\udfff]", source):
        raise InputError(f"is no notebook: cell {number} has half a character", file, fix="save it again with Jupyter")
    return source


def _members(text: str, start: int) -> Iterator[tuple[str, Span]]:
    """The keys and values' spans of the JSON object at `start`."""
    decode = json.JSONDecoder().raw_decode
    index = _skip(text, start + 1)
    while text[index] != "}":
        key, index = decode(text, index)
        index = _skip(text, _skip(text, index) + 1)  # the colon
        _, end = decode(text, index)
        yield key, Span(index, end)
        index = _skip(text, end)
        index = _skip(text, index + 1) if text[index] == "," else index


def _items(text: str, start: int) -> Iterator[Span]:
    """The spans of the values of the JSON array at `start`."""
    decode = json.JSONDecoder().raw_decode
    index = _skip(text, start + 1)
    while text[index] != "]":
        _, end = decode(text, index)
        yield Span(index, end)
        index = _skip(text, end)
        index = _skip(text, index + 1) if text[index] == "," else index


def _skip(text: str, index: int) -> int:
    space = SPACE.match(text, index)
    return space.end() if space else index


def _colab_changes(raw: str) -> Iterator[tuple[Span, str]]:
    """A Colab notebook that asks for a GPU machine asks for a TPU one."""
    top = dict(_members(raw, raw.index("{")))
    metadata = top.get("metadata")
    if metadata is None or raw[metadata.start] != "{":
        return
    inner = dict(_members(raw, metadata.start))
    accelerator = inner.get("accelerator")
    if accelerator is None or raw[accelerator.start : accelerator.end] != '"GPU"':
        return
    yield accelerator, '"TPU"'
    colab = inner.get("colab")
    if colab is not None and raw[colab.start] == "{":
        kind = dict(_members(raw, colab.start)).get("gpuType")
        if kind is not None:
            yield kind, f'"{COLAB_TPU}"'
