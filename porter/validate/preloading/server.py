"""The interpreter that has imported: it takes requests at a Unix socket and forks for each.

    python server.py SOCKET MODULES_AS_JSON

Runs in any environment, from Python 3.10 on, and imports nothing of tpu-port: a fork imports that as a new interpreter
would. A request is one line of JSON (`module`, `arguments`, `environment`, `folder`), with the three standard streams
as file descriptors beside it. Answered are the process id, then the exit status, or that a new interpreter is needed.
A connection that is closed ends its process; the end of this process's standard input ends all.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
from importlib.machinery import PathFinder
from typing import NoReturn

HIDDEN, SHOWN = "-", "+"  # before a module that has to look missing to those that are imported in between
PR_SET_CHILD_SUBREAPER = 36
LONGEST = 1 << 22  # bytes of a request
END = os._exit  # a notebook's cells get another


def preload(names: list[str]) -> None:
    """Import what there is of `names`; what fails is left to the script, which may not need it."""
    for name in names:
        if name.startswith(HIDDEN):
            sys.modules[name[1:]] = None  # type: ignore[assignment]
        elif name.startswith(SHOWN):
            del sys.modules[name[1:]]
        else:
            try:
                importlib.import_module(name)
            except BaseException:
                continue
    gc.collect()
    gc.freeze()  # no collection of a fork touches, and so copies, what is shared


class Server:
    """What is forked and not ended yet: process id → the connection that asked for it."""

    def __init__(self, path: str) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        self.bare = frozenset(sys.modules)
        self.path = list(sys.path)
        self.runs: dict[int, socket.socket] = {}

    def serve(self) -> dict[str, object] | None:
        """Answer requests. Returns twice: the request in each fork, None here when the end has come."""
        selector = selectors.DefaultSelector()
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        selector.register(self.listener, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    for pid in self.runs:
                        end(pid)
                    return None
                if key.fileobj is self.listener:
                    connection, _ = self.listener.accept()
                    request = self.fork(connection)
                    if request is not None:
                        selector.close()
                        os.close(woken)
                        os.close(wake)
                        return request
                    if connection.fileno() >= 0:
                        selector.register(connection, selectors.EVENT_READ)
                elif key.fileobj == woken:
                    os.read(woken, 4096)
                    self.reap(selector)
                else:  # whoever asked has gone
                    selector.unregister(key.fileobj)
                    for pid, connection in self.runs.items():
                        if connection is key.fileobj:
                            end(pid)

    def fork(self, connection: socket.socket) -> dict[str, object] | None:
        """Fork for what is asked at `connection`; the request in the fork, None here."""
        try:
            request, streams = received(connection)
        except (OSError, ValueError):
            connection.close()
            return None
        shadow = self.shadowed(request)
        pid = 0 if shadow else os.fork()
        if shadow or pid:
            for stream in streams:
                os.close(stream)
            if shadow:
                tell(connection, {"new": shadow})
                connection.close()
            else:
                tell(connection, {"pid": pid})
                self.runs[pid] = connection
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        for other in (connection, self.listener, *self.runs.values()):
            other.close()
        return request

    def shadowed(self, request: dict[str, object]) -> str:
        """A module that is imported here and that the script's own folders have, too: theirs would be first."""
        imported = {name.partition(".")[0] for name in sys.modules if name not in self.bare}
        for folder in search_path(request):
            try:
                names = {name.partition(".")[0] for name in os.listdir(folder)}
            except OSError:
                continue
            for name in sorted(names & imported):
                spec = PathFinder.find_spec(name, [folder])
                here = getattr(sys.modules.get(name), "__file__", None)
                if spec is not None and spec.loader is not None and spec.origin not in (None, here):
                    return name
        return ""

    def reap(self, selector: selectors.BaseSelector) -> None:
        """Tell how each ended process did end, and end what it has left behind: that has come down to this one."""
        ended = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            connection = self.runs.pop(pid, None)
            if connection is not None:
                ended = True
                tell(connection, {"returncode": os.waitstatus_to_exitcode(status)})
                with contextlib.suppress(KeyError):
                    selector.unregister(connection)
                connection.close()
        if ended:
            for pid in children():
                if pid not in self.runs:
                    end(pid)


def received(connection: socket.socket) -> tuple[dict[str, object], list[int]]:
    """A request and its streams. ValueError for what is none."""
    connection.settimeout(10)
    data, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while not data.endswith(b"\n") and len(data) < LONGEST:
        more = connection.recv(1 << 16)
        if not more:
            break
        data += more
    connection.settimeout(None)
    if len(streams) != 3 or not data.endswith(b"\n"):
        for stream in streams:
            os.close(stream)
        raise ValueError("not a request")
    return json.loads(data), list(streams)


def tell(connection: socket.socket, what: dict[str, object]) -> None:
    with contextlib.suppress(OSError):  # it has gone, which ends its process
        connection.sendall(json.dumps(what).encode() + b"\n")


def end(pid: int) -> None:
    """End a process and its group."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)


def children() -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                if int(stat.read().rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def search_path(request: dict[str, object]) -> list[str]:
    """What a new interpreter, started with -m, would search before its own folders."""
    environment: dict[str, str] = request["environment"]  # type: ignore[assignment]
    return [str(request["folder"]), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]


def become(request: dict[str, object], path: list[str]) -> None:
    """Be, in this fork, what a new interpreter would be."""
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    os.chdir(str(request["folder"]))
    sys.path[:] = [*search_path(request), *path]
    sys.argv = ["-m", *request["arguments"]]  # type: ignore[misc]
    tempfile.tempdir = None
    importlib.invalidate_caches()


def main() -> None:
    del sys.path[0]  # this file's folder, which no script searches
    socket_path, names = sys.argv[1:]
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # what leaves its process group comes down to this one
    server = Server(socket_path)
    preload(json.loads(names))
    request = server.serve()
    if request is None:
        return
    become(request, server.path)
    status: object = 0
    try:
        runpy.run_module(str(request["module"]), run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        status = leaving.code
    except BaseException:
        sys.excepthook(*sys.exc_info())  # a script may have its own
        status = 1
    leave(status)


def leave(status: object) -> NoReturn:
    """End this fork as an interpreter ends, but for taking its modules apart: that writes to all that was shared."""
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for what a script still has running
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr, *gc.get_objects()):  # those that nobody closed, too
        if isinstance(file, (io.TextIOWrapper, io.BufferedWriter)):
            with contextlib.suppress(OSError, ValueError):
                file.flush()
    ctypes.CDLL(None).fflush(None)
    END((status or 0) & 0xFF)


if __name__ == "__main__":
    main()
