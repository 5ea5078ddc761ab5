"""Files that aren't what they seem: nothing is read that isn't a file, and nothing is written outside of the output."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from porter.cli import run
from porter.errors import InputError
from porter.files import is_file, read_file
from tests.engine.porting import sft_script

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(sft_script())
    return source


@pytest.mark.parametrize("name", ["/dev/zero", "fifo", "folder", "sparse", "a\0b", "x" * 5000])
def test_what_is_no_file_of_a_sensible_size_is_not_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises((InputError, OSError)):
        read_file(tmp_path / name)
    if name != "sparse":
        assert not is_file(tmp_path / name)


@pytest.mark.parametrize("name", ["/dev/zero", "fifo", "loop"])
def test_a_script_that_is_none_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")
    assert run([str(folder / name)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "internal error" not in error
    for option in ("--launch-config",):
        assert run([str(folder / "train.py"), option, str(folder / name)]) == 2
        assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("value", ["/dev/zero", "fifo", "x" * 5000, "a\0b", "/root/no/such", "config"])
def test_what_a_script_names_may_be_anything(folder: Path, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_PORT_TRACEBACK", "1")  # a mistake of ours is raised
    os.mkfifo(folder / "fifo")
    (folder / "config").mkdir()
    (folder / "config" / "config.json").write_text("[" * 100_000)
    text = sft_script(config=f", deepspeed={value!r}, fsdp_config={value!r}").replace(
        "Qwen/Qwen3-0.6B", ascii(value)[1:-1]
    )
    (folder / "train.py").write_text(text)
    assert run([str(folder / "train.py")]) in (0, 1, 2)
    (folder / "config" / "config.json").write_text('{"architectures": {"a": 1}, "hidden_size": "many"}')
    assert run([str(folder / "train.py")]) in (0, 1, 2)


def test_a_tree_of_odd_things_is_ported_and_nothing_lies_outside(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs.py").write_text("x = 1\n")
    (folder / "link.py").symlink_to(outside / "theirs.py")
    (folder / "linked").symlink_to(outside)
    (folder / "up").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo.py")
    (folder / "Train.py").write_text(sft_script())
    (folder / "new\nline.py").write_text("y = 2\n")
    with open(os.fsencode(folder) + b"/\xff\xfe.py", "w") as file:
        file.write("z = 3\n")
    before = {path: path.read_bytes() for path in outside.iterdir()}
    code = run([str(folder), "-o", str(tmp_path / "out")])
    got = capsys.readouterr()
    assert code in (0, 1, 2) and "internal error" not in got.err
    assert {path: path.read_bytes() for path in outside.iterdir()} == before
    assert (tmp_path / "out" / "train.py").read_text() == (tmp_path / "out" / "Train.py").read_text()
    assert os.path.exists(os.fsencode(tmp_path / "out") + b"/\xff\xfe.py")
    assert not (tmp_path / "out" / "fifo.py").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "outside", "source"]


def test_a_link_in_an_earlier_output_is_not_followed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "config.py").write_text("LR = 1\n")
    out, outside = tmp_path / "out", tmp_path / "outside"
    for place in (out, outside):
        place.mkdir()
    (outside / "config.py").write_text("precious\n")
    (out / "sub").symlink_to(outside)
    assert run([str(folder), "-o", str(out), "--force"]) == 2
    assert "is a link, and the port has a folder there" in capsys.readouterr().err
    assert (outside / "config.py").read_text() == "precious\n" and not (out / "train.py").exists()
    (out / "sub").unlink()
    (out / "train.py").symlink_to(outside / "config.py")
    assert run([str(folder), "-o", str(out), "--force"]) == 0
    assert (outside / "config.py").read_text() == "precious\n" and not (out / "train.py").is_symlink()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_who_may_read_the_source_may_read_the_port(folder: Path, tmp_path: Path, mode: int) -> None:
    (folder / "train.py").chmod(mode)
    run([str(folder / "train.py"), "-o", str(tmp_path / "out.py")])
    run([str(folder), "-o", str(tmp_path / "out")])
    for place in (tmp_path, tmp_path / "out"):
        name = "out" if place == tmp_path else "train"
        assert (place / f"{name}.py").stat().st_mode & 0o777 == mode
        assert (place / f"{name}.recipe.json").stat().st_mode & 0o777 == mode & 0o666


def test_an_output_in_its_source_is_no_part_of_it(folder: Path) -> None:
    out = folder / "ported"
    assert run([str(folder), "-o", str(out)]) == 0
    assert run([str(folder), "-o", str(out), "--force"]) == 0
    assert not (out / "ported").exists()
    assert run([str(folder), "-o", str(folder), "--force"]) == 2


START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from porter.cli import main; main()"


def test_a_full_disk_leaves_nothing_half(folder: Path, tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for it: every write beyond the limit fails, as on a disk without room."""
    (folder / "train.py").write_text(sft_script(before="# filled up\n" * 400))
    start = f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); {START}"
    for output in (tmp_path / "out.py", tmp_path / "out"):
        source = folder if output.suffix == "" else folder / "train.py"
        done = subprocess.run(
            [sys.executable, "-c", start, str(source), "-o", str(output)],
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)),
        )
        assert done.returncode == 2 and "can't be written" in done.stderr, done.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_two_runs_at_once_leave_one_whole_port(folder: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", START, str(folder / "train.py"), "-o", str(tmp_path / "out.py"), "--force"]
    runs = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in runs:
        assert "internal error" not in process.communicate()[1] and process.returncode == 0
    compile((tmp_path / "out.py").read_text(), "out.py", "exec")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.py", "out.recipe.json", "source"]


def test_what_launch_scripts_name_may_be_anything(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_PORT_TRACEBACK", "1")  # a mistake of ours is raised
    script = folder / "train.py"
    script.write_text("import argparse\nparser = argparse.ArgumentParser()\n" + sft_script())
    (folder / "loop.txt").symlink_to("loop.txt")
    long = "a" * 300
    for name in ("run.sh", "Dockerfile"):
        (folder / name).write_text(
            f"cd {long}\npip install -r loop.txt -r {long}.txt\npython train.py --config {long}.yaml --lr 1\n"
        )
    assert run([str(script)]) in (0, 1)
