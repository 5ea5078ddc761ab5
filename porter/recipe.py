"""The Recipe: what a training script means, between reading rules and writing rules.

Reading rules fill it, writing rules and every other command read it. It holds no syntax trees: a
`Value` carries source code as text. Everything here is a plain frozen dataclass that goes to JSON
and back.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

Kind = Literal["literal", "expression", "default", "unknown"]
Fate = Literal["exact", "changed", "dropped", "manual"]
CARRIED = ("exact", "changed")  # the fates of what the port has
Severity = Literal["error", "warning", "info"]


def literal_code(value: object) -> str:
    """The Python literal of a value, `float("inf")` for what has none; `read_literal` reads it back."""
    match value:
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case list():
            return f"[{', '.join(map(literal_code, value))}]"
        case tuple():
            return f"({', '.join(map(literal_code, value))}{',' if len(value) == 1 else ''})"
        case dict():
            return "{" + ", ".join(f"{literal_code(key)}: {literal_code(item)}" for key, item in value.items()) + "}"
    return repr(value)


def read_literal(code: str) -> Any:
    """The object of a literal. ValueError or SyntaxError when it is none."""
    found = _literal(code)
    return deepcopy(found) if isinstance(found, list | dict | set | tuple) else found


@lru_cache(4096)
def _literal(code: str) -> Any:
    if "float(" not in code:
        return ast.literal_eval(code)
    return ast.literal_eval(_Floats().visit(ast.parse(code, mode="eval")))


class _Floats(ast.NodeTransformer):
    """`float("inf")` and its kin as the numbers that they are."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(ast.Name("float"), [ast.Constant(str(text))], []) if text in ("inf", "-inf", "nan"):
                return ast.copy_location(ast.Constant(float(text)), node)
        return node


@dataclass(frozen=True)
class Origin:
    """Where a value was read: file, line and column (both from 1), and the rule that read it."""

    file: str
    line: int
    column: int
    rule: str = ""


@dataclass(frozen=True)
class Value:
    """One hyper-parameter as the source gives it.

    `literal`: known now, `code` is its Python literal. `expression`: `code` is evaluated when the ported
    script runs. `default`: the source left it out, `code` is the default of the source's library version.
    `unknown`: a finding says why. `text` is how the source writes it (`LR` where `code` is `0.0002`).
    """

    kind: Kind
    code: str
    origin: Origin | None = None
    text: str = ""

    @property
    def known(self) -> bool:
        """Whether the value is certain at port time (literal or default)."""
        return self.kind in ("literal", "default")

    @property
    def literal(self) -> Any:
        """The Python object of a known value; ValueError for the others."""
        if not self.known:
            raise ValueError(f"{self.code!r} is decided when the script runs")
        return read_literal(self.code)

    def is_literal(self, *objects: Any) -> bool:
        """Whether the value is known and equals one of `objects`, type included."""
        if not self.known:
            return False
        got = self.literal
        return any(type(got) is type(want) and got == want for want in objects)


@dataclass(frozen=True)
class Field:
    """What a rule says will become of one keyword of the source: owed, until what is written shows it."""

    source: str
    value: str
    fate: Fate
    target: str
    reason: str
    rule: str
    line: int
    column: int


@dataclass(frozen=True)
class Place:
    """A line of the port: its number (from 1) and its text; `file` where it isn't the file of the keyword's own."""

    line: int
    text: str
    file: str = ""


@dataclass(frozen=True)
class Receipt(Field):
    """The fate of one keyword, settled: a row of the review table.

    `places` are the port's lines that have its value, the first of them its own: without one, nothing is `exact` or
    `changed`, and ValueError says so.
    """

    places: tuple[Place, ...] = ()

    def __post_init__(self) -> None:
        if self.fate in CARRIED and not self.places:
            raise ValueError(f"{self.source} can't be {self.fate}: no line of the port has its value")


@dataclass(frozen=True)
class Finding:
    """Something a person must know or do, at its place in the source (line and column from 1)."""

    rule: str
    severity: Severity
    message: str
    fix: str
    line: int
    column: int


@dataclass(frozen=True)
class Recipe:
    """One training recipe.

    `values` maps places such as `optimizer.learning_rate` to what the source says of them; the field tables
    under `rules/` name every place. `versions` are the source libraries' versions that chose the defaults,
    each with how it was found ("1.16.0 (newest table)"). `others` are the recipes of the file's further trainers,
    without fields and findings: those of the whole file stand here.
    """

    source: str
    trainer: str | None = None
    target: str | None = None
    family: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    fields: tuple[Receipt, ...] = ()
    findings: tuple[Finding, ...] = ()
    others: tuple[Recipe, ...] = ()

    def get(self, place: str) -> Value | None:
        """The value at `place`, or None when no rule has filled it."""
        return self.values.get(place)

    def known(self, place: str, fallback: Any = None) -> Any:
        """The Python object at `place` when it is certain at port time, else `fallback`."""
        value = self.values.get(place)
        return value.literal if value is not None and value.known else fallback

    def with_values(self, values: Mapping[str, Value]) -> Recipe:
        """A copy in which `values` are added to (and win over) those already there."""
        return replace(self, values={**self.values, **values})

    def with_findings(self, findings: Iterable[Finding]) -> Recipe:
        """A copy with `findings` among its own, by their lines."""
        return replace(self, findings=tuple(sorted((*self.findings, *findings), key=lambda each: each.line)))

    def to_json(self) -> str:
        """The recipe as indented JSON; `from_json` reads it back, equal."""
        return json.dumps(asdict(self), indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Read what `to_json` wrote. ValueError when the text is no recipe.

        Rows that name no line of the port though they would have one, as recipes of older versions do, are left out.
        """
        try:
            return cls._from_data(json.loads(text))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not a recipe: {error}") from error

    @classmethod
    def _from_data(cls, data: dict[str, Any]) -> Recipe:
        values = {place: _value(row) for place, row in data.pop("values").items()}
        rows = data.pop("fields")
        fields = tuple(_receipt(row) for row in rows if row["fate"] not in CARRIED or row.get("places"))
        findings = tuple(Finding(**row) for row in data.pop("findings"))
        others = tuple(cls._from_data(row) for row in data.pop("others", ()))
        return cls(values=values, fields=fields, findings=findings, others=others, **data)


def _value(row: dict[str, Any]) -> Value:
    origin = row.get("origin")
    return Value(row["kind"], row["code"], Origin(**origin) if origin else None, row.get("text", ""))


def _receipt(row: dict[str, Any]) -> Receipt:
    return Receipt(**{**row, "places": tuple(Place(**place) for place in row.get("places", ()))})
