"""What lies around a script: the folders of its project, and the file that an import means."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.source.project.folders import project_folders
from porter.source.project.modules import project_file


def lay(root: Path, *files: str) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("")
    return root


def test_a_project_ends_at_its_repositorys_root(tmp_path: Path) -> None:
    script = lay(tmp_path, "other/x.py", "repo/a/b/train.py") / "repo/a/b/train.py"
    assert project_folders(script) == list(script.parents[:2])
    assert project_folders(script, above=3) == list(script.parents[:4])
    (tmp_path / "repo" / ".git").write_text("gitdir: elsewhere")
    assert project_folders(script) == project_folders(script, above=1) == list(script.parents[:3])


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("configs.make", "configs.py"),
        ("pkg.text.clean", "pkg/text.py"),
        ("pkg.nothing", "pkg/__init__.py"),
        ("lib.load", "lib.py"),  # of the root's `src`
        ("..configs.make", "configs.py"),
        (".near", "near.py"),
        ("outside", ""),  # above the root
        ("evaluate.load", ""),  # the library
        ("wandb", ""),
        ("..evaluate", "evaluate.py"),
        ("tokenizers.make", "tokenizers.py"),  # beside the script, where Python finds it first
        ("datasets.load_dataset", ""),
    ],
)
def test_the_file_that_an_import_means(tmp_path: Path, name: str, file: str) -> None:
    above = ("configs.py", "pkg/__init__.py", "pkg/text.py", "src/lib.py", "evaluate.py", "wandb.py", ".git/HEAD")
    lay(tmp_path / "repo", *above, "run/near.py", "run/tokenizers.py", "run/datasets.py")
    lay(tmp_path, "outside.py")
    assert project_file(str(tmp_path / "repo/run/train.py"), name) == file
