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

from porter.validate.options import Options
from porter.validate.preloading import client
from porter.validate.preloading.client import Forked
from porter.validate.run import port_environment
from porter.validate.running.processes import import_ahead, kill_group

from .outside import REPOSITORY, SCRIPTS

PORT = SCRIPTS / "sft_lora_qwen3_tunix.py"


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

    Modules (`-m tests.real.host_runs`) and scripts (in their own folders) run in forks of an interpreter that has
    imported JAX: the one that `validate`'s ports fork from.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    usual, count = variables(devices, JAX_COORDINATOR_ADDRESS=address, **(more or {})), str(len(commands))
    told = [{"JAX_NUM_PROCESSES": count, "JAX_PROCESS_ID": str(number)} for number in range(len(commands))]
    return _ended([_started(command, {**usual, **own}) for command, own in zip(commands, told, strict=True)], timeout)


def alone(command: Sequence[str], *, devices: int = 1, timeout: float = 600, **more: str) -> tuple[int, str]:
    """The same of one process, which knows of others what `more` variables tell it."""
    (found,) = _ended([_started(command, variables(devices, **more))], timeout)
    return found


def _ended(running: Sequence[Any], timeout: float) -> list[tuple[int, str]]:
    with ThreadPoolExecutor(len(running)) as readers:
        try:
            outputs = list(readers.map(lambda process: process.stdout.read().decode(), running, timeout=timeout))
            return [(process.wait(timeout), output) for process, output in zip(running, outputs, strict=True)]
        finally:
            for process in running:
                kill_group(process)


def _started(command: Sequence[str], environment: Mapping[str, str]) -> Any:
    return _forked(command, environment) or _new(command, environment)


def _forked(command: Sequence[str], environment: Mapping[str, str]) -> Forked | None:
    first, *words = command
    if first == "-m":
        module, folder = words.pop(0), REPOSITORY
    elif first.endswith(".py"):
        module, folder = Path(first).stem, Path(first).parent
    else:
        return None
    server = import_ahead("port", PORT, port_environment(Options()))
    return client.begin(server, module, words, environment, str(folder)) if server else None


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
