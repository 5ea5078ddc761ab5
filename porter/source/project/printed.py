"""Releases that a notebook's cells print (`print("TRL:", trl.__version__)`), read in the outputs it was saved with.

So are those that a library prints of itself and of others: Unsloth's `Fast Llama patching. Transformers: 4.47.1.` What
some releases alone print tells that it was one of these: the progress bar `Loading weights` is of transformers 5.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from typing import Any

from ...releases.versions import Pin, key

RELEASE = r"(\d+(?:\.\d+)+)[\w.+]*"
FIGURE_SPACE = "\N{FIGURE SPACE}"  # which tqdm puts into the texts of its widgets
TEXT = r"""(?P<quote>["'])(?P<before>(?:(?!(?P=quote))[^{}\\\n])*)"""


@dataclass(frozen=True)
class Shown:
    """What a library (`by`) prints of releases: each group of `pattern` is named after the library whose release it is.

    It stands in a notebook's outputs; with `file` in the files of that name which its runs leave. A `pattern` without
    groups is what those releases of `library` alone print that `pins` names. `saved_with`: the file comes with models
    that are fetched, too; one of a run has one of these beside it, or lies where the script does. `names_script`: the
    file beside it that names the script whose run it was.
    """

    by: str
    pattern: re.Pattern[str]
    file: str = ""
    library: str = ""
    pins: tuple[Pin, ...] = ()
    saved_with: tuple[str, ...] = ()
    names_script: str = ""

    @property
    def where(self) -> str:
        return f"what {self.by} printed"

    def release(self, text: str, library: str) -> str | None:
        """The release of `library` that a text names; the last of several."""
        if library not in self.pattern.groupindex:
            return None
        found = [match[library] for match in self.pattern.finditer(text) if match[library]]
        return found[-1] if found else None


def shown_by(raw: str, library: str, shown: Sequence[Shown]) -> Iterator[tuple[str, str]]:
    """Who printed a release of `library` into a notebook's outputs, and which: `what Unsloth printed`, 2024.12.12."""
    for each in shown:
        if not each.file and library in each.pattern.groupindex and each.by in raw:
            if (release := each.release(_outputs(raw), library)) is not None:
                yield each.where, release


def told_by(raw: str, library: str, shown: Sequence[Shown]) -> tuple[str, list[Pin]] | None:
    """Whose lines of a notebook's outputs only some releases of `library` print, and which: `what transformers
    printed`, >=5.0 and <5.3. None where nothing tells, or where runs of several releases have left their lines.
    """
    rows = [each for each in shown if each.library == library and not each.file]
    found = [each for each in rows if each.pattern.search(_outputs(raw))] if rows else []
    pins = list(dict.fromkeys(pin for each in found for pin in each.pins))
    least = max((pin for pin in pins if pin[0] == ">="), key=lambda pin: key(pin[1]), default=None)
    most = min((pin for pin in pins if pin[0] == "<"), key=lambda pin: key(pin[1]), default=None)
    if not pins or (least and most and key(least[1]) >= key(most[1])):
        return None
    return found[0].where, [pin for pin in (least, most) if pin is not None]


def numbers_by(raw: str, patterns: Sequence[str]) -> dict[str, frozenset[int]]:
    """The whole numbers that a notebook's outputs show, by the groups of `patterns` that name them."""
    found: dict[str, set[int]] = {}
    for pattern in patterns:
        for match in re.finditer(pattern, _outputs(raw)):
            for name, text in match.groupdict().items():
                if text:
                    found.setdefault(name, set()).add(int(text.replace(",", "")))
    return {name: frozenset(numbers) for name, numbers in found.items()}


def left_by(runs: Sequence[tuple[str, str]], library: str, shown: Sequence[Shown]) -> Iterator[tuple[str, str]]:
    """The files that runs have left, each where it lies and what it holds, that name a release of `library`."""
    for where, held in runs:
        rows = (each for each in shown if each.file and fnmatch(where, f"*{each.file}"))
        release = next((found for each in rows if (found := each.release(held, library)) is not None), None)
        if release is not None:
            yield where, release


@lru_cache(maxsize=4)
def _outputs(raw: str) -> str:
    """All that the cells of a notebook have printed, its tables and progress bars too; nothing of another text."""
    try:
        notebook = json.loads(raw)
        cells = [cell.get("outputs") for cell in notebook["cells"]]
        texts = (text for outputs in cells for text in (*texts_of(outputs), *tables_of(outputs)))
        return "\n".join([*texts, *_widgets(notebook)])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def _widgets(notebook: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a notebook's widgets, such as both ends of a progress bar: Colab keeps them one by one, Jupyter in
    a `state`."""
    held = _inner(_inner(_inner(notebook, "metadata"), "widgets"), "application/vnd.jupyter.widget-state+json")
    for name in {**held, **_inner(held, "state")}:
        value = _inner(_inner(held if name in held else _inner(held, "state"), name), "state").get("value")
        if isinstance(value, str):
            yield html.unescape(value).replace(FIGURE_SPACE, " ")


def _inner(held: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = held.get(name)
    return found if isinstance(found, dict) else {}


def printed_by(raw: str, library: str) -> str | None:
    """The release of `library` that a notebook's outputs show where a cell prints it; the last of several.

    It is the one that the cells ran on, whatever was installed in front. None of a text that is no notebook's.
    """
    if f"{library}.__version__" not in raw:
        return None
    try:
        cells = json.loads(raw)["cells"]
        shown = [found for cell in cells if (found := _of_cell(cell, library))]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return shown[-1] if shown else None


def _of_cell(cell: dict[str, object], library: str) -> str | None:
    """The release in one cell's outputs, behind the words that its code prints in front of it."""
    source = _joined(cell.get("source"))
    if cell.get("cell_type") != "code" or f"{library}.__version__" not in source:
        return None
    text = "\n".join(texts_of(cell.get("outputs")))
    for before in _words(source, library):
        found = re.findall(rf"(?m)^{re.escape(before)}{RELEASE}(?=[\s'\")\],;]|$)", text)
        if len(set(found)) == 1:
            return str(found[0])
    return None


def _words(source: str, library: str) -> Iterator[str]:
    """What the output's line has in front of the release: of `print("TRL:", trl.__version__)` "TRL: "."""
    name = rf"{re.escape(library)}\.__version__"
    start = r"(?m)^[ \t]*print\([ \t]*"
    for line in re.finditer(rf"{start}[fF]{TEXT}\{{{name}\}}", source):
        yield line["before"]
    for line in re.finditer(rf"{start}{TEXT}(?P=quote)[ \t]*,[ \t]*{name}[ \t]*[,)]", source):
        yield f"{line['before']} "
    if re.search(rf"{start}{name}[ \t]*\)", source):
        yield ""
    if re.search(rf"(?m)^{name}[ \t]*\Z", source.rstrip()):
        yield "'"


def texts_of(outputs: object) -> Iterator[str]:
    """What a cell has printed, and what it shows as text."""
    for output in outputs if isinstance(outputs, list) else ():
        data = output.get("data", {})
        yield _joined(output.get("text")) + _joined(data.get("text/plain"))


def tables_of(outputs: object) -> Iterator[str]:
    """What a cell shows as HTML: the table of a training's losses."""
    for output in outputs if isinstance(outputs, list) else ():
        yield _joined(output.get("data", {}).get("text/html"))


def _joined(text: object) -> str:
    return "".join(text) if isinstance(text, list) else text if isinstance(text, str) else ""
