"""Scripts in several real JAX processes on this machine (gloo)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

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
    """Exit status and output of Python with each of the commands, one a process of one run."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    running = []
    for number, command in enumerate(commands):
        told = {
            "JAX_COORDINATOR_ADDRESS": address,
            "JAX_NUM_PROCESSES": str(len(commands)),
            "JAX_PROCESS_ID": str(number),
        }
        environment = variables(devices, **told, **(more or {}))
        running.append(
            subprocess.Popen(
                [sys.executable, *command],
                env=environment,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        outputs = [process.communicate(timeout=timeout)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    return [(process.returncode, output) for process, output in zip(running, outputs, strict=True)]
