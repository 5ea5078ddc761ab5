"""Whole validations: a good pair is equal on every mesh; a crash, a hang and an idle script say what happened."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from porter.cli import run as tpu_port
from porter.validate.comparing import compare as checks
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.options import Options
from porter.validate.run import run_source, validate
from porter.validate.running.processes import RunFailed

from .long import long
from .outside import SCRIPTS

pytestmark = pytest.mark.real

QWEN3, PORT = SCRIPTS / "sft_lora_qwen3.py", SCRIPTS / "sft_lora_qwen3_tunix.py"


def test_a_good_pair_on_every_mesh_and_in_several_processes(
    tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Of one layer: each of six processes traces and compiles for itself. Two are trained in test_recipes.py."""
    monkeypatch.chdir(tmp_path)
    model = tiny("qwen3", num_hidden_layers=1)

    asked = f"--steps 4 --mesh 2,4 --meshes 8,1 --hosts 2 --json --html v.html --model {model}"
    code = tpu_port(["validate", str(QWEN3), str(PORT), *asked.split()])

    verdict = json.loads(capsys.readouterr().out)
    assert (code, verdict["equal"], verdict["first_divergence"]) == (0, True, None)
    elsewhere = ["fsdp=8,tp=1", "2 processes", "2 processes, tensor parallelism across them"]
    assert [check["name"] for check in verdict["checks"]][-3:] == [f"the same port on {where}" for where in elsewhere]
    assert "<svg" in (tmp_path / "v.html").read_text()
    # Both scripts write to out/ and out/adapter: not here.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.html"]


@long
def test_two_processes_are_the_folded_batch(tmp_path: Path) -> None:
    traces = []
    for how in ("fold", "real"):
        (tmp_path / how).mkdir()
        options = Options(steps=3, processes=2, how=how)  # type: ignore[arg-type]
        trace, notes = run_source(QWEN3, options, str(tmp_path / how), lambda line: None)
        assert "2 processes" in notes[0]
        traces.append(trace)

    found = {check.name: check for check in checks.compare(*traces, FLOAT32)}

    assert len(traces[0].steps[0].rows) == 16
    for name in (checks.BATCHES, checks.LEARNING_RATE, checks.INITIAL_LOSS, checks.LOSS, checks.GRAD_NORM):
        assert found[name].status == "equal", found[name]


def test_a_source_that_crashes_shows_its_own_traceback(tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "train.py"
    script.write_text("def load():\n    raise KeyError('no such column')\n\nload()\n")

    code = tpu_port(["validate", str(script), str(PORT)])

    shown = capsys.readouterr().err
    assert code == 2
    assert f'File "{script}", line 4' in shown
    assert "KeyError: 'no such column'" in shown
    assert "runpy" not in shown


def test_a_hang_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import multiprocessing, time\n"
        "child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,))\n"
        "child.start()\n"
        "print('child', child.pid, flush=True)\n"
        "child.join()\n"
    )
    started = time.monotonic()

    with pytest.raises(RunFailed, match=r"source had not finished after 8 s") as failure:
        validate(script, PORT, Options(timeout=8))

    assert time.monotonic() - started < 60
    assert failure.value.side == "source"
    found = re.search(r"child (\d+)", failure.value.output)
    assert found is not None
    child = int(found[1])
    status = Path(f"/proc/{child}/status")
    assert not status.exists() or "zombie" in status.read_text()
    assert child != os.getpid()


def test_a_script_that_never_trains(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('nothing to do')\n")

    with pytest.raises(RunFailed, match="without training") as failure:
        validate(script, PORT, Options())

    assert "nothing to do" in failure.value.output


@long
def test_a_port_that_crashes_is_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    port = tmp_path / "train_tunix.py"
    port.write_text(PORT.read_text().replace("    max_length=128,\n", "    max_length=128,\n    nonsense=1,\n"))

    code = tpu_port(["validate", str(QWEN3), str(port), "--steps", "1", "--quick", "--json", "--html", "v.html"])

    verdict = json.loads(capsys.readouterr().out)
    assert (code, verdict["verdict"], verdict["first_divergence"]) == (3, "differs", "the port runs")
    [check] = verdict["checks"]
    assert "unexpected keyword argument 'nonsense'" in check["detail"]
    assert port.read_text().splitlines()[check["line"] - 1] == "batches = rt.SFTBatches("
    assert "nonsense" in verdict["help"] and len(verdict["source_losses"]) == 1
    assert "TypeError" in (tmp_path / "v.html").read_text()


@pytest.fixture(scope="module")
def families() -> list[str]:
    return ["gemma", "gemma2", "gemma3", "gemma4", "llama3", "mistral", "qwen2", "qwen3"]


def test_every_family_has_a_stand_in(families: list[str], tmp_path: Path, tiny_mesh: Callable[..., Any]) -> None:
    """The tiny model of each family loads on both sides; its tokenizer renders a conversation."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from porter import runtime as rt
    from porter.validate.stand_ins.models.stand_in import FAMILIES, make_stand_in

    assert sorted(FAMILIES) == families
    for family, model_id in [
        ("gemma", "google/gemma-7b-it"),
        ("gemma2", "google/gemma-2-9b-it"),
        ("gemma3", "google/gemma-3-4b-it"),
        ("gemma4", "google/gemma-4-31B-it"),
        ("gemma4", "google/gemma-4-E4B-it"),
        ("llama3", "meta-llama/Llama-3.2-1B-Instruct"),
        ("mistral", "mistralai/Mistral-7B-Instruct-v0.3"),
        ("qwen2", "Qwen/Qwen2.5-7B-Instruct"),
        ("qwen3", "Qwen/Qwen3-4B-Instruct-2507"),
    ]:
        folder = make_stand_in(tmp_path / model_id.replace("/", "--"), model_id, family)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        turn = [{"role": "user", "content": "check the parity"}, {"role": "assistant", "content": "done"}]
        assert "parity" in tokenizer.apply_chat_template(turn, tokenize=False)
        assert max(tokenizer("always @(posedge clk) begin end")["input_ids"]) < 512
        AutoModelForCausalLM.from_pretrained(folder)
        rt.load_model(str(folder), tiny_mesh(2, 4))
