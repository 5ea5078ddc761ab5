"""The commits of a repository, and the releases that they lie between."""

import subprocess
from pathlib import Path

import pytest

from porter.releases.git_commits import read_clone, releases_around


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    git(folder, "commit", "-q", "--allow-empty", "-m", text)
    return git(folder, "rev-parse", "--short=7", "HEAD")


def test_a_commit_is_behind_the_release_that_the_branch_has_left(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "before any release")
    leaves = commit(tmp_path, "the last of 0.14")
    git(tmp_path, "checkout", "-q", "-b", "v0.14-release")
    released = commit(tmp_path, "Release: v0.14")
    git(tmp_path, "tag", "v0.14.0")
    patched = commit(tmp_path, "Release: v0.14.1")
    git(tmp_path, "tag", "v0.14.1")
    git(tmp_path, "tag", "v0.14.2-preview")
    git(tmp_path, "checkout", "-q", "main")
    behind = commit(tmp_path, "back to work")
    on_main = commit(tmp_path, "Release: v0.15")
    git(tmp_path, "tag", "v0.15.0")
    last = commit(tmp_path, "behind it")
    found = read_clone("trl", tmp_path)
    assert found == {"0.14.0": [released], "0.14.1": [patched, leaves, behind], "0.15.0": [on_main, last]}


@pytest.mark.parametrize(
    ("library", "named", "around"),
    [
        ("trl", "e95f9fb74a3c3647b86f251b7e230ec51c64b72b", ("0.14.0", "0.15.0")),
        ("trl", "E95F9FB", ("0.14.0", "0.15.0")),
        ("peft", "e536616888d51b453ed354a6f1e243fecb02ea08", ("0.2.0", "0.3.0")),
        ("accelerate", "c9fbb71", ("0.19.0", "0.20.0")),
        ("trl", "e95f9f", None),
        ("trl", "0123456", None),
        ("no_such_library", "e95f9fb", None),
    ],
)
def test_the_releases_around_a_commit(library: str, named: str, around: tuple[str, str] | None) -> None:
    assert releases_around(library, named) == around
