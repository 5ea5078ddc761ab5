"""What lies around a script: the folders of its project, and the file that an import means."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from porter.source.project import folders
from porter.source.project.folders import files_in, listed, project_folders
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


def test_a_copy_without_git_goes_up_to_what_lies_at_a_root(tmp_path: Path) -> None:
    script = tmp_path / "backend" / "app" / "core" / "train.py"
    script.parent.mkdir(parents=True)
    assert project_folders(script) == list(script.parents[:2])
    (tmp_path / "pyproject.toml").touch()
    assert project_folders(script) == list(script.parents[:4])
    (tmp_path / "pyproject.toml").unlink()
    (tmp_path / "LICENSE").touch()
    assert project_folders(script) == list(script.parents[:4])
    (tmp_path / "backend" / ".gitignore").touch()
    assert project_folders(script) == list(script.parents[:3])
    (tmp_path / ".git").mkdir()
    assert project_folders(script) == list(script.parents[:4])


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


def test_a_folder_of_thousands_of_files_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scripts" / "deep").mkdir(parents=True)
    (tmp_path / "env.yml").mkdir()  # no file
    names = (
        "setup.py",
        "environment.yml",
        "envs.yml",
        "scripts/b.sh",
        "scripts/a.sh",
        "scripts/deep/c.sh",
        "setup.pyc",
    )
    for name in (*names, *(f"{number}.png" for number in range(2_000))):
        (tmp_path / name).touch()
    asked: list[str] = []
    monkeypatch.setattr(folders, "listed", lambda folder: (asked.append(folder), listed(folder))[1])
    patterns = (
        "setup.py",
        "nothing.toml",
        "environment*.yml",
        "env*.yml",
        "scripts/*.sh",
        "scripts/**/*.sh",
        "no/*.sh",
    )
    found = [[str(path.relative_to(tmp_path)) for path in files] for files in files_in(tmp_path, patterns)]
    shell = ["scripts/a.sh", "scripts/b.sh"]
    environments = ["environment.yml", "envs.yml"]
    assert found == [["setup.py"], [], environments[:1], environments, shell, [*shell, "scripts/deep/c.sh"], []]
    assert asked == [str(tmp_path / name) for name in ("", "scripts", "no")]


def test_a_folder_that_stays_as_it_is_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has changed just now is listed again: another change might have the same time."""
    lay(tmp_path, "a.py", "below/b.py")
    (tmp_path / "link").symlink_to(tmp_path / "below")
    count, scandir = [0], os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: (count.append(0), scandir(folder))[1])
    for changed, times in ((time.time(), 2), (time.time() - 60, 1)):
        os.utime(tmp_path, (changed, changed))
        count.clear()
        for _ in range(2):
            names, below = listed(str(tmp_path))
            assert (sorted(names), [*below]) == (["a.py", "below", "link"], ["below"])
        assert len(count) == times
    lay(tmp_path, "c.py")
    assert "c.py" in listed(str(tmp_path))[0]
    assert listed(str(tmp_path / "a.py")) == listed(str(tmp_path / "nothing")) == ((), ())
