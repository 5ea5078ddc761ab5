"""Options and small choices of a run, without running anything."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from porter.cli import run as tpu_port
from porter.errors import InputError
from porter.recipe import Recipe, Value
from porter.validate.jax_side.observe_jax import fitted
from porter.validate.observing.settings import Settings
from porter.validate.options import Options
from porter.validate.run import asks_for_processes, check_input, processes_of
from porter.validate.running.processes import LONG, environment
from porter.validate.running.script import run_script


@pytest.mark.parametrize(
    ("shape", "devices", "other"), [((2, 4), 1, (1, 1)), ((2, 4), 4, (1, 4)), ((8, 1), 4, (4, 1)), ((2, 4), 6, (3, 2))]
)
def test_a_mesh_fitted_to_other_devices(shape: tuple[int, int], devices: int, other: tuple[int, int]) -> None:
    assert fitted(shape, devices) == other


def test_input_that_cannot_be_used(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("")

    with pytest.raises(InputError, match="no such file"):
        check_input(script, tmp_path / "b.py", Options())
    with pytest.raises(InputError, match="not a file"):
        check_input(tmp_path, script, Options())
    with pytest.raises(InputError, match=r"config\.json"):
        check_input(script, script, Options(model=tmp_path))
    with pytest.raises(InputError, match="needs 16 devices of 8"):
        check_input(script, script, Options(mesh=(4, 4)))
    check_input(script, script, Options())


def test_processes_come_from_the_launch_config_or_the_recipe(tmp_path: Path) -> None:
    port, config = tmp_path / "port.py", tmp_path / "fsdp.yaml"
    config.write_text("distributed_type: FSDP\nnum_processes: 4\n")
    assert processes_of(port, None) == 1
    (tmp_path / "port.recipe.json").write_text(
        Recipe("a.py", values={"mesh.processes": Value("literal", "2")}).to_json()
    )

    assert processes_of(port, None) == 2
    assert processes_of(port, config) == 4


@pytest.mark.parametrize(
    "text",
    [
        'rows = 64 // int(os.environ["WORLD_SIZE"])',
        "rows = 64 // PartialState().num_processes",
        "n = dist.get_world_size()",
        "n = torch.cuda.device_count()",
    ],
)
def test_a_source_that_counts_its_processes(tmp_path: Path, text: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(text)
    [note] = asks_for_processes(script)

    assert "--processes real" in note
    script.write_text("rows = 64")
    assert asks_for_processes(script) == []


def test_the_environment_of_each_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2 --xla_other=1")
    source = environment("source", dtype="float32", devices=1, online=False, tiny=True)
    port = environment("port", dtype="float32", devices=4, online=True, tiny=True)

    assert "ACCELERATE_MIXED_PRECISION" not in source
    assert (source["OMP_NUM_THREADS"], source["HF_HUB_OFFLINE"]) == ("1", "1")
    assert port["XLA_FLAGS"].endswith("--xla_other=1 --xla_force_host_platform_device_count=4")
    # What the user asks for comes behind what makes tiny models' programs quick, and wins.
    assert "--xla_backend_optimization_level=0" in port["XLA_FLAGS"].split("--xla_other")[0]
    assert "--xla_cpu_use_fusion_emitters=false" in port["XLA_FLAGS"]
    lasting = environment("port", dtype="float32", devices=4, online=True, tiny=True, tokens=LONG + 1)
    assert "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false" in lasting["XLA_FLAGS"]
    assert "=0" not in lasting["XLA_FLAGS"], "what trains for long is worth compiling"
    monkeypatch.setattr(metadata, "version", lambda name: "0.11.0")
    unknown = environment("port", dtype="float32", devices=4, online=True, tiny=True)
    assert "fusion_emitters" not in unknown["XLA_FLAGS"], "XLA ends a process for a flag that it has not"
    real = environment("port", dtype="float32", devices=4, online=True, tiny=False)
    assert "optimization_level" not in real["XLA_FLAGS"]
    assert port["JAX_DEFAULT_MATMUL_PRECISION"] == "highest"


def test_settings_in_a_file_and_back(tmp_path: Path) -> None:
    settings = Settings(str(tmp_path), mesh=(2, 4), sources=("x = 1\n",), fold=2)
    settings.save(tmp_path / "settings.json")

    assert Settings.load(tmp_path / "settings.json") == settings


@pytest.mark.parametrize(
    ("text", "code", "crash"),
    [
        ("print('fine')", 0, None),
        ("import sys; sys.exit(0)", 0, None),
        ("import sys; sys.exit(4)", 4, None),
        ("import sys; sys.exit('no data')", 1, "no data"),
        ("def f():\n    1 / 0\nf()", 1, "ZeroDivisionError"),
        ("def (", 1, "SyntaxError"),
    ],
)
def test_how_a_script_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int, crash: str | None
) -> None:
    monkeypatch.setattr("sys.argv", ["pytest"])
    monkeypatch.setattr("sys.path", ["here", *__import__("sys").path])
    script = tmp_path / "script.py"
    script.write_text(text)

    assert run_script(str(script), ["--flag"], tmp_path) == code
    written = tmp_path / "crash.txt"
    assert written.exists() == (crash is not None)
    assert crash is None or crash in written.read_text()


def test_usage_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert tpu_port(["validate", "a.py", "b.py", "--mesh", "data=8"]) == 2
    assert "write it as fsdp=4,tp=1" in capsys.readouterr().err
    assert tpu_port(["validate", "missing.py", "b.py"]) == 2
    assert "missing.py: no such file" in capsys.readouterr().err
