"""`plan` and `compile` on the command line: bad input, exit codes, and no compiler."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import porter.tpu.compile as compiling
import porter.tpu.plan as planning
import porter.tpu.step as stepping
from porter.cli import run
from porter.tpu.compile import CompileFailed
from porter.tpu.results import Memory
from porter.tpu.slices import GIB, slice_named
from tests.tpu.test_kinds import compiled_at, grpo
from tests.tpu.test_plan import gemma4

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def port(tmp_path: Path) -> str:
    file = tmp_path / "train_tunix.py"
    file.write_text("pass\n")
    return str(file)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tpu", "v5p-9"], "there is no TPU slice 'v5p-9'; nearest: v5p-8"),
        (["--tpu", "v5p-8", "--mesh", "fsdp=8"], "the mesh fsdp=8 has 8 devices, v5p-8 has 4 chips"),
        (["--tpu", "v5p-8", "--mesh", "2x2"], "write it as fsdp=4,tp=1"),
        (["--tpu", "v5p-8", "--batch", "0"], "--batch"),
        ([], "--tpu"),
    ],
)
def test_bad_input_is_told_in_a_line(port: str, capsys: Captured, words: list[str], said: str) -> None:
    assert run(["compile", port, *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["plan", "compile"])
def test_a_port_that_is_not_there(tmp_path: Path, capsys: Captured, command: str) -> None:
    assert run([command, str(tmp_path / "no.py"), "--tpu", "v5p-8"]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_without_libtpu_the_estimate_says_what_it_is(
    port: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepping, "libtpu_problem", lambda: "libtpu is not installed")
    monkeypatch.setattr(stepping, "compile_step", lambda request, *a, **k: gemma4() if not request.compile else None)
    assert run(["compile", port, "--tpu", "v5p-8"]) == 0
    assert "estimated by formula, not compiled: libtpu is not installed" in capsys.readouterr().out


def test_another_libtpu_than_jax_wants_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"jax": "0.10.2", "libtpu": "0.0.17"}
    monkeypatch.setattr(compiling.importlib.metadata, "version", versions.__getitem__)
    monkeypatch.setattr(compiling.importlib.metadata, "requires", lambda name: ["libtpu==0.0.42.*; extra == 'tpu'"])
    assert compiling.libtpu_problem() == (
        "libtpu 0.0.17 doesn't match jax 0.10.2, which needs 0.0.42.*: pip install 'libtpu==0.0.42.*'"
    )
    versions["libtpu"] = "0.0.42.1"
    assert compiling.libtpu_problem() == ""


def test_out_of_memory_says_by_how_much_and_what_fits(
    port: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = gemma4(
        devices=4,
        mesh={"fsdp": 4, "tp": 1},
        batch_rows=4,
        layers=60,
        remat=False,
        state={kind: {axes: 10 * size for axes, size in by.items()} for kind, by in gemma4().state.items()},
        short_of_memory=7 * GIB,
        wanted_memory=102 * GIB,
    )
    monkeypatch.setattr(stepping, "libtpu_problem", lambda: "")
    monkeypatch.setattr(stepping, "compile_step", lambda *a, **k: short)
    assert run(["compile", port, "--tpu", "v5p-8"]) == 1
    said = capsys.readouterr().out
    assert "out of memory by 7.0 GiB" in said and "what should fit: --remat decoder" in said


def test_a_compile_that_fails_is_3(port: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise CompileFailed("compiling was killed (signal 9); the cache is as it was", "its last words")

    monkeypatch.setattr(stepping, "libtpu_problem", lambda: "")
    monkeypatch.setattr(stepping, "compile_step", fail)
    assert run(["compile", port, "--tpu", "v5p-8"]) == 3
    assert "its last words" in (said := capsys.readouterr().err) and "signal 9" in said


def test_json_of_a_step_and_of_a_plan(port: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(9 * GIB, *[GIB] * 9)
    step = gemma4(memory=memory, seconds=0.07, flops=1e12, collectives={"all-gather": {"count": 2, "bytes": 8}})
    monkeypatch.setattr(stepping, "libtpu_problem", lambda: "")
    monkeypatch.setattr(stepping, "compile_step", lambda *a, **k: step)
    assert run(["compile", port, "--tpu", "v5p-8", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["step"]["memory"]["peak"] == 9 * GIB and document["slice"] == "v5p-8"

    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: gemma4())
    assert run(["plan", port, "--tpu", "v5p-8,v5p-16", "--candidates", "0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [plan["slice"] for plan in document["plans"]] == ["v5p-8", "v5p-16"]
    assert document["plans"][0]["best"]["how"] == "formula"
    assert "k_einsum" in document["plans"][1]["dropped"][0]["why"]


def test_what_a_run_computes_beside_its_step_is_shown(
    port: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepping, "libtpu_problem", lambda: "")
    monkeypatch.setattr(stepping, "compile_step", lambda request, *a, **k: compiled_at(replace(request, layers=28)))
    assert run(["compile", port, "--tpu", "v6e-4", "--model", "config.json"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "GRPO: micro-batch 8 x 512 tokens, 4 to a step of 32 rows" in said
    assert "sampling, 32 x (256 + 256) tokens" in said and "peak 25.00 GiB, in sampling; 1.800 s a step" in said
    assert run(["compile", port, "--tpu", "v6e-4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["step"]
    assert document["peak"] == 25 * GIB and document["step_seconds"] == pytest.approx(0.4 + 5 * 0.28)
    assert [one["name"] for one in document["passes"]] == ["sampling", "log-probabilities"]

    short = compiled_at(compiling.Request(Path(port), slice_named("v6e-4"), layers=28), "sampling")
    monkeypatch.setattr(stepping, "compile_step", lambda *a, **k: short)
    assert run(["compile", port, "--tpu", "v6e-4"]) == 1
    assert "out of memory by 3.0 GiB in sampling" in (said := capsys.readouterr().out) and "what should fit" in said

    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: grpo())
    assert run(["plan", port, "--tpu", "v6e-4", "--candidates", "0"]) == 0
    said = capsys.readouterr().out
    assert "GRPO, 32 rows of 512 tokens" in said and "fsdp=1,tp=4 batch 8 no remat" in said


def test_a_model_that_stands_for_several_is_told(port: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    step = grpo()
    step = replace(step, passes=(replace(step.passes[0], own=False, model="its/teacher"),))
    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: step)
    assert run(["plan", port, "--tpu", "v6e-4", "--candidates", "0", "--model", "config.json"]) == 0
    assert "--model config.json stands for Qwen/Qwen3-0.6B and its/teacher" in capsys.readouterr().err


def test_plans_are_compared(port: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: gemma4())
    assert run(["plan", port, "--tpu", "v5p-8,v5e-4", "--candidates", "0", "--compare"]) == 1
    said = capsys.readouterr().out
    assert "v5p-8" in said and "nothing fits" in said


def test_a_plan_is_written_into_the_port_of_a_script(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: gemma4())
    example = Path(__file__).parents[2] / "examples" / "sft_lora_gemma3.py"
    source, output = tmp_path / "train.py", tmp_path / "train_tunix.py"
    source.write_text(example.read_text())
    words = ["plan", str(source), "--tpu", "v5p-8", "--candidates", "0", "--remat", "none", "--seq-len", "1024"]
    assert run([*words, "--apply", "-o", str(output)]) == 0
    text = output.read_text()
    compile(text, str(output), "exec")
    assert "# tpu-port plan for v5p-8:" in text and "rt.remat" not in text
    assert "jax.make_mesh((1, 4), " in text or "jax.make_mesh((4, 1), " in text or "jax.make_mesh((2, 2), " in text
    assert "    micro_batch=" in text and "GiB" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py", "train_tunix.py"]
    assert run([*words, "--apply", "-o", str(output)]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    again = [*words[:-4], "--remat", "decoder", "--apply", "-o", str(tmp_path / "again.py")]
    assert run([again[0], str(output), *again[2:]]) == 0
    text = (tmp_path / "again.py").read_text()
    compile(text, "again.py", "exec")
    assert "model = rt.remat(model)  # the plan's" in text


def test_apply_wants_an_output_and_one_slice(port: str, capsys: Captured) -> None:
    assert run(["plan", port, "--tpu", "v5p-8", "--apply"]) == 2
    assert run(["plan", port, "--tpu", "v5p-8,v6e-8", "--apply", "-o", "x.py"]) == 2
    assert "--apply and -o OUT go together" in capsys.readouterr().err


def test_the_cache_survives_what_is_no_result(port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    request = compiling.Request(script=Path(port), slice=slice_named("v5p-8"), compile=False)
    file = compiling.cache_folder() / f"{compiling.key(request)}.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"half": ')
    found = gemma4().to_dict()
    found.pop("cached")
    monkeypatch.setattr(compiling, "_run", lambda *a, **k: dict(found))
    first = compiling.compile_step(request)
    second = compiling.compile_step(request)
    assert (first.cached, second.cached) == (False, True)
    assert replace(second, cached=False).model == first.model
    assert compiling.key(replace(request, remat="none")) != compiling.key(request)
    Path(port).write_text("pass  # changed\n")
    assert compiling.key(request) != file.stem
