"""Scripts with a quantised base, end to end: the original under TRL, its port under Tunix, the same losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from porter.front.port_file import port_file
from porter.port import Options as PortOptions
from porter.validate.comparing import compare as checks
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.options import Options
from porter.validate.run import run_port, run_source

from .long import long
from .outside import DIALECTS

pytestmark = pytest.mark.real

# Mistakes in the port of the classic script: what it reads instead, what is said of it.
MISTAKES = {
    "the other 4-bit format": ('quantization="nf4"', 'quantization="fp4"', "the base's format"),
    "a base in full": (', quantization="nf4"', "", "the base was not quantised"),
}

# After three steps Adam still divides tiny gradients by each other, and int8 codes may part at ties of rounding.
NOISY = {checks.GRAD_NORM, checks.WEIGHTS}


class Case:
    """A dialect's script that has run under TRL, and its port."""

    def __init__(self, name: str, work: Path, steps: int, mesh: tuple[int, int]) -> None:
        self.options, self.work = Options(steps=steps, mesh=mesh), work
        self.trace, _ = run_source(DIALECTS / f"{name}.py", self.options, str(work), lambda line: None)
        port = port_file(DIALECTS / f"{name}.py", PortOptions())
        assert [finding for finding in port.findings if finding.severity == "error"] == []
        self.port = port.after

    def run(self, text: str) -> Any:
        script = self.work / f"port_{len(list(self.work.glob('port_*')))}.py"
        script.write_text(text, encoding="utf-8")
        return run_port(script, self.options, str(self.work), lambda line: None)

    def differing(self, port: Any) -> dict[str, Any]:
        return {check.name: check for check in checks.compare(self.trace, port, FLOAT32) if check.status == "differs"}


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case("qlora_classic", tmp_path_factory.mktemp("classic"), 4, (2, 4))


def test_the_classic_script_on_both_meshes(classic: Case) -> None:
    port = classic.run(classic.port)
    assert classic.differing(port) == {}
    assert classic.trace.config["quantization"] == port.config["quantization"] == "nf4"
    assert port.steps[-1].loss < port.steps[0].loss


@long
@pytest.mark.parametrize("mistake", MISTAKES)
def test_another_base_is_caught(classic: Case, mistake: str) -> None:
    old, new, why = MISTAKES[mistake]
    assert classic.port.count(old) == 1
    differing = classic.differing(classic.run(classic.port.replace(old, new)))
    assert why in differing[checks.CONFIGURATION].cause
    assert checks.INITIAL_LOSS in differing, "the loss alone must show it too"


@long
@pytest.mark.parametrize(("name", "mesh"), [("qlora_int8", (8, 1)), ("qlora_fp4_by_name", (2, 4))])
def test_other_ways_to_ask_for_a_quantised_base(name: str, mesh: tuple[int, int], tmp_path: Path) -> None:
    case = Case(name, tmp_path, 3, mesh)
    port = case.run(case.port)
    assert set(case.differing(port)) <= NOISY
    assert port.config["quantization"] == {"qlora_int8": "int8", "qlora_fp4_by_name": "fp4"}[name]


@long
def test_a_callback_stops_both_at_the_same_evaluation(tmp_path: Path) -> None:
    """At its rate of 0.05 the norms part by 8e-5 after 30 steps; the losses stay within their tolerance."""
    case = Case("qlora_early_stop", tmp_path, 40, (2, 4))
    port = case.run(case.port)
    assert set(case.differing(port)) <= NOISY
    assert len(case.trace.steps) == len(port.steps) < 40
