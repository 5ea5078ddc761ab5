"""Runs a module in several JAX processes on this machine, as a TPU slice runs a port on its hosts.

    python -m porter.validate.jax_side.launch_hosts COUNT MODULE ARGS...

The first one speaks here, the others into files beside it; the first that fails is named, and ends them all.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

ALONE = "TPU_PORT_ALONE"
SHOWN = 30  # lines of a process that failed


def main() -> int:
    count, *words = sys.argv[1:]
    address = f"127.0.0.1:{_free_port()}"
    with tempfile.TemporaryDirectory(prefix="tpu-port-hosts-") as folder:
        logs = [(Path(folder) / f"{number}.log").open("w+") for number in range(1, int(count))]
        running = [_start(words, address, int(count), number, log) for number, log in enumerate([None, *logs])]
        try:
            failed = _wait(running)
        finally:
            for process in running:
                process.kill()  # SIGTERM is JAX's to hear
                process.wait()
        if failed is None:
            return 0
        status = running[failed].returncode
        if failed:
            log = logs[failed - 1]
            log.seek(0)
            print("".join(log.readlines()[-SHOWN:]), file=sys.stderr)
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
        print(f"process {failed} of {count} {how}", file=sys.stderr)
        return status if status > 0 else 128 - status


def _start(words: list[str], address: str, count: int, number: int, log: IO[str] | None) -> subprocess.Popen[bytes]:
    told = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": str(count), "JAX_PROCESS_ID": str(number)}
    kept = {name: value for name, value in os.environ.items() if name != ALONE}
    gloo = {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    # Unbuffered, so that a process that is ended leaves what it said.
    command = [sys.executable, "-u", "-m", *words]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**kept, **gloo, **told})


def _wait(running: list[subprocess.Popen[bytes]]) -> int | None:
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
