"""What both observers are told: one small JSON file per run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Dtype = Literal["float32", "bf16"]


@dataclass(frozen=True)
class Settings:
    """How a script is to be run.

    `work` is a folder shared by all runs of one validation: stand-ins and redirected outputs live there.
    `model` replaces every model that the script loads, `data` every dataset. `mesh` is (fsdp, tp) or None for the
    script's own. `fold` processes become one: the source's per-device batch is multiplied, the port's batches are made
    for one process. `initial` is the trace whose weights to start from.
    `kv_heads` sizes the stand-in model, `sources` are the texts of both scripts, from which made-up rows get columns.
    """

    work: str
    steps: int = 30
    dtype: Dtype = "float32"
    model: str | None = None
    data: str | None = None
    mesh: tuple[int, int] | None = None
    fold: int = 1
    initial: str | None = None
    kv_heads: int = 4
    sources: tuple[str, ...] = ()

    def save(self, path: str | Path) -> None:
        Path(path).write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Settings:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        data["mesh"] = tuple(data["mesh"]) if data["mesh"] else None
        data["sources"] = tuple(data["sources"])
        return cls(**data)
