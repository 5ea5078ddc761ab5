"""Scripts in several real JAX processes on this machine (gloo)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from porter.validate.preloading import client
from porter.validate.preloading.client import Forked
from porter.validate.running.processes import kill_group

REPOSITORY = Path(__file__).parents[2]


def variables(devices: int, **more: str) -> dict[str, str]:
    """The environment of a process with its own number of simulated devices."""
    flags = [flag for flag in os.environ["XLA_FLAGS"].split() if "device_count" not in flag]
    kept = {name: value for name, value in os.environ.items() if name != "TPU_PORT_ALONE"}
    own = {
        "XLA_FLAGS": " ".join([*flags, f"--xla_force_host_platform_device_count={devices}"]),
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "PYTHONUNBUFFERED": "1",
    }
    return {**kept, **own, **more}


def together(
    commands: Sequence[Sequence[str]], *, devices: int = 1, timeout: float = 600, more: Mapping[str, str] | None = None
) -> list[tuple[int, str]]:
    """Exit status and output of Python with each of the commands, one a process of one run.

    Modules (`-m tests.real.host_runs`) run in forks of an interpreter that has imported JAX, as `validate`'s ports do.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    usual, running = variables(devices, **(more or {})), []
    for number, command in enumerate(commands):
        environment = {
            **usual,
            "JAX_COORDINATOR_ADDRESS": address,
            "JAX_NUM_PROCESSES": str(len(commands)),
            "JAX_PROCESS_ID": str(number),
        }
        running.append(_forked(command, usual, environment) or _new(command, environment))
    with ThreadPoolExecutor(len(running)) as readers:
        try:
            outputs = list(readers.map(lambda process: process.stdout.read().decode(), running, timeout=timeout))
            return [(process.wait(timeout), output) for process, output in zip(running, outputs, strict=True)]
        finally:
            for process in running:
                kill_group(process)


def _forked(command: Sequence[str], usual: Mapping[str, str], environment: Mapping[str, str]) -> Forked | None:
    if command[0] != "-m":
        return None
    server = client.server("port", sys.executable, usual)
    return client.begin(server, command[1], command[2:], environment, str(REPOSITORY)) if server else None


def _new(command: Sequence[str], environment: Mapping[str, str]) -> Any:
    return subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
