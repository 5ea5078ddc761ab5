"""What a script may do while it is validated: each script runs in a process of its own, under the guard alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

START = """
import runpy, sys
from pathlib import Path
from porter.validate.observing.guard import Guard
notes = []
Guard(Path(sys.argv[2]), [sys.argv[3]], notes.append, online=False).install()
try:
    runpy.run_path(sys.argv[1], run_name="__main__")
finally:
    print("\\n".join(f"note: {note}" for note in notes))
"""


def run(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    """The script `text` in a folder where it may write; `tmp_path`/theirs is somebody else's."""
    copy, theirs = tmp_path / "copy", tmp_path / "theirs"
    copy.mkdir()
    theirs.mkdir()
    (theirs / "kept.txt").write_text("kept")
    script = copy / "train.py"
    script.write_text(text.replace("THEIRS", str(theirs)))
    return subprocess.run(
        [sys.executable, "-c", START, str(script), str(tmp_path / "outside"), str(copy)],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_writes_elsewhere_are_found_again_and_touch_nothing(tmp_path: Path) -> None:
    text = (
        "import os, shutil\nfrom pathlib import Path\n"
        "os.makedirs('THEIRS/new/deep', exist_ok=True)\n"
        "Path('THEIRS/new/deep/a.txt').write_text('mine')\n"
        "assert Path('THEIRS/new/deep/a.txt').read_text() == 'mine' and os.listdir('THEIRS/new') == ['deep']\n"
        "open('THEIRS/kept.txt', 'a').write('!')\n"
        "os.remove('THEIRS/kept2.txt') if os.path.exists('THEIRS/kept2.txt') else None\n"
        "shutil.rmtree('THEIRS')\n"
        "open('here.txt', 'w').write('here')\n"
        "print('done')\n"
    )
    done = run(tmp_path, text)
    assert "done" in done.stdout, done.stderr
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["kept.txt"]
    assert (tmp_path / "theirs" / "kept.txt").read_text() == "kept"
    assert (tmp_path / "copy" / "here.txt").exists()
    assert "lies outside the script's folder" in done.stdout


def test_a_link_in_the_copy_leads_nobody_out(tmp_path: Path) -> None:
    done = run(
        tmp_path, "import os\nos.symlink('THEIRS', 'link')\nopen('link/kept.txt', 'w').write('lost')\nprint('done')"
    )
    assert (tmp_path / "theirs" / "kept.txt").read_text() == "kept", done.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "import os; assert os.system('touch THEIRS/x') == 0",
        "import subprocess; subprocess.run(['touch', 'THEIRS/x'], check=True)",
        "import subprocess; subprocess.check_output('touch THEIRS/x', shell=True)",
    ],
)
def test_programs_of_the_script_are_not_run(tmp_path: Path, statement: str) -> None:
    done = run(tmp_path, f"{statement}\nprint('done')")
    assert "done" in done.stdout, done.stderr
    assert not (tmp_path / "theirs" / "x").exists()
    assert "a program that the script starts was not run: touch" in done.stdout


def test_programs_of_libraries_are(tmp_path: Path) -> None:
    text = "import platform, sysconfig\nassert platform.processor() is not None\nprint('done')"
    assert "was not run" not in run(tmp_path, text).stdout


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("socket.create_connection(('192.0.2.1', 80), timeout=2)", "no network under validate"),
        ("socket.getaddrinfo('example.org', 443)", "no network under validate: example.org"),
        ("socket.socket().bind(('0.0.0.0', 0))", "to others"),
    ],
)
def test_nothing_leaves_the_machine(tmp_path: Path, statement: str, said: str) -> None:
    done = run(tmp_path, f"import socket\n{statement}")
    assert done.returncode == 1
    assert said in done.stderr


def test_loopback_stays(tmp_path: Path) -> None:
    assert run(tmp_path, "import socket\nsocket.socket().bind(('127.0.0.1', 0))").returncode == 0


def test_what_slips_past_is_ended(tmp_path: Path) -> None:
    done = run(tmp_path, "import posix\nposix.mkdir('THEIRS/x')")
    assert "PermissionError" in done.stderr
    assert not (tmp_path / "theirs" / "x").exists()
