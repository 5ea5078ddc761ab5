"""Runs a module in several JAX processes on this machine, as a TPU slice runs a port on its hosts.

    python -m porter.validate.jax_side.launch_hosts COUNT MODULE ARGS...

The first one speaks here, the others into files beside it; the first that fails is named, and ends them all. Where this
interpreter has imported JAX already, they are forks of it: see `preloading`.
"""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

ALONE = "TPU_PORT_ALONE"
SHOWN = 30  # lines of a process that failed


class Fork:
    """A child of this process, with what `subprocess.Popen` has of one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._waited(os.WNOHANG)

    def wait(self) -> int | None:
        return self._waited(0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _waited(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


Process = Fork | subprocess.Popen[bytes]


def main() -> int:
    count, *words = sys.argv[1:]
    address = f"127.0.0.1:{_free_port()}"
    launcher, folder = os.getpid(), Path(tempfile.mkdtemp(prefix="tpu-port-hosts-"))
    logs: list[IO[str] | None] = [None, *((folder / f"{number}.log").open("w+") for number in range(1, int(count)))]
    running: list[Process] = []
    try:
        for number, log in enumerate(logs):
            told = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": count, "JAX_PROCESS_ID": str(number)}
            if "jax" not in sys.modules:
                running.append(_start(words, told, log))
            elif pid := os.fork():
                running.append(Fork(pid))
            else:
                return _become(words, told, log)
        failed = _wait(running)
        _end(running)
        return 0 if failed is None else _told(failed, running[failed].returncode or 0, logs)
    finally:
        if os.getpid() == launcher:
            _end(running)
            shutil.rmtree(folder, ignore_errors=True)


def _told(failed: int, status: int, logs: Sequence[IO[str] | None]) -> int:
    """The exit status for a process that failed; why it did is said here."""
    if log := logs[failed]:
        log.seek(0)
        print("".join(log.readlines()[-SHOWN:]), file=sys.stderr)
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
    print(f"process {failed} of {len(logs)} {how}", file=sys.stderr)
    return status if status > 0 else 128 - status


def _end(running: Sequence[Process]) -> None:
    for process in running:
        process.kill()  # SIGTERM is JAX's to hear
        process.wait()


def _start(words: Sequence[str], told: Mapping[str, str], log: IO[str] | None) -> subprocess.Popen[bytes]:
    """A new interpreter for one of the processes."""
    kept = {name: value for name, value in os.environ.items() if name != ALONE}
    gloo = {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    # Unbuffered, so that a process that is ended leaves what it said.
    command = [sys.executable, "-u", "-m", *words]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**kept, **gloo, **told})


def _become(words: Sequence[str], told: Mapping[str, str], log: IO[str] | None) -> int:
    """Be, in this fork, one of the processes."""
    import jax

    os.environ.pop(ALONE, None)
    os.environ.update(told)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # its variable was read when JAX was imported
    if log is not None:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    module, *sys.argv[1:] = words
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook(*sys.exc_info())  # which tells the other processes: no fork gets as far as the interpreter's end
        return 1
    return 0


def _wait(running: Sequence[Process]) -> int | None:
    """The first process that fails; None when all end well."""
    while True:
        states = [process.poll() for process in running]
        for number, state in enumerate(states):
            if state not in (None, 0):
                return number
        if all(state == 0 for state in states):
            return None
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
