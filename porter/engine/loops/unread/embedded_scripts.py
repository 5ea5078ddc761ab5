"""Scripts that stand in a text: `Path("train.py").write_text("...")` of a launcher, `%%writefile train.py` of a cell.

Nothing reads what stands there, so a file that trains in that way alone is refused with the place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import libcst as cst

from ....source.module import Module
from ...packs.said_by_packs import training_libraries
from ...script.sites import facts_of
from ...script.training import Training

TRAINER = re.compile(r"\b(\w*Trainer)\(")
WRITES = re.compile(r"\s*%%(?:writefile|file)\b[ \t]*(?:-a[ \t]+)?(?P<file>\S*)")
LEAST = 200  # characters: a shorter text is no script


def embedded_script(porting: Training, rule: str) -> str | None:
    """What trains in a text of this file, recorded as a finding; None where nothing does."""
    found = next(_scripts(porting.module, training_libraries(facts_of(porting.module))), None)
    if found is None:
        return None
    name, said, line, column = found
    message = f"{said} is a script that trains ({name}), which no rule reads there."
    porting.find(rule, "error", message, "Put it into a file of its own, and port that.", line, column, todo=False)
    return name


def _scripts(module: Module, libraries: Collection[str]) -> Iterator[tuple[str, str, int, int]]:
    """What trains in each text, how the text is called, and its place."""
    for number, source in module.notebook.others if module.notebook is not None else ():
        writes = WRITES.match(source)
        if writes is not None and (name := trained_by(source, libraries)) is not None:
            yield name, f"Cell {number}, which writes {writes['file'] or 'a file'},", 1, 1
    if trained_by(module.text, libraries) is None:
        return
    for node, parent in module.parents.items():
        if isinstance(node, cst.SimpleString | cst.FormattedString) and not isinstance(parent, cst.Expr):
            code = module.code(node)
            if len(code) >= LEAST and (name := trained_by(code, libraries)) is not None:
                yield name, "The text that begins here", *module.location(node)


def trained_by(text: str, libraries: Collection[str]) -> str | None:
    """The trainer that a script's text runs beside an import of one of `libraries`, or `loss.backward()`; None for a
    text that trains nothing."""
    if re.search(rf"(?m)^[ \t]*(?:from|import)[ \t]+(?:{'|'.join(sorted(libraries))})\b", text) is None:
        return None
    if (trainer := TRAINER.search(text)) is not None and ".train(" in text:
        return trainer[1]
    return "loss.backward()" if ".backward(" in text and ".step(" in text else None
