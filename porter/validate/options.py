"""What a user can ask of a validation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .observing.settings import Dtype
from .running.copying import COPY_LIMIT

Mesh = tuple[int, int]


@dataclass(frozen=True)
class Options:
    """What a user can ask of a validation.

    `files`: (path or name, real file) pairs for files that the scripts read. `mesh`: the port's (fsdp, tp), None for
    the script's own on all devices. `meshes`: further ones on which the port must give the same losses; None for 1 and
    4 devices beside `devices`, empty for none. `hosts` > 1: in so many JAX processes, too, which share the devices, on
    the port's own mesh and with tensor parallelism between processes. `processes`: of the GPU run; `fold` runs the
    source in one process with their batches together, `real` as that many. `timeout` in seconds for each run.
    `arguments` go to both scripts. `family` stands in for models whose name tells none. `source_python` is an
    interpreter for the source; without one `environments` lets one be made for its releases. Scripts run in a copy of
    their folder of up to `copy_limit` bytes.
    `chance`: the seed of a source's own adapters and dropout masks, which it has then; without, dropout is 0.
    """

    model: Path | None = None
    data: Path | None = None
    files: tuple[tuple[str, Path], ...] = ()
    steps: int = 30
    dtype: Dtype = "float32"
    mesh: Mesh | None = None
    meshes: tuple[Mesh, ...] | None = None
    devices: int = 8
    hosts: int = 1
    processes: int = 1
    how: Literal["fold", "real"] = "fold"
    timeout: float = 900.0
    arguments: tuple[str, ...] = ()
    source_python: Path | None = None
    environments: bool = True
    copy_limit: int = COPY_LIMIT
    family: str | None = None
    chance: int | None = None


DEFAULTS = Options()
