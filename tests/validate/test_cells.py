"""A notebook's program as its cells run: one namespace, awaits, magics by their meaning, kernels that go on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from porter.validate.running.cells import RESTARTED, run_cells
from porter.validate.running.script import run_script
from porter.validate.world import shell_lines
from tests.notebooks import saved


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "kill", os.kill)
    monkeypatch.setattr(os, "_exit", os._exit)
    monkeypatch.setenv("NOTEBOOK_KEY", "before")
    monkeypatch.setitem(sys.modules, "tqdm.notebook", sys.modules.get("tqdm.notebook"))
    return tmp_path


def run(folder: Path, *sources: str) -> list[str]:
    notes: list[str] = []
    run_cells(str(saved(folder / "train.ipynb", *sources)), notes.append)
    return notes


def test_cells_share_names_and_await_outside_of_functions(folder: Path) -> None:
    run(
        folder,
        "import asyncio\nasync def half(x):\n    await asyncio.sleep(0)\n    return x / 2",
        "from __future__ import annotations\nx: Unknown = await half(8)\nx",
        "def typed(a: AlsoUnknown): return a\nopen('found', 'w').write(f\"{typed(x)} {'__file__' in globals()}\")",
    )
    assert (folder / "found").read_text() == "4.0 False"


def test_magics_do_what_the_rest_of_the_notebook_needs(folder: Path) -> None:
    notes = run(
        folder,
        "%%writefile settings/run.json\n{\"rank\": 8}",
        "import json, os\nrank = json.load(open('settings/run.json'))['rank']\nname = 'out'",
        "%env NOTEBOOK_KEY=after {rank}\n!mkdir -p $name/{rank} deep && echo made > {name}/said",
        "%cd {name}\nopen('here', 'w').write(os.environ['NOTEBOOK_KEY'])\n%cd ..\nback = %pwd",
        "lines = !nvidia-smi\nassert lines == [] and lines[0] == '' and back == os.getcwd()",
        "%load_ext autoreload\n%matplotlib inline\ndisplay(rank)\nget_ipython().magic('autoreload 2')",
    )  # fmt: skip
    assert (folder / "out/here").read_text() == "after 8"
    assert (folder / "out/8").is_dir() and (folder / "deep").is_dir() and (folder / "out/said").read_text() == "made\n"
    assert notes == [shell_lines.SHOWN]


@pytest.mark.parametrize(
    ("side", "trained", "ends"), [("source-x1", False, 0), ("source-x1", True, 1), ("rows", False, 1)]
)
def test_what_fails_beside_the_training_is_left_out_until_it_has_trained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, side: str, trained: bool, ends: int
) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(sys, "path", ["here", *sys.path])
    trains = "class Net:\n    def train(self): open('found', 'w')\nNet().train()"
    path, notes = saved(folder / "train.ipynb", "rows = open('nowhere')\nprint(rows)", trains), list[str]()
    (folder / side).mkdir()
    assert run_script(str(path), [], folder / side, notes.append, lambda: trained) == ends
    assert (folder / "found").exists() is (ends == 0)
    assert [each.partition(" failed")[0] for each in notes] == ["\"rows = open('nowhere')\""] * (ends == 0)


def test_what_is_not_run_is_said(folder: Path) -> None:
    notes = run(
        folder,
        "!pip install -q trl==0.9.6\n%pip install peft",
        "!git clone https://example.org/data\n%cd data\n%cd ..",
        "%%bash\n# prepares\npython prepare.py \\\n  --all\n",
        "%%html\n<b>x</b>",
        "%%R\nx <- 3",
        "%sql SELECT 1",
    )
    assert notes == [
        shell_lines.INSTALLED,
        shell_lines.INSTALLED,
        "a program that the script starts was not run: git clone https://example.org/data",
        "%cd data: no such folder: the notebook went on where it was",
        "a program that the script starts was not run: python prepare.py --all",
        "a cell that is no Python was not run: %%R",
        "the magic %sql was not run",
    ]
    assert Path.cwd() == folder


def test_folders_of_hosted_notebooks_are_where_it_runs(folder: Path) -> None:
    (folder / "data").mkdir()
    notes = run(
        folder,
        "import os\n%cd /content\nassert os.path.isdir('data')",
        "%cd /content/data\nopen('x', 'w').close()",
        "%cd /kaggle/working\nopen('y', 'w').close()",
    )
    assert (folder / "data/x").is_file() and (folder / "y").is_file() and notes == []


def test_a_kernel_that_is_to_start_anew_goes_on(folder: Path) -> None:
    cells = ("import os, signal\nx = 1", "os.kill(os.getpid(), 9)", "exit()", "open('end', 'w').write(str(x))")
    notes = run(folder, *cells)
    assert (folder / "end").read_text() == "1" and notes == [RESTARTED, RESTARTED]


def test_run_takes_another_files_names(folder: Path) -> None:
    (folder / "helpers.py").write_text("import sys\nwords = sys.argv[1:]\n")
    notes = run(folder, "%run helpers.py --fast\nopen('got', 'w').write(' '.join(words))", "%run missing.py")
    assert (folder / "got").read_text() == "--fast"
    assert notes == ["%run missing.py: no such file: it was not run"]


def test_the_shell_is_the_notebooks_alone(folder: Path) -> None:
    run(
        folder,
        "shell = get_ipython()\nopen('shell', 'w').write(type(shell).__name__)",
        "assert 'google.colab' not in str(get_ipython())",
        "%%capture said\nprint(1)",
        "said.show()\nfrom tqdm.notebook import tqdm\nassert list(tqdm([1])) == [1]",
    )
    assert (folder / "shell").read_text() == "ZMQInteractiveShell"
    assert "shell" not in sys.modules["__main__"].__dict__
