"""Validations that several tests share: the source runs once, its ports many times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from porter.validate.comparing.trace import Trace
from porter.validate.options import Options
from porter.validate.run import ACROSS, PROCESSES, run_on_hosts, run_port, run_source

from .grpo import ours, restored, trainers  # noqa: F401 (fixtures)
from .outside import SCRIPTS


@dataclass(frozen=True)
class Recorded:
    """A source that has run: its trace, and the work folder in which ports start from its weights."""

    trace: Trace
    options: Options
    work: Path
    port: Path

    def run(self, text: str, *, steps: int, mesh: tuple[int, int] | None = None) -> Trace:
        """The trace of a port with this text."""
        folder = self.work / "ports"
        folder.mkdir(exist_ok=True)
        script = folder / f"{self.port.stem}_{len(list(folder.iterdir()))}.py"
        script.write_text(text, encoding="utf-8")
        options = replace(self.options, steps=steps, mesh=mesh or self.options.mesh)
        return run_port(script, options, str(self.work), lambda line: None)

    def run_on_hosts(self, hosts: int, *, steps: int) -> dict[str, Trace]:
        """The port's traces in several processes, as `validate --hosts` runs them, by what it calls them."""
        options = replace(self.options, hosts=hosts, devices=4, mesh=(4, 1))
        runs = run_on_hosts(self.port, self.port, options, str(self.work), lambda line: None, steps)
        for name, run in runs:
            assert isinstance(run, Trace), (name, run.reason, run.output)
        return dict(runs)

    def run_across(self, hosts: int, *, steps: int) -> dict[str, Trace]:
        """The second of them alone."""
        options = replace(self.options, hosts=hosts, devices=4, mesh=(2, 2))
        run = run_port(self.port, options, str(self.work), lambda line: None, steps=steps, across=True)
        return {ACROSS.format(PROCESSES.format(hosts)): run}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Recorded]:
    """`recorded("sft_lora_qwen3", mesh=(2, 4))`: that script's trace under TRL, made once a session."""
    made: dict[tuple[object, ...], Recorded] = {}

    def record(
        name: str, *, steps: int, mesh: tuple[int, int], processes: int = 1, model: Path | None = None
    ) -> Recorded:
        key = (name, steps, mesh, processes, model)
        if key not in made:
            work = tmp_path_factory.mktemp(name)
            options = Options(steps=steps, mesh=mesh, processes=processes, model=model)
            trace, _ = run_source(SCRIPTS / f"{name}.py", options, str(work), lambda line: None)
            made[key] = Recorded(trace, options, work, SCRIPTS / f"{name}_tunix.py")
        return made[key]

    return record
