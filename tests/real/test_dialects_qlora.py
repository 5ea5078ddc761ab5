"""Scripts with a quantised base, end to end: the original under TRL, its port under Tunix, the same losses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from porter.port import Options as PortOptions
from porter.port import port_file
from porter.validate import compare as checks
from porter.validate.run import Options, run_port, run_source
from porter.validate.tolerances import FLOAT32

pytestmark = pytest.mark.real

DIALECTS = Path(__file__).parent / "scripts" / "dialects"
# Mistakes in the port of the classic script: what it reads instead, what is said of it.
MISTAKES = {
    "the other 4-bit format": ('quantization="nf4"', 'quantization="fp4"', "the base's format"),
    "a base in full": (', quantization="nf4"', "", "the base was not quantised"),
}


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
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JAX_COMPILATION_CACHE_DIR", str(self.work / "compiled"))
            patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
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


@pytest.mark.parametrize("mistake", MISTAKES)
def test_another_base_is_caught(classic: Case, mistake: str) -> None:
    old, new, why = MISTAKES[mistake]
    assert classic.port.count(old) == 1
    differing = classic.differing(classic.run(classic.port.replace(old, new)))
    assert why in differing[checks.CONFIGURATION].cause
    assert checks.INITIAL_LOSS in differing, "the loss alone must show it too"


@pytest.mark.parametrize(("name", "mesh"), [("qlora_int8", (8, 1)), ("qlora_fp4_by_name", (2, 4))])
def test_other_ways_to_ask_for_a_quantised_base(name: str, mesh: tuple[int, int], tmp_path: Path) -> None:
    case = Case(name, tmp_path, 3, mesh)
    port = case.run(case.port)
    assert case.differing(port) == {}
    assert port.config["quantization"] == {"qlora_int8": "int8", "qlora_fp4_by_name": "fp4"}[name]


def test_early_stopping_stops_both_at_the_same_evaluation(tmp_path: Path) -> None:
    case = Case("qlora_early_stop", tmp_path, 40, (2, 4))
    port = case.run(case.port)
    assert case.differing(port) == {}
    assert len(case.trace.steps) == len(port.steps) < 30
    best = min(loss for _, loss in port.evaluations[1:])
    assert port.evaluations[-1][1] > best and port.evaluations[-2][1] > best


def test_the_best_checkpoint_is_loaded_after_training(tmp_path: Path) -> None:
    """The port as a user runs it: it stops early, and what it saves is the checkpoint of the lowest loss."""
    import orbax.checkpoint as ocp
    from safetensors.numpy import load_file

    from porter.validate.stand_in import make_stand_in

    make_stand_in(tmp_path / "Qwen" / "Qwen3-0.6B", "Qwen/Qwen3-0.6B", "qwen3")
    script = tmp_path / "port.py"
    script.write_text(port_file(DIALECTS / "qlora_early_stop.py", PortOptions()).after, encoding="utf-8")
    devices = "--xla_force_host_platform_device_count=4"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": devices, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    losses = {int(step): float(loss) for step, loss in re.findall(r"evaluated at (\d+): ([\d.]+)", done.stdout)}
    best = min(losses, key=lambda step: losses[step])
    assert f"loaded the best checkpoint, of step {best}" in done.stdout and best < max(losses)
    kept = sorted(int(path.name) for path in (tmp_path / "outputs").iterdir() if path.name.isdigit())
    assert kept == [best, max(losses)]
    saved = load_file(tmp_path / "outputs" / "best" / "adapter_model.safetensors")
    params = ocp.PyTreeCheckpointer().restore(tmp_path / "outputs" / str(best) / "model_params")
    a = params["layers"][next(iter(params["layers"]))]["mlp"]["down_proj"]["kernel_lora_a"]
    a = a["value"] if isinstance(a, dict) else a
    assert any(array.shape == a.T.shape and (array == a.T).all() for array in saved.values())
