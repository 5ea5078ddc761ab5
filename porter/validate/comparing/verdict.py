"""The answer of a validation: plain data, JSON in and out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["equal", "differs", "skipped"]
DERIVED = ("equal", "first_divergence", "verdict", "reason", "help", "table")


@dataclass(frozen=True)
class Check:
    """One quantity that was compared.

    `measured` and `tolerance` are in the quantity's own unit, None where the comparison is exact. `step` counts
    from 1. `detail` says what was found, `cause` what most likely made the difference. `line`: of the script that the
    detail speaks of, None where it isn't known; in a notebook that of its cell `cell`.
    """

    name: str
    status: Status
    detail: str
    measured: float | None = None
    tolerance: float | None = None
    step: int | None = None
    cause: str = ""
    line: int | None = None
    cell: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What a validation found.

    `notes` say on what the two scripts ran and what was changed for it: model, data, precision, processes.
    `stood_in` and `not_compared` are those of them that tell what stood in for what the scripts ask for, and what the
    verdict says nothing about. `source_losses` and `port_losses` are the curves, one value a step; `meshes` the losses
    of the port on other meshes. `output`: the end of what a port that crashed printed. Times are in seconds.
    """

    source: str
    port: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    source_losses: tuple[float, ...] = ()
    port_losses: tuple[float, ...] = ()
    meshes: tuple[tuple[str, tuple[float, ...]], ...] = ()
    seconds: float = 0.0
    seconds_source: float = 0.0
    seconds_port: float = 0.0
    stood_in: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    output: str = ""

    @property
    def equal(self) -> bool:
        """True when something was compared and nothing differs. A verdict without a loss compared is never equal."""
        compared = {check.name for check in self.checks if check.status == "equal"}
        return "loss of every step" in compared and not any(check.status == "differs" for check in self.checks)

    @property
    def first_divergence(self) -> Check | None:
        """The first check, in the order of the comparison, that differs."""
        return next((check for check in self.checks if check.status == "differs"), None)

    @property
    def exit_code(self) -> int:
        return 0 if self.equal else 3

    @property
    def table(self) -> dict[str, list[str]]:
        """What was compared, what stood in, and what was not compared, in that order; each a list of lines."""
        compared = [f"{check.name}: {check.status}" for check in self.checks if check.status != "skipped"]
        skipped = [f"{check.name}: {check.detail}" for check in self.checks if check.status == "skipped"]
        return {"compared": compared, "stood in": [*self.stood_in], "not compared": [*skipped, *self.not_compared]}

    def to_json(self) -> str:
        """The verdict as indented JSON, with `equal`, the first divergence, its reason and the table spelled out."""
        first = self.first_divergence
        derived: dict[str, Any] = {
            "equal": self.equal,
            "first_divergence": first.name if first else None,
            "verdict": "equal" if self.equal else "differs",
            "reason": "" if self.equal else _reason(first),
            "help": first.cause if first else "",
        }
        return json.dumps({**derived, **asdict(self), "table": self.table}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        """Read what `to_json` wrote. ValueError when the text is no verdict."""
        try:
            data = json.loads(text)
            if data.get("verdict") == "none":
                raise ValueError(f"there was no verdict: {data.get('reason')}")
            data = {name: value for name, value in data.items() if name not in DERIVED}
            data["checks"] = tuple(Check(**check) for check in data["checks"])
            for name in ("notes", "source_losses", "port_losses", "stood_in", "not_compared"):
                data[name] = tuple(data.get(name, ()))
            data["meshes"] = tuple((name, tuple(losses)) for name, losses in data["meshes"])
            return cls(**data)
        except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"not a verdict: {error}") from error


@dataclass(frozen=True)
class NoVerdict:
    """Why two scripts could not be compared: what happened, and the one thing that would help.

    `output`: the end of what the script printed. Times are in seconds.
    """

    source: str
    port: str
    reason: str
    help: str = ""
    notes: tuple[str, ...] = ()
    output: str = ""
    seconds_source: float = 0.0
    seconds_port: float = 0.0

    def to_json(self) -> str:
        """The same keys as a verdict's, `verdict` being "none"."""
        keys: dict[str, Any] = {"equal": False, "first_divergence": None, "verdict": "none"}
        empty: dict[str, Any] = {"checks": [], "source_losses": [], "port_losses": [], "meshes": []}
        seconds = self.seconds_source + self.seconds_port
        rest = {"seconds": seconds, "stood_in": [], "not_compared": [], "table": {}}
        return json.dumps({**keys, **asdict(self), **empty, **rest}, indent=2)


def distinct(lines: Iterable[str]) -> tuple[str, ...]:
    """The lines in their order, each once."""
    return tuple(dict.fromkeys(lines))


def _reason(first: Check | None) -> str:
    if first is None:
        return "no loss was compared"
    step = f" (step {first.step})" if first.step is not None else ""
    return f"{first.name}{step}: {first.detail}"
