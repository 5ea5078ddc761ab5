"""The answer of a validation: plain data, JSON in and out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["equal", "differs", "skipped"]


@dataclass(frozen=True)
class Check:
    """One quantity that was compared.

    `measured` and `tolerance` are in the quantity's own unit, None where the comparison is exact. `step` counts
    from 1. `detail` says what was found, `cause` what most likely made the difference.
    """

    name: str
    status: Status
    detail: str
    measured: float | None = None
    tolerance: float | None = None
    step: int | None = None
    cause: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a validation found.

    `notes` say on what the two scripts ran and what was changed for it: model, data, precision, processes.
    `source_losses` and `port_losses` are the curves, one value a step; `meshes` the losses of the port on other meshes.
    """

    source: str
    port: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    source_losses: tuple[float, ...] = ()
    port_losses: tuple[float, ...] = ()
    meshes: tuple[tuple[str, tuple[float, ...]], ...] = ()
    seconds: float = 0.0

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

    def to_json(self) -> str:
        """The verdict as indented JSON, with `equal` and the first divergence spelled out."""
        first = self.first_divergence
        data: dict[str, Any] = {"equal": self.equal, "first_divergence": first.name if first else None}
        return json.dumps({**data, **asdict(self)}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        """Read what `to_json` wrote. ValueError when the text is no verdict."""
        try:
            data = json.loads(text)
            del data["equal"], data["first_divergence"]
            data["checks"] = tuple(Check(**check) for check in data["checks"])
            for name in ("notes", "source_losses", "port_losses"):
                data[name] = tuple(data[name])
            data["meshes"] = tuple((name, tuple(losses)) for name, losses in data["meshes"])
            return cls(**data)
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"not a verdict: {error}") from error
