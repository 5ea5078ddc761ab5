"""Import statements as data, and the names that generated code uses."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class NewImport:
    """`import module as alias` (no name) or `from module import name as alias`."""

    module: str
    name: str = ""
    alias: str = ""

    @property
    def bound(self) -> str:
        """The name that the import binds."""
        return self.alias or self.name or self.module.split(".", 1)[0]

    @property
    def clause(self) -> str:
        return f"{self.name or self.module} as {self.alias}" if self.alias else self.name or self.module


def parse_import(text: str) -> NewImport:
    """`import jax.numpy as jnp` or `from tunix.sft.peft_trainer import PeftTrainer` as a NewImport."""
    match = re.fullmatch(r"(?:from (\S+) )?import (\S+)(?: as (\S+))?", text)
    if match is None:
        raise ValueError(f"not one import: {text!r}")
    module, name, alias = match.groups()
    return NewImport(module, name, alias or "") if module else NewImport(name, "", alias or "")


@dataclass
class ImportLine:
    """One import statement of the section: the text it had, and the clauses that stay or come."""

    module: str
    clauses: list[str]
    plain: bool
    text: str | None = None
    group: int = 0

    @property
    def key(self) -> tuple[int, str, str]:
        return (0 if self.plain else 1, self.module.lower(), ",".join(self.clauses))

    def render(self, indent: str, newline: str, step: str) -> str:
        if self.text is not None:
            return self.text
        if self.plain:
            return f"import {', '.join(self.clauses)}"
        ordered = sorted(set(self.clauses), key=_member_order)
        line = f"from {self.module} import {', '.join(ordered)}"
        if len(indent) + len(line) <= 120:
            return line
        inner = "".join(f"{indent}{step}{clause},{newline}" for clause in ordered)
        return f"from {self.module} import ({newline}{inner}{indent})"


def _member_order(clause: str) -> tuple[bool, bool, str]:
    """CONSTANTS, then Classes, then functions, as isort orders names."""
    return (not clause.isupper(), not clause[:1].isupper(), clause.lower())


STRING = re.compile(
    r"""(?<!\w)(?P<prefix>[a-zA-Z]{0,2})("{3}.*?"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|#[^\n]*""",
    re.DOTALL,
)


def names_in(code: str) -> str:
    """Code without its comments and strings; f-strings stay, since they hold names."""
    return STRING.sub(lambda match: match[0] if "f" in (match["prefix"] or "").lower() else " ", code)
