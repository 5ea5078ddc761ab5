"""When a port joins other processes, and what it says where it can't: tests/real/test_hosts.py has several of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from porter.runtime.hosts import processes


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (processes.ADDRESS, processes.COUNT, processes.INDEX, processes.ALONE, "TPU_WORKER_HOSTNAMES"):
        monkeypatch.delenv(name, raising=False)


def test_one_process_without_a_cluster_joins_nobody() -> None:
    import jax

    processes.connect()
    assert not jax.distributed.is_initialized()
    assert processes.from_first("a reward function", lambda: "said") == "said"
    processes.agree("the rows", 1)
    processes.together("saving")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({processes.COUNT: "2"}, f"{processes.INDEX} and {processes.ADDRESS} must be set, too"),
        ({processes.INDEX: "0", processes.ADDRESS: "a:1"}, f"{processes.COUNT} must be set, too"),
        ({processes.COUNT: "2", processes.INDEX: "2", processes.ADDRESS: "a:1"}, "is not one of the 2 processes"),
        ({processes.COUNT: "two", processes.INDEX: "0", processes.ADDRESS: "a:1"}, "must be numbers"),
    ],
)
def test_variables_that_say_too_little_are_named(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], said: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=said):
        processes.connect()


def test_who_asks_for_help_or_is_to_be_alone_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(processes.COUNT, "2")  # the others are missing: joining would end it
    with monkeypatch.context() as asked:
        asked.setattr(sys, "argv", ["train.py", "--help"])
        processes.connect()
    monkeypatch.setenv(processes.ALONE, "1")
    processes.connect()


SPAWNING = """
import multiprocessing, os, sys
from porter.runtime.hosts import processes
processes.connect()
if __name__ == "__main__":
    told = {processes.COUNT: "2", processes.INDEX: "1", processes.ADDRESS: "127.0.0.1:1", processes.WAIT: "2"}
    os.environ.update(told)  # as of a run with another process
    child = multiprocessing.get_context(sys.argv[1]).Process(target=print, args=("WORKED",))
    child.start()
    child.join()
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_of_pythons_own_that_imports_the_script_again_joins_nobody(tmp_path: Path, method: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SPAWNING)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(script), method]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("WORKED", "")


@pytest.mark.parametrize(("names", "platforms", "joins"), [("a,b", "", True), ("a", "", False), ("a,b", "cpu", False)])
def test_a_slice_of_several_hosts_is_what_jax_takes_for_one(
    monkeypatch: pytest.MonkeyPatch, names: str, platforms: str, joins: bool
) -> None:
    from jax._src.clusters import cloud_tpu_cluster

    monkeypatch.setattr(cloud_tpu_cluster, "running_in_cloud_tpu_vm", True)
    monkeypatch.setattr(processes, "_has_tpu", lambda: True)
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", names)
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    assert processes._on_a_tpu_cluster() is joins
