"""A fork of an interpreter that has imported the libraries is to a script what a new interpreter would be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from porter.validate.preloading import client
from porter.validate.preloading.client import Forked


@pytest.fixture
def path(no_interpreters: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """The socket of an interpreter that has imported little; no other one is there."""
    monkeypatch.setitem(client.MODULES, "source", ("-yaml", "pathspec", "+yaml", "colorsys"))
    return client.server("source", sys.executable, dict(os.environ))


def begin(path: str, folder: Path, text: str, *arguments: str, **variables: str) -> Forked | None:
    (folder / "script_of_test.py").write_text(text)
    return client.begin(path, "script_of_test", arguments, {**os.environ, **variables}, str(folder))


def said(process: Forked | None) -> str:
    assert process is not None and process.stdout is not None
    process.wait(60)
    return process.stdout.read().decode()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    until = time.monotonic() + 10
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not alive(pid)


def test_it_has_what_a_new_interpreter_has(path: str, tmp_path: Path) -> None:
    text = (
        "import os, sys, tempfile\n"
        "print(__name__, sys.argv[1:], os.getcwd(), os.environ['OF_THIS'], tempfile.gettempdir())\n"
        "print(sys.path[:2], 'colorsys' in sys.modules, 'porter' in sys.modules, sys.stdin.read() == '')\n"
        "print('error', file=sys.stderr)\n"
    )
    library, temporary = tmp_path / "library", tmp_path / "tmp"
    for each in (library, temporary):
        each.mkdir()
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        process = begin(path, folder, text, "--a", name, OF_THIS=name, PYTHONPATH=str(library), TMPDIR=str(temporary))
        lines = said(process).splitlines()
        assert process is not None and process.returncode == 0, lines
        assert lines == [
            f"__main__ ['--a', '{name}'] {folder} {name} {temporary}",
            f"{[str(folder), str(library)]} True False True",
            "error",
        ]


def test_what_was_hidden_while_it_imported_is_there_again(path: str, tmp_path: Path) -> None:
    assert "safe_load" in said(begin(path, tmp_path, "import yaml\nprint(yaml.safe_load)\n"))


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('said why')", 1, "said why"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("import atexit\natexit.register(print, 'at the end')", 0, "at the end"),
        (
            "import os, sys\nos._exit = None\nsys.kept = open('/dev/stdout', 'w')\nsys.kept.write('not closed')",
            0,
            "not closed",
        ),
        ("import threading, time\nthreading.Timer(0.3, print, ['a thread']).start()", 0, "a thread"),
    ],
)
def test_it_ends_as_a_new_one(path: str, tmp_path: Path, text: str, code: int, shown: str) -> None:
    process = begin(path, tmp_path, text)
    output = said(process)
    assert process is not None and process.returncode == code and shown in output
    assert "preloading" not in output.split("script_of_test.py")[-1]


@pytest.mark.parametrize("name", ["colorsys.py", "pathspec/__init__.py"])
def test_a_project_with_a_module_of_that_name_needs_a_new_one(path: str, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    assert begin(path, tmp_path, "print('ran')") is None


def test_a_folder_without_a_module_is_no_other_library(path: str, tmp_path: Path) -> None:
    (tmp_path / "colorsys").mkdir()
    assert said(begin(path, tmp_path, "print('ran')")) == "ran\n"


def test_who_has_left_its_group_ends_with_its_script(path: str, tmp_path: Path) -> None:
    text = (
        "import os, time\n"
        "if not os.fork():\n"
        "    os.setsid()\n"
        "    if os.fork():\n        os._exit(0)\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(600)\n"
        "os.wait()\ntime.sleep(0.5)\n"
    )
    process = begin(path, tmp_path, text)
    assert process is not None and process.stdout is not None
    daemon = int(process.stdout.readline())
    assert alive(daemon)
    assert process.wait(60) == 0
    assert gone(daemon)


def test_it_ends_when_whoever_asked_goes(path: str, tmp_path: Path) -> None:
    process = begin(path, tmp_path, "import time\nprint('there', flush=True)\ntime.sleep(600)\n")
    assert process is not None and process.stdout is not None
    process.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    process._connection.close()
    assert gone(process.pid)


def test_nothing_is_left_when_they_are_stopped(path: str, tmp_path: Path) -> None:
    process = begin(path, tmp_path, "import time\nprint('there', flush=True)\ntime.sleep(600)\n")
    assert process is not None and process.stdout is not None
    process.stdout.readline()
    (server,) = client._servers.values()
    client.stop()
    assert gone(process.pid) and server.process.returncode is not None and not Path(path).parent.parent.exists()
    assert process.wait(10) == -signal.SIGKILL


def test_one_interpreter_serves_what_differs_in_its_folders_alone(path: str) -> None:
    again = client.server("source", sys.executable, {**os.environ, "HOME": "/elsewhere", "XLA_FLAGS": "--any"})
    assert again == path
    assert client.server("source", sys.executable, {**os.environ, "JAX_PLATFORMS": "other"}) != path


def test_a_server_that_can_not_start_is_replaced_by_a_new_interpreter(no_interpreters: None, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    path = client.server("source", str(broken), {})
    assert begin(path, tmp_path, "print('ran')") is None
