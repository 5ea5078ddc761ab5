"""Which release a notebook was written for: what its cells installed, and what they printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from tests.notebooks import cell, printed, saved

from .dated_scripts import SCRIPT

INSTALLS = "!pip install trl"


@pytest.mark.parametrize(
    "said",
    [
        "Successfully installed accelerate-0.30.1 transformers-4.41.1 trl-0.9.4 tyro-0.8.4\n",
        "  Downloading trl-0.9.4-py3-none-any.whl (245 kB)\n",
        "Requirement already satisfied: trl in /usr/lib/python3/dist-packages (from -r needs.txt) (0.9.4)\n",
        "Successfully installed trl-0.9.4\nSuccessfully installed sentence-trl-3.0.1\n",
        "Requirement already satisfied: trl in /lib (0.9.4)\nRequirement already satisfied: mkl in /lib (2024.2.0)\n",
    ],
)
def test_what_a_notebook_installed_dates_it(tmp_path: Path, said: str) -> None:
    trains = SCRIPT.replace("Qwen3", "Qwen2")
    path = saved(tmp_path / "train.ipynb", cell(INSTALLS, printed(said)), trains)
    assert port_file(path).recipe.versions["trl"].startswith("0.9.4 (what the notebook installed")
    path = saved(path, cell(f"{INSTALLS}==0.10.1", printed(said)), trains)
    assert port_file(path).recipe.versions["trl"].startswith("0.10.1 (the script")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('print("TRL:", trl.__version__)', "TRL: 0.9.4\n"),
        ('import trl\nprint(f"  trl: {trl.__version__}")', "torch: 2.4.0\n  trl: 0.9.4\n"),
        ("print(trl.__version__)", "0.9.4\n"),
        ("trl.__version__", "'0.9.4'"),
        ("print('trl =', trl.__version__, flush=True)", "a warning 1.2.3\ntrl = 0.9.4\n"),
    ],
)
def test_what_a_notebook_printed_dates_it(tmp_path: Path, source: str, said: str) -> None:
    """Over what pip said: a kernel that isn't started anew goes on with what it had."""
    installs = cell(INSTALLS, printed("Successfully installed trl-1.4.0\n"))
    shown = printed(said)
    if not source.startswith(("print", "import")):
        last = {"output_type": "execute_result", "metadata": {}, "execution_count": 1}
        shown = {**last, "data": {"text/plain": said}}
    path = saved(tmp_path / "train.ipynb", installs, cell(source, shown), SCRIPT)
    assert port_file(path).recipe.versions["trl"].startswith("0.9.4 (what the notebook printed")
    path = saved(path, installs, source, SCRIPT)
    assert not port_file(path).recipe.versions["trl"].startswith("0.9.4")


def test_what_a_notebook_installed_last_is_not_read_where_its_cells_cannot_run_on_it(tmp_path: Path) -> None:
    """Colab's outputs are of the last run, which may have ended at the trainer: TRL 1.4 takes no max_seq_length."""
    said = printed("Successfully installed datasets-4.0.0 transformers-5.8.0 trl-1.4.0 unsloth-2025.1.1\n")
    trains = SCRIPT.replace('SFTConfig("out")', "SFTConfig('out', max_seq_length=9)")
    found = port_file(saved(tmp_path / "train.ipynb", cell(INSTALLS, said), trains))
    assert found.recipe.versions["trl"].startswith("0.19.1 (the newest release with")
    said_of = [each.message for each in found.findings if "the notebook installed" in each.message]
    assert said_of == [
        "what the notebook installed: trl==1.4.0, which goes against what its cells use: SFTConfig(max_seq_length=) "
        "(gone in 0.20): not read."
    ]
