"""A notebook's shell lines: what they leave is what a real shell leaves, or they are said not to have been run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from porter.validate.world.shell_lines import INSTALLED, SHOWN, run_commands

NOT_RUN = "a program that the script starts was not run: "

DONE = """
mkdir -p a/b "c d" 'e'
mkdir -m 755 d
mkdir -pv --mode=700 deep/er
mkdir -p deep && mkdir deep/x; mkdir y
mkdir a#b   # another
mkdir -- -p
mkdir -p ~/.kaggle
echo hi >out.txt
echo hi>out.txt 2>&1
echo hi > out.txt 2>/dev/null
echo "a; b" > g.txt
echo 'a && b | c > d' > g.txt
echo "say \\"x\\"" '#no' \\#no > g.txt  # a comment
echo a > g.txt && echo "b" >> g.txt; echo c >>g.txt
echo ">" x > g.txt
echo -n hi >g.txt
echo > g.txt
echo > g.txt one two
echo &> g.txt
echo 2 > g.txt
echo a 1> g.txt
echo {"rank": 8} > g.txt
echo 'cost: $5' > g.txt
echo a >| ~/g.txt
""".strip().splitlines()


def left_by(folder: Path) -> dict[str, str | None]:
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    ours = tmp_path / "ours"
    ours.mkdir()
    monkeypatch.chdir(ours)
    monkeypatch.setenv("HOME", str(ours))
    return ours


@pytest.mark.skipif(shutil.which("bash") is None, reason="the shell that hosted notebooks have")
@pytest.mark.parametrize("line", DONE)
def test_what_is_run_leaves_what_bash_leaves(folder: Path, line: str) -> None:
    theirs = folder.parent / "theirs"
    theirs.mkdir()
    subprocess.run(["bash", "-c", line], cwd=theirs, env={"HOME": str(theirs), "PATH": "/usr/bin:/bin"}, check=True)
    notes: list[str] = []
    run_commands(line, notes.append)
    assert left_by(folder) == left_by(theirs) != {} and notes == []


@pytest.mark.parametrize(
    "line",
    [
        "mkdir -p {a,b}/c",
        "mkdir run{1..3}",
        "mkdir -p $NO_NAME/x",
        "mkdir `date`",
        "echo $(date) > now",
        'echo "$HF_TOKEN" > token',
        "echo it's > x",
        "cat a.json > b.json",
        "nvidia-smi >gpu.txt",
    ],
)
def test_what_a_shell_would_have_to_be_asked_is_not_run(folder: Path, line: str) -> None:
    notes: list[str] = []
    run_commands(line, notes.append)
    assert notes == [NOT_RUN + line] and left_by(folder) == {}


def test_parts_of_a_pipe(folder: Path) -> None:
    notes: list[str] = []
    run_commands("echo hi | tr a b > out", notes.append)
    assert notes == [SHOWN, f"{NOT_RUN}tr a b > out"] and left_by(folder) == {}
    notes.clear()
    run_commands("pip install -q trl | tail -n 1 2>/dev/null", notes.append)
    assert notes == [INSTALLED, SHOWN]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("mkdir -p f", "mkdir -p f: [Errno 17] File exists: 'f': it was not run"),
        ("mkdir -p f/g", "mkdir -p f/g: [Errno 20] Not a directory: 'f/g': it was not run"),
        ("mkdir -Z x y", "mkdir -Z x y: option -Z not recognized: it was not run"),
        ("mkdir --parents --context x", "mkdir --parents --context x: option --context not recognized: it was not run"),
        ("echo > no/g.txt", "echo > no/g.txt: [Errno 2] No such file or directory: 'no/g.txt': it was not run"),
        ("echo -e 'a\\nb' > g", "echo -e 'a\\nb' > g: escapes: it was not run"),
    ],
)  # fmt: skip
def test_what_fails_is_said_and_the_notebook_goes_on(folder: Path, line: str, said: str) -> None:
    (folder / "f").write_text("a file")
    notes: list[str] = []
    run_commands(f"{line}; mkdir after", notes.append)
    assert notes == [said] and left_by(folder) == {"f": "a file", "after": None}
