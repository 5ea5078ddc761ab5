"""The envelope's runs where there is no second GPU run: the script on a tiny model of its family, by `validate`.

They train in bf16 and in float32 by turns. The first two have the same adapters and dropout masks and show what
rounding does, the others draw their own and show what chance does. They run as long as the logs, up to `MOST_STEPS`.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import InputError
from ..validate.comparing.trace import Trace
from ..validate.options import Options
from ..validate.run import processes_of, run_source
from ..validate.running.processes import RunFailed
from .envelope import MOST_STEPS
from .logs.log import Line, Log, Value


def stand_in_runs(
    source: Path, *, runs: int, launch_config: Path | None, timeout: float, say: Callable[[str], None]
) -> Callable[[int], Sequence[Log]]:
    """What `compare` asks for logs of the recipe. InputError when the script can't be run."""
    if not source.is_file():
        raise InputError(
            "no such file" if not source.exists() else "is no file", source, fix="name the GPU run's script"
        )

    def measured(steps: int) -> Sequence[Log]:
        traces = _traces(source, runs, launch_config, timeout, min(steps, MOST_STEPS), say)
        return [_log(source, trace, _chance(number)) for number, trace in enumerate(traces)]

    return measured


def _traces(
    source: Path, runs: int, launch_config: Path | None, timeout: float, steps: int, say: Callable[[str], None]
) -> list[Trace]:
    processes = processes_of(source, launch_config)
    say(f"tpu-port: runs {source}")
    found = []
    for number, dtype in zip(range(runs), itertools.cycle(("bf16", "float32")), strict=False):
        options = Options(
            steps=steps,
            dtype="bf16" if dtype == "bf16" else "float32",
            timeout=timeout,
            processes=processes,
            chance=_chance(number),
        )
        say(f"envelope: run {number + 1} of {runs}, {dtype}")
        with tempfile.TemporaryDirectory(prefix="tpu-port-compare-") as work:
            try:
                trace, _ = run_source(source, options, work, say)
            except RunFailed as failure:
                last = failure.output.rstrip().splitlines()[-1:] or [""]
                raise InputError(
                    f"can't be run for the envelope: {failure.reason}: {last[0][:200]}", source,
                    fix="tpu-port validate says more; or measure on a second GPU run: --second LOG",
                ) from failure  # fmt: skip
        found.append(trace)
    return found


def _chance(number: int) -> int:
    return max(1, number)


def _log(source: Path, trace: Trace, chance: int) -> Log:
    lines = tuple(
        Line(number, number - 1, Value(step.loss))
        for number, step in enumerate(trace.steps, 1)
        if step.loss is not None and step.loss == step.loss
    )
    return Log(str(source), "a run on a stand-in", lines, notes=tuple(trace.notes), chance=chance)
