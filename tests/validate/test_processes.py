"""Runs that end badly: each ends in one clear line, and leaves nothing running. No torch: the module is a small one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from porter.validate.observing.settings import Settings
from porter.validate.preloading import client as preloading
from porter.validate.running.processes import KEPT_LINES, Limits, RunFailed, run_observed

# An observer's part: it runs the script and finds no training in it.
OBSERVER = """
import sys
from pathlib import Path
from porter.validate.running.script import run_script
sys.exit(run_script(sys.argv[3], sys.argv[4:], Path(sys.argv[1])))
"""


PATIENT = Limits(timeout=60.0)


def failure(tmp_path: Path, text: str, limits: Limits = PATIENT, folder: Path | None = None) -> RunFailed:
    """How the run of a script with this text fails, in `folder` of the project or at its top."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "small_observer.py").write_text(OBSERVER)
    (tmp_path / "project").mkdir(exist_ok=True)
    script = (folder or tmp_path / "project") / "train.py"
    script.write_text(text)
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "modules")}
    with pytest.raises(RunFailed) as failed:
        run_observed(
            "source", "small_observer", script, (), Settings(str(work)), environment=environment, limits=limits
        )
    return failed.value


@pytest.mark.parametrize(
    ("text", "reason", "output"),
    [
        ("import sys; print('said'); sys.exit(0)", "ended without training", "said"),
        ("import os; os._exit(3)", "crashed (exit status 3)", ""),
        ("name = input('which? ')", "crashed", "EOFError"),
        ("raise SystemExit('no GPU')", "crashed", "no GPU"),
        ("1 / 0", "crashed", "ZeroDivisionError"),
        ("while True: pass", "had not finished after 2 s (--timeout)", ""),
    ],
)
def test_one_clear_reason(tmp_path: Path, text: str, reason: str, output: str) -> None:
    found = failure(tmp_path, text, Limits(timeout=2.0) if "while" in text else PATIENT)
    assert reason in found.reason
    assert output in found.output
    assert str(tmp_path / "work") not in found.output  # the user's own paths, not those of the copy


def test_a_script_with_relative_imports_runs_as_a_module(tmp_path: Path) -> None:
    package = tmp_path / "project" / "tuning" / "steps"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package.parent / "rates.py").write_text("RATE = 3")
    (package / "here.py").write_text("from ..rates import RATE")
    found = failure(tmp_path, "from .here import RATE\nprint(__name__, __package__)\n1 / (RATE - 3)", folder=package)
    assert "ZeroDivisionError" in found.output
    assert f'File "{package / "train.py"}", line 3' in found.output


def test_much_output_is_read_and_forgotten(tmp_path: Path) -> None:
    found = failure(
        tmp_path, "import sys\nfor _ in range(3000): sys.stdout.write('x' * 9999 + '\\n')\nprint('y' * 10**7)\n1/0"
    )
    assert len(found.output) < KEPT_LINES * 10_000
    assert "ZeroDivisionError" in found.output


def test_memory_has_a_limit(tmp_path: Path) -> None:
    text = "import time\nkept = bytearray(600_000_000)\nkept[::4096] = b'1' * len(kept[::4096])\ntime.sleep(30)"
    assert "of memory" in failure(tmp_path, text, Limits(timeout=25.0, memory=400_000_000)).reason


def test_nothing_is_left_running(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    text = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(600)\n"
        "while True: time.sleep(1)\n"
    )
    failure(tmp_path, text, Limits(timeout=4.0))
    child = int(note.read_text())
    end = time.monotonic() + 5
    while time.monotonic() < end and Path(f"/proc/{child}").exists() and not _is_dead(child):
        time.sleep(0.1)
    assert not Path(f"/proc/{child}").exists() or _is_dead(child)


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_what_is_imported_ahead_has_the_users_hugging_face_folder(
    no_interpreters: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its libraries keep the folder that they find when they are imported; a home of a run's own is gone after it."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setitem(preloading.MODULES, "source", ("huggingface_hub.constants",))
    text = (
        "import sys\nprint('huggingface_hub.constants' in sys.modules)\n"
        "from huggingface_hub import constants\nprint(constants.HF_HOME)\n"
    )
    assert failure(tmp_path, text).output.splitlines() == ["True", str(tmp_path / "hub")]


def test_a_process_whose_name_is_no_text_is_counted() -> None:
    from porter.validate.running.processes import _resident

    code = "open('/proc/self/comm', 'wb').write(b'\\xff) 1'); print(flush=True); input()"
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None and child.stdout.readline()
        assert _resident(child.pid) > 1_000_000
        child.kill()
