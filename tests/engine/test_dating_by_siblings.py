"""What another notebook of a project has run on dates a script that nothing nearer does."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from tests.notebooks import cell, saved
from tests.notebooks import printed as out

from .dated_scripts import SCRIPT
from .test_dating_by_commits import committed

PRINTS = "import trl, transformers\nprint(trl.__version__)"


def notebook(path: Path, trl: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    saved(
        path, cell(PRINTS, out(f"{trl}\n")), cell("!pip install x", out("Successfully installed transformers-4.57.1"))
    )


@pytest.mark.parametrize(
    ("notebooks", "more", "read"),
    [
        ({"explore.ipynb": "0.24.0"}, "", ("0.24.0", "4.57.1")),
        ({"notebooks/explore.ipynb": "0.24.0"}, "", ("0.24.0", "4.57.1")),
        ({"a.ipynb": "0.24.0", "b.ipynb": "0.24.0"}, "", ("0.24.0", "4.57.1")),
        ({"a.ipynb": "0.24.0", "b.ipynb": "0.25.1"}, "", ("0.27.2", "4.57.1")),  # they don't agree on TRL's
        ({"explore.ipynb": "0.24.0"}, "# trl==0.23.0", ("0.23.0", "4.57.1")),
        ({"explore.ipynb": "0.8.6"}, "", ("1.16.0", "5.12.1")),  # which has no SFTConfig
        ({".ipynb_checkpoints/explore.ipynb": "0.24.0"}, "", ("1.16.0", "5.12.1")),
        ({"../another/explore.ipynb": "0.24.0"}, "", ("1.16.0", "5.12.1")),
    ],
)
def test_what_the_notebooks_of_a_project_ran_on_dates_its_scripts(
    tmp_path: Path, notebooks: dict[str, str], more: str, read: tuple[str, str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name, trl in notebooks.items():
        notebook(own / name, trl)
    (own / "README.md").write_text("# Training\n")
    (own / "train.py").write_text(f"{more}\n{SCRIPT}")
    found = port_file(own / "train.py")
    versions = found.recipe.versions
    assert (versions["trl"].split()[0], versions["transformers"].split()[0]) == read, versions
    told = [each.message for each in found.findings if "of the same project" in each.message]
    assert bool(told) is ("ran on" in str(versions)) and not any("goes against" in str(each) for each in found.findings)


@pytest.mark.parametrize(("day", "counts"), [("2025-11-01", True), ("2025-10-01", False)])
def test_no_notebook_tells_what_came_out_later(tmp_path: Path, day: str, counts: bool) -> None:
    notebook(tmp_path / "explore.ipynb", "0.24.0")  # of 2025-10-16
    versions = port_file(committed(tmp_path, day, SCRIPT)).recipe.versions
    assert versions["trl"].startswith("0.24.0 (what explore.ipynb ran on") is counts
