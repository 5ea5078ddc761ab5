"""Asks an interpreter that has imported the large libraries to run a module, and starts it at the first time."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

SERVER = Path(__file__).with_name("server.py")
# What each side imports before it starts its script. Modules that ask for GPU libraries when they are imported find
# none: stand-ins are there for scripts alone.
MODULES = {
    "source": (
        *("numpy", "pandas", "pyarrow", "torch", "torch._dynamo", "torch.distributed.fsdp", "datasets"),
        *("transformers", "transformers.modeling_utils", "transformers.trainer"),
    ),
    # Without torch, as on a TPU host: transformers and tensorboardX import it where they find it.
    "port": (
        *("-torch", "numpy", "pandas", "pyarrow", "jax", "flax.nnx", "optax", "qwix", "orbax.checkpoint", "grain"),
        *("tunix", "tunix.sft.peft_trainer", "tunix.models.qwen3.model", "tunix.models.safetensors_loader"),
        *("tensorboardX", "jinja2.sandbox", "transformers", "transformers.generation", "transformers.processing_utils"),
        *("transformers.models.auto.tokenization_auto", "transformers.models.auto.processing_auto"),
        *("transformers.tokenization_utils_fast", "transformers.convert_slow_tokenizer"),
        *("+torch", "datasets"),
    ),
}
# What a run may change of its environment: nothing reads these when it is imported, or it is said again in the fork.
OF_A_RUN = frozenset(
    "HOME TMPDIR XDG_CACHE_HOME PYTHONPATH TPU_PORT_RUN XLA_FLAGS PWD OLDPWD _ PYTEST_CURRENT_TEST".split()
)
PATIENCE = 120.0  # seconds for its imports, before a new interpreter is started instead
AT_MOST = 4  # interpreters at once: each holds half a gigabyte


class Forked:
    """A process that a preloaded interpreter forked, with what `subprocess.Popen` has of it."""

    def __init__(self, pid: int, connection: socket.socket, stdout: IO[bytes] | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._connection = connection

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. subprocess.TimeoutExpired when it hasn't ended after `timeout` seconds."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                told = _line(self._connection)
            except TimeoutError:
                raise subprocess.TimeoutExpired("a forked interpreter", timeout or 0.0) from None
            except OSError:
                told = {}
            self._connection.close()
            self.returncode = int(told.get("returncode", -9))  # the server is gone, and its forks with it
        return self.returncode


@dataclass
class _Server:
    process: subprocess.Popen[bytes]
    socket: str


_servers: dict[tuple[object, ...], _Server] = {}
_lock = threading.Lock()
_folder: list[str] = []


def server(side: str, python: str, environment: Mapping[str, str]) -> str:
    """The socket of the interpreter that has imported for `side`, "" where there can be none.

    It is started when there is none, and ends with this process.
    """
    if not hasattr(socket, "send_fds") or not sys.platform.startswith("linux"):
        return ""
    kept = {name: value for name, value in environment.items() if name not in OF_A_RUN}
    key = (side, python, tuple(sorted(kept.items())))
    with _lock:
        found = _servers.pop(key, None)
        if found is None or found.process.poll() is not None:
            found = _start(side, python, kept)
        _servers[key] = found  # the last one used stands last
        while len(_servers) > AT_MOST:
            _stop(_servers.pop(next(iter(_servers))))
        return found.socket


def _start(side: str, python: str, environment: Mapping[str, str]) -> _Server:
    if not _folder:
        _folder.append(tempfile.mkdtemp(prefix="tpu-port-preloaded-"))
        atexit.register(stop)
    number = len(os.listdir(_folder[0]))
    home = Path(_folder[0]) / str(number)
    home.mkdir()
    path = str(home / "socket")
    process = subprocess.Popen(
        [python, str(SERVER), path, json.dumps(MODULES[side])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=home,
        env={**environment, "HOME": str(home), "TMPDIR": str(home)},
        start_new_session=True,
    )
    return _Server(process, path)


def _stop(server: _Server) -> None:
    assert server.process.stdin is not None
    with contextlib.suppress(OSError):
        server.process.stdin.close()
    try:
        server.process.wait(3)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()


def running() -> list[int]:
    """The process ids of those that stand."""
    with _lock:
        return [each.process.pid for each in _servers.values() if each.process.poll() is None]


def stop() -> None:
    """End all of them."""
    with _lock:
        while _servers:
            _stop(_servers.popitem()[1])
        while _folder:
            shutil.rmtree(_folder.pop(), ignore_errors=True)


def begin(
    path: str, module: str, arguments: Sequence[str], environment: Mapping[str, str], folder: str
) -> Forked | None:
    """`python -m module arguments` in `folder`, forked from the interpreter at socket `path`.

    What it prints, errors too, comes from `stdout`. None where it can't be done as a new interpreter would do it.
    """
    out, into = os.pipe()
    stdin = os.open(os.devnull, os.O_RDONLY)
    try:
        asked = _ask(path, module, arguments, environment, folder, [stdin, into, into])
    finally:
        os.close(into)
        os.close(stdin)
    if asked is None:
        os.close(out)
        return None
    pid, connection = asked
    return Forked(pid, connection, os.fdopen(out, "rb"))


def run(path: str, module: str, asked: str, environment: Mapping[str, str], folder: str) -> tuple[int, str] | None:
    """`python -m module` with `asked` on its standard input: its exit status and what it wrote to its standard error.

    None where that can't be done as a new interpreter would do it.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors, open(os.devnull, "wb") as nothing:
        given.write(asked.encode())
        given.seek(0)
        found = _ask(path, module, [], environment, folder, [given.fileno(), nothing.fileno(), errors.fileno()])
        if found is None:
            return None
        code = Forked(*found, None).wait()
        errors.seek(0)
        return code, errors.read().decode("utf-8", "replace")


def _ask(
    path: str, module: str, arguments: Sequence[str], environment: Mapping[str, str], folder: str, streams: list[int]
) -> tuple[int, socket.socket] | None:
    asked = {"module": module, "arguments": [*arguments], "environment": dict(environment), "folder": folder}
    connection = socket.socket(socket.AF_UNIX)
    try:
        _connect(connection, path)
        connection.settimeout(PATIENCE)
        data = json.dumps(asked).encode() + b"\n"
        sent = socket.send_fds(connection, [data], streams)
        connection.sendall(data[sent:])
        told = _line(connection)
        connection.settimeout(None)
    except OSError:
        told = {}
    if "pid" in told:
        return int(told["pid"]), connection
    connection.close()
    return None


def _connect(connection: socket.socket, path: str) -> None:
    """Connect to a server, which binds its socket before it imports. OSError when there is none after all."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            dead = any(each.socket == path and each.process.poll() is not None for each in [*_servers.values()])
            if dead or time.monotonic() > until:
                raise
        time.sleep(0.05)


def _line(connection: socket.socket) -> dict[str, Any]:
    """The next answer, {} when there is none. TimeoutError when it takes longer than the connection's timeout."""
    data = b""
    while not data.endswith(b"\n"):
        more = connection.recv(1)
        if not more:
            return {}
        data += more
    found: dict[str, Any] = json.loads(data)
    return found
