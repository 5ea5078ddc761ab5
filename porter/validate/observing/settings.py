"""What both observers are told: one small JSON file per run."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Dtype = Literal["float32", "bf16"]

LATE = "steps took so long"  # the note of a source that stopped early begins with it


@dataclass(frozen=True)
class Settings:
    """How a script is to be run.

    `work` is a folder shared by all runs of one validation: stand-ins and redirected outputs live there.
    `model` replaces every model that the script loads, `data` every dataset. `mesh` is (fsdp, tp) or None for the
    script's own. `fold` processes become one: the source's per-device batch is multiplied, the port's batches are made
    for one process. `initial` is the trace whose weights to start from.
    `family` is the one to take for a model that no name tells, `project` the folder where other evidence of it is
    looked for, `tool_python` the interpreter that makes stand-ins, whichever one runs the script, and `preloaded` the
    socket of one that has imported the libraries.
    `hosts`: JAX processes that share the port's devices; `across` puts each pair of tensor-parallel neighbours into two
    of them. `kv_heads` sizes the stand-in model, `sources` are the texts of the source and of its project's modules,
    from which made-up rows get columns. `files` are (path or name, real file) pairs for files that the script reads,
    `columns` those that a crash asked for, with the kind of each. A source that has trained for `patience` seconds
    stops after the step that it is in, if that is its second at least. With `chance` a source keeps its
    dropout, and this is the seed of its masks and of where its adapters start.
    `remedy` is what a crash before asked for (see `remedies.py`): the error that it prevents is `ended_with`.
    `capability` is the compute capability of the GPU that the source sees, `unsloth` the release that it
    names, `unsloth_day` the day after which none was out that it was run with. `keeps_dropout`: its trainers of
    preferences had no switch for dropout, where the release that it runs on has one, on. `as_shown`: with the command
    line that its project shows for it, as it trained nothing without one.
    """

    work: str
    steps: int = 30
    dtype: Dtype = "float32"
    model: str | None = None
    data: str | None = None
    mesh: tuple[int, int] | None = None
    fold: int = 1
    initial: str | None = None
    hosts: int = 1
    across: bool = False
    kv_heads: int = 4
    family: str | None = None
    project: str | None = None
    tool_python: str = sys.executable
    preloaded: str = ""
    sources: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    columns: dict[str, Any] = field(default_factory=dict)
    patience: float | None = None
    chance: int | None = None
    remedy: str = ""
    ended_with: str = ""
    capability: tuple[int, int] = (8, 0)
    unsloth: str = ""
    unsloth_day: str = ""
    keeps_dropout: bool = False
    as_shown: bool = False

    def save(self, path: str | Path) -> None:
        Path(path).write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Settings:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        data["mesh"] = tuple(data["mesh"]) if data["mesh"] else None
        data["sources"] = tuple(data["sources"])
        data["capability"] = tuple(data["capability"])
        data["files"] = tuple((name, file) for name, file in data["files"])
        return cls(**data)
