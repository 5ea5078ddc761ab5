"""The plumbing of the front door: options, exit codes, what goes to stdout and stderr. Porting itself is stubbed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import porter.front.port_script
from porter.cli import run
from porter.errors import InputError
from porter.port import Options, Port
from porter.recipe import Recipe
from tests.report import example


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(example.BEFORE)
    return Path("train.py")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Porting gives the example; `seen` takes the options, and `changes` to the port or an `error` to raise."""
    told: dict[str, Any] = {"changes": {}, "error": None}

    def port_script(path: Path, options: Options | None = None) -> Port:
        told["options"] = options
        if told["error"] is not None:
            raise told["error"]
        return example.port(path, **told["changes"])

    monkeypatch.setattr(porter.front.port_script, "port_script", port_script)
    return told


def child(*args: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    code = "from porter.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, **settings)


@pytest.mark.parametrize(("status", "code"), [("ported", 0), ("unchanged", 0), ("partial", 1), ("unsupported", 1)])
def test_the_exit_code_says_whether_something_is_left(
    script: Path, seen: dict[str, Any], status: str, code: int
) -> None:
    seen["changes"] = {"status": status}
    assert run([str(script)]) == code


def test_without_an_output_nothing_is_written(script: Path, seen: dict[str, Any], tmp_path: Path) -> None:
    run([str(script)])
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_an_output_is_written_with_its_recipe(
    script: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run([str(script), "-o", "out.py"])
    assert Path("out.py").read_text() == example.port().after
    assert Recipe.from_json(Path("out.recipe.json").read_text()) == example.port().recipe
    assert "Wrote out.py" in capsys.readouterr().out


def test_port_is_the_default_command(script: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    run([str(script)])
    first = capsys.readouterr().out
    run(["port", str(script)])
    assert capsys.readouterr().out == first
    run(["--mesh", "fsdp=2", str(script)])
    assert seen["options"].mesh == "fsdp=2"


def test_options_reach_the_porter(script: Path, seen: dict[str, Any]) -> None:
    line = "--mesh fsdp=2,tp=4 --source-trl 0.12 --processes 8 --rules a --rules b --launch-config fsdp.yaml"
    names = ["--select", "TP1,TP2", "--select", "TP3", "--ignore", "TP4"]
    run([str(script), *line.split(), *names])
    assert seen["options"] == Options(
        launch_config=Path("fsdp.yaml"),
        mesh="fsdp=2,tp=4",
        source_trl="0.12",
        rules=(Path("a"), Path("b")),
        select=("TP1", "TP2", "TP3"),
        ignore=("TP4",),
        processes=8,
    )


def test_pyproject_gives_defaults_and_the_command_line_wins(script: Path, seen: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.tpu-port]\nmesh = "fsdp=8"\nsource-trl = "0.9"\nrules = ["ours"]\nselect = ["TP1"]\nignore = ["TP2"]\n'
    )
    run([str(script), "--mesh", "fsdp=4", "--rules", "more"])
    options = seen["options"]
    assert (options.mesh, options.source_trl, options.select, options.ignore) == ("fsdp=4", "0.9", ("TP1",), ("TP2",))
    assert options.rules == (Path("more"), tmp_path / "ours")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('[tool.tpu-port]\nmsh = "x"\n', "unknown key 'msh'"),
        ("[tool.tpu-port]\nmesh = 3\n", "mesh is 3; it has to be text"),
        ('[tool.tpu-port]\nrules = "ours"\n', "it has to be a list of text"),
        ("[tool.tpu-port]\nmesh =\n", "not TOML"),
    ],
)
def test_a_wrong_pyproject_is_bad_input(
    script: Path, seen: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, want: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert run([str(script)]) == 2
    assert want in capsys.readouterr().err


def test_bad_input_is_one_line_on_stderr(
    script: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    seen["error"] = InputError("doesn't parse:\nunexpected", script, 3, 7, fix="mend the script")
    assert run([str(script)]) == 2
    got = capsys.readouterr()
    assert got.err == "tpu-port: train.py:3:7: doesn't parse: unexpected; mend the script\n"
    assert got.out == ""


def test_bad_input_is_an_object_with_json(
    script: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    seen["error"] = InputError("doesn't parse", script, 3, 7)
    assert run([str(script), "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "error" and document["findings"][0]["column"] == 7


@pytest.mark.parametrize(
    "args", [["--nonsense", "x.py"], ["a.py", "b.py"], ["x.py", "--processes", "0"], ["x.py", "-o"]]
)
def test_wrong_usage_is_bad_input(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "; see tpu-port --help" in err and ".;" not in err
    assert run([*args, "--json"]) == 2
    got = capsys.readouterr().out
    assert not got or json.loads(got)["status"] == "error"


def test_vendor_needs_an_output(script: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(script), "--vendor"]) == 2
    assert "-o" in capsys.readouterr().err


def test_an_interruption_is_130(script: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    seen["error"] = KeyboardInterrupt()
    assert run([str(script)]) == 130
    assert capsys.readouterr().err.strip() == "tpu-port: interrupted"


def test_our_own_mistake_is_a_line_and_no_verdict(
    script: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen["error"] = ZeroDivisionError("by us")
    monkeypatch.delenv("TPU_PORT_TRACEBACK", raising=False)
    assert run([str(script)]) == 2
    err = capsys.readouterr().err
    assert "internal error (test_front_door.py:" in err and err.count("\n") == 1
    monkeypatch.setenv("TPU_PORT_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run([str(script)])


def test_json_goes_to_stdout_alone(script: Path, seen: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(script), "--json", "-o", "out.py"]) == 1
    got = capsys.readouterr()
    assert json.loads(got.out)["output"] == "out.py"
    assert got.err == ""
    assert Path("out.py").exists()


@pytest.mark.parametrize(
    "args", [["--help"], ["-h"], [], ["doctor", "--help"], ["rules", "--help"], ["port", "-h"], ["--version"]]
)
def test_help_needs_none_of_the_heavy_libraries(args: list[str]) -> None:
    code = (
        "import sys\nfrom porter.cli import run\nrun(sys.argv[1:])\n"
        "print([name for name in ('jax', 'torch', 'libcst', 'rich', 'yaml', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout


def test_porting_imports_none_of_the_libraries_it_ports() -> None:
    generations = Path(__file__).resolve().parents[2] / "bench" / "generations"
    scripts = [str(path) for path in sorted(generations.glob("*.py"))]
    code = (
        "import sys\nfrom pathlib import Path\nfrom porter.front.port_file import port_file\n"
        "for path in sys.argv[1:]:\n    assert port_file(Path(path)).status in ('ported', 'partial')\n"
        "late = ('jax', 'torch', 'transformers', 'trl', 'peft', 'tunix', 'libcst.matchers')\n"  # the last takes 0.3 s
        "print([name for name in late if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *scripts], capture_output=True, text=True, check=True)
    assert len(scripts) > 3 and done.stdout.splitlines()[-1] == "[]", done.stdout


def test_the_package_runs_as_the_script_does(tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    settings: dict[str, Any] = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": root}}
    for args in (["--version"], ["--help"], ["none.py"]):
        run_module = [sys.executable, "-m", "porter.cli", *args]
        done = subprocess.run(run_module, capture_output=True, text=True, **settings)
        script = child(*args, **settings)
        assert (done.returncode, done.stdout, done.stderr) == (script.returncode, script.stdout, script.stderr)
    assert done.returncode == 2 and "tpu-port: none.py: does not exist" in done.stderr
    importlib.import_module("porter.cli.__main__")  # as worker processes do: it runs nothing


def test_the_front_doors_help_has_its_options_and_the_commands() -> None:
    text = child("--help").stdout
    for word in ("--launch-config", "--mesh", "--json", "--vendor", "validate", "rules", "doctor", "Exit codes"):
        assert word in text


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -c 'from porter.cli import main; main()' --help | true",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


def test_an_ascii_terminal_gets_the_report(script: Path, tmp_path: Path) -> None:
    code = (
        "import porter.front.port_script, porter.cli\nfrom tests.report import example\n"
        "porter.front.port_script.port_script = lambda path, options: example.port(path)\n"
        "porter.cli.main(['train.py'])"
    )
    root = Path(porter.__file__).parent.parent
    settings = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(root), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path, env=settings)
    assert done.returncode == 1, done.stderr
    assert b"trl.SFTTrainer" in done.stdout
