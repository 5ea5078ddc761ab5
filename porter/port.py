"""What porting is told and what it gives: Options in, one Port out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .recipe import Finding, Receipt, Recipe
from .safety.limits import BUDGET
from .safety.masking import find_secrets, masked
from .text.edit import Edit

if TYPE_CHECKING:
    from .source.notebooks.notebook import Notebook

Status = Literal["ported", "partial", "unsupported", "unchanged", "error"]


@dataclass(frozen=True)
class Options:
    """What the command line says beside the source.

    `mesh` is text such as `fsdp=2,tp=4`; `processes` the number of GPU processes when no launch config says it;
    `rules` folders of contributed packs; `select` and `ignore` rule ids or their prefixes; `budget` the seconds of the
    processor that one script may take; `needed` the packages of the GPU's side that what lies beside the port needs;
    `imported` the names that other files of its folder import of it.
    """

    launch_config: Path | None = None
    mesh: str | None = None
    source_trl: str | None = None
    rules: tuple[Path, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    processes: int | None = None
    vendor: bool = False
    budget: float = BUDGET
    needed: frozenset[str] = frozenset()
    imported: frozenset[str] = frozenset()

    def active(self, rule: str) -> bool:
        """Whether rule `rule` takes part, by `select` and `ignore`."""
        chosen = not self.select or any(rule.startswith(prefix) for prefix in self.select)
        return chosen and not any(rule.startswith(prefix) for prefix in self.ignore)


@dataclass(frozen=True)
class Port:
    """What porting one file gave.

    `before` and `after` are the source's and the port's text (newlines as in the file); `encode` gives the bytes.
    `status`: ported (nothing left to do), partial (a person has something to decide), unsupported (a trainer
    was found that can't be ported), unchanged (nothing of ours in the file). `files` are tables that must lie
    beside the port (name → content). Of a `notebook`, the texts are its Python cells, each below `# %% [cell N]`.
    `modules` are the ports of the project's other files that the script's own needs; `beside` is the name under which
    such a one is written beside the script's, where it doesn't keep its place in a folder.
    """

    path: str
    before: str
    after: str
    status: Status
    recipe: Recipe
    edits: tuple[Edit, ...] = ()
    bom: bool = False
    encoding: str = "utf-8"
    files: tuple[tuple[str, str], ...] = ()
    notebook: Notebook | None = None
    modules: tuple[Port, ...] = ()
    beside: str = ""

    @property
    def fields(self) -> tuple[Receipt, ...]:
        return self.recipe.fields

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.recipe.findings

    @property
    def data(self) -> bytes:
        """The port as bytes, in the source's encoding, with its byte order mark."""
        if self.notebook is not None:
            return self.notebook.written(self.edits).encode()
        return (b"\xef\xbb\xbf" if self.bom else b"") + self.after.encode(self.encoding)

    def masked(self, text: str) -> str:
        """Text of the source or the port as a report shows it: without the source's secrets."""
        return masked(text, self._secrets)

    @cached_property
    def _secrets(self) -> tuple[str, ...]:
        return tuple(secret.value for secret in find_secrets(self.before))

    def place(self, line: int, column: int) -> str:
        """Where a line and column of `before` stand: `train.py:12:5`, or `train.ipynb cell 3:2:5`."""
        if self.notebook is None:
            return f"{self.path}:{line}:{column}"
        cell, line = self.notebook.place(line)
        return f"{self.path} cell {cell}:{line}:{column}"
