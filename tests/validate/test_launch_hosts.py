"""Several processes as one run: the first that fails is named, and none is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

RANK = """
import os, signal, sys, time
number, how = int(os.environ["JAX_PROCESS_ID"]), sys.argv[1]
print("process", number, os.environ["JAX_NUM_PROCESSES"], os.environ["JAX_COORDINATOR_ADDRESS"].split(":")[0])
print("alone", os.environ.get("TPU_PORT_ALONE"))
if how == "well":
    sys.exit()
if number == 1:
    open("pid", "w").write(str(os.getppid()))
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit("no rows")
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as JAX does
open("first", "w").write(str(os.getpid()))
time.sleep(60)
"""


def launched(folder: Path, how: str) -> subprocess.CompletedProcess[str]:
    (folder / "rank.py").write_text(RANK)
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "porter.validate.jax_side.launch_hosts", "2", "rank", how],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "TPU_PORT_ALONE": "1"},
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_all_end_well(tmp_path: Path) -> None:
    done = launched(tmp_path, "well")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["process 0 2 127.0.0.1", "alone None"]  # the others speak only where they fail


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ("killed", 137, ["process 1 of 2 was ended by SIGKILL"]),
        ("fails", 1, ["no rows", "process 1 of 2 ended with exit status 1"]),
    ],
)
def test_one_that_fails_ends_the_others(tmp_path: Path, how: str, status: int, said: list[str]) -> None:
    started = time.monotonic()
    done = launched(tmp_path, how)
    assert done.returncode == status and time.monotonic() - started < 40
    assert [line for line in said if line not in done.stderr] == []
    if (tmp_path / "first").exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "first").read_text()), 0)
