"""Notebooks are ported, run and compared as notebooks: hosted ones, old ones, with plots and with a shell's lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options as PortOptions
from porter.tpu.compile import Request, compile_step
from porter.tpu.slices import slice_named
from porter.validate.options import Options
from porter.validate.run import validate
from porter.validate.running.processes import RunFailed
from tests.notebooks import saved

from .long import long
from .outside import REPOSITORY, SCRIPTS

pytestmark = pytest.mark.real

GENERATIONS = REPOSITORY / "bench" / "generations"
PLOTS = SCRIPTS / "trainer_plots.ipynb"
CHAT, QLORA = GENERATIONS / "unsloth_trl_0_15_responses.ipynb", GENERATIONS / "trl_0_9_qlora.ipynb"


@pytest.mark.parametrize(
    ("notebook", "said"),
    [
        (PLOTS, "programs that only show something (nvidia-smi, ls, ...) were not run"),
        # On the releases that they install, in environments that are made for them.
        pytest.param(CHAT, "google.colab was not asked: a stand-in answered", marks=long),
        pytest.param(QLORA, "the base is held in nf4 on both sides, the source's by bitsandbytes' formula", marks=long),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_a_notebook_and_its_port_train_alike(notebook: Path, said: str, tmp_path: Path) -> None:
    port = port_file(notebook, PortOptions(processes=1))
    assert port.status == "ported", port.findings
    out = tmp_path / notebook.name
    out.write_bytes(port.data)
    before = sorted(notebook.parent.iterdir())

    verdict = validate(notebook, out, Options(steps=3, devices=2, meshes=(), environments=notebook != PLOTS))

    assert verdict.equal, verdict.first_divergence
    assert said in verdict.notes
    assert sorted(notebook.parent.iterdir()) == before and sorted(tmp_path.iterdir()) == [out]


def test_a_ports_step_is_traced_from_a_notebook(tmp_path: Path) -> None:
    out = tmp_path / "port.ipynb"
    out.write_bytes(port_file(PLOTS, PortOptions(processes=1)).data)
    request = Request(script=out, slice=slice_named("v5e-8"), layers=0, seq_len=128, compile=False)

    step = compile_step(request)

    assert (step.model, step.family, step.length) == ("Qwen/Qwen3-0.6B", "qwen3", 128)


def test_a_crash_names_the_cell(tmp_path: Path) -> None:
    cells = ["import os\n\n\ndef load(name):\n    return open(name + '.txt').read().index('zz')", "%time load('x')"]
    path = saved(tmp_path / "train.ipynb", *cells)

    with pytest.raises(RunFailed) as failure:
        validate(path, path, Options(steps=1, environments=False))

    assert f'File "{path}", cell 2, line 1' in failure.value.output
    assert f'File "{path}", cell 1, line 5, in load' in failure.value.output


def test_a_training_in_another_program_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "train.ipynb", "!accelerate launch train.py --lr 1")

    with pytest.raises(RunFailed, match=r"started by accelerate launch train\.py --lr 1 in cell 1, another program"):
        validate(path, path, Options(steps=1, environments=False))
