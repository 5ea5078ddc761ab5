"""Several processes as one run: the first that fails is named, and none is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from porter.validate.options import Options
from porter.validate.preloading import client
from porter.validate.run import port_environment
from porter.validate.running.processes import import_ahead

PORT = Path(__file__).parents[1] / "real" / "scripts" / "sft_lora_qwen3_tunix.py"
RANK = """
import os, signal, sys, time
number, how = int(os.environ["JAX_PROCESS_ID"]), sys.argv[1]
print("process", number, os.environ["JAX_NUM_PROCESSES"], os.environ["JAX_COORDINATOR_ADDRESS"].split(":")[0])
print("alone", os.environ.get("TPU_PORT_ALONE"))
if how == "well":
    sys.exit()
if number == 1:
    while not os.path.exists("first") or not os.path.getsize("first"):
        time.sleep(0.01)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raises":
        raise RuntimeError("no rows")
    sys.exit("no rows")
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as JAX does
open("first", "w").write(str(os.getpid()))
time.sleep(60)
"""


MODULE = "porter.validate.jax_side.launch_hosts"


def launched(folder: Path, forked: bool, how: str) -> tuple[int, str]:
    """Its exit status, and what it and the first process say. `forked`: by an interpreter that has imported JAX."""
    (folder / "rank.py").write_text(RANK)
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment, words = {**os.environ, "PYTHONPATH": path, "TPU_PORT_ALONE": "1"}, ["2", "rank", how]
    if forked:
        process = client.begin(
            import_ahead("port", PORT, port_environment(Options())), MODULE, words, environment, str(folder)
        )
        assert process is not None and process.stdout is not None
        said = process.stdout.read().decode()
        return process.wait(50), said
    command = [sys.executable, "-m", MODULE, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=50)
    return done.returncode, done.stdout + done.stderr


STARTS = [False, pytest.param(True, marks=pytest.mark.real)]


@pytest.mark.parametrize("forked", STARTS)
def test_all_end_well(tmp_path: Path, forked: bool) -> None:
    status, said = launched(tmp_path, forked, "well")
    assert (status, said.splitlines()) == (
        0,
        ["process 0 2 127.0.0.1", "alone None"],
    )  # the others speak where they fail


@pytest.mark.parametrize("forked", STARTS)
@pytest.mark.parametrize(
    ("how", "status", "shown"),
    [
        ("killed", 137, ["process 1 of 2 was ended by SIGKILL"]),
        ("fails", 1, ["no rows", "process 1 of 2 ended with exit status 1"]),
        ("raises", 1, ["RuntimeError: no rows", "process 1 of 2 ended with exit status 1"]),
    ],
)
def test_one_that_fails_ends_the_others(tmp_path: Path, how: str, status: int, shown: list[str], forked: bool) -> None:
    started = time.monotonic()
    ended, said = launched(tmp_path, forked, how)
    assert ended == status and time.monotonic() - started < 40
    assert [line for line in shown if line not in said] == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "first").read_text()), 0)
