"""The JAX processes of a run: one for each host of a TPU slice, all of them running the same script.

They find each other where a port imports its runtime, before anything asks JAX for devices. What one of them does for
all (the rewards of completions) and what all must hold alike (rows, prompts) goes over JAX's coordination service.
Where there is one process nothing is done, and where there is no TPU no JAX is imported for it.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

# Processes that no TPU environment tells of: all three are set, the address being that of process 0.
ADDRESS, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
ALONE = "TPU_PORT_ALONE"  # set: this process joins no others
WAIT = "TPU_PORT_WAIT"  # seconds to wait for the others at the start
_FAILED, _ENDED = "tpu_port/failed", "tpu_port/ended"
_RELEASES = ("jax", "google-tunix", "qwix", "flax", "optax", "orbax-checkpoint", "numpy", "transformers")
_SLICE = 5  # seconds of a wait after which it is tried again: a signal is heard, and who has ended is seen
_LAST = 3600  # seconds to wait for the others at the end
_SAY_AFTER = 120  # seconds after which a wait says what it waits for

_calls = 0  # of what all processes do together, in one order
_only_first = ""  # what the first process is doing for all


def connect() -> None:
    """Join the run's other processes, if there are any: jax.distributed.initialize(), guarded.

    They are those of a TPU slice of several hosts, or as JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID
    say. Ends the process with one line where they don't come within TPU_PORT_WAIT seconds (300), or run another script
    or other releases. From then on a process that ends with an exception ends the others. Python's own worker
    processes (multiprocessing) join nobody.
    """
    if _is_worker() or os.environ.get(ALONE) or {"-h", "--help"} & set(sys.argv[1:]):
        return
    given = _given()
    if given is None and not _on_a_tpu_cluster():
        return
    import jax

    if jax.distributed.is_initialized() or (given and given["num_processes"] == 1):
        return
    seconds = int(os.environ.get(WAIT, "300"))
    here = f"process {given['process_id']} of {given['num_processes']}" if given else "this process"
    late = f"{here}: the others didn't come within {seconds} s ({WAIT}); the script must be started on every host"
    with _patience(seconds, late):
        try:
            jax.distributed.initialize(**given or {}, initialization_timeout=seconds + 60)
        except (RuntimeError, ValueError) as error:
            raise SystemExit(f"{here} can't join the others: {str(error).splitlines()[0]}") from error
        _Watch().start()
        try:
            agree("the scripts, their arguments and releases", _program(), names=True)
        except ValueError as error:
            raise SystemExit(str(error)) from None


def count() -> int:
    """How many JAX processes there are."""
    import jax

    return int(jax.process_count())


def is_first() -> bool:
    """Whether this is the process that prints and writes."""
    import jax

    return bool(jax.process_index() == 0)


def agree(what: str, *values: Any, names: bool = False) -> None:
    """ValueError, on every process, where they don't hold the same: NumPy arrays, or what JSON can say.

    All processes must call it, in the same order. `names`: the error shows what differs.
    """
    if count() == 1:
        return
    said = gathered(what, json.dumps(values) if names else _digest(values))
    apart = [number for number, value in enumerate(said) if value != said[0]]
    if not apart:
        return
    processes = f"process{'es' if len(apart) > 1 else ''} {', '.join(map(str, apart))}"
    shown = ""
    if names:
        (first,), (other,) = json.loads(said[0]), json.loads(said[apart[0]])
        differing = [name for name in first if first[name] != other[name]]
        shown = ", ".join(f"{name}: {other[name]!r}, not {first[name]!r}" for name in differing)
    raise ValueError(
        f"{what} of {processes} aren't those of process 0"
        + (f" ({shown})" if shown else ": every host must read the same data, in the same order, with the same seeds")
    )


def from_first(what: str, function: Callable[[], Any]) -> Any:
    """What `function` returns on the first process, where alone it is called; anything that JSON can say.

    What it raises goes on there, as TypeError does for what isn't JSON, and is a ValueError on the others. What all
    processes must do together can't be done in it, and says so.
    """
    global _only_first
    if count() == 1:
        return function()
    _refuse_alone(what)
    import jax

    name = _next()
    if jax.process_index():
        answer = _said(_read(name, what), what, 0)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["value"]
    _only_first = what
    try:
        answer = {"value": function()}
        json.dumps(answer)
    except BaseException as error:
        answer = {"error": f"{what} failed on process 0: {type(error).__name__}: {error}"}
        raise
    finally:
        _only_first = ""
        _client().key_value_set(name, json.dumps([what, answer]))
    return json.loads(json.dumps(answer))["value"]


def together(what: str) -> None:
    """Waits until every process is at this call; says after two minutes which one isn't.

    ValueError where the first process works for all, so that the others never come.
    """
    if count() > 1:
        gathered(what, "")


def gathered(what: str, text: str) -> list[str]:
    """What each of several processes says of `what`. All must call it, in the same order."""
    import jax

    _refuse_alone(what)
    name = _next()
    _client().key_value_set(f"{name}/{jax.process_index()}", json.dumps([what, text]))
    return [_said(_read(f"{name}/{number}", what, number), what, number) for number in range(count())]


def _refuse_alone(what: str) -> None:
    if _only_first:
        raise ValueError(
            f"{what} needs all processes, and {_only_first} runs on the first one alone: do it outside, or train on "
            "one host"
        )


def _given() -> dict[str, Any] | None:
    """The arguments of initialize() that variables give; SystemExit for some of them without the others."""
    found = {name: os.environ.get(name) for name in (COUNT, INDEX, ADDRESS)}
    if found[COUNT] is None and found[INDEX] is None:
        return None  # the address alone is JAX's own way to override it
    missing = [name for name, value in found.items() if not value]
    if missing:
        raise SystemExit(f"{' and '.join(missing)} must be set, too: {COUNT}, {INDEX} and {ADDRESS} go together")
    try:
        number, of = int(found[INDEX] or ""), int(found[COUNT] or "")
    except ValueError:
        raise SystemExit(f"{COUNT}={found[COUNT]} and {INDEX}={found[INDEX]} must be numbers") from None
    if not 0 <= number < of:
        raise SystemExit(f"{INDEX}={number} is not one of the {of} processes of {COUNT}: they count from 0")
    return {"coordinator_address": found[ADDRESS], "num_processes": of, "process_id": number}


def _is_worker() -> bool:
    """Whether this is a child of multiprocessing (or `multiprocess`, datasets' own), which imports the script again.

    While it does, it has no parent_process() yet.
    """
    kinds = [sys.modules[name] for name in ("multiprocessing.process", "multiprocess.process") if name in sys.modules]
    return any(
        kind.parent_process() is not None or getattr(kind.current_process(), "_inheriting", False) for kind in kinds
    )


def _on_a_tpu_cluster() -> bool:
    """Whether JAX finds itself on one of several hosts of a TPU slice."""
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms and "tpu" not in platforms:
        return False
    if not _has_tpu():
        return False
    from jax._src.clusters import cloud_tpu_cluster, cluster

    kinds = [each for each in cluster.ClusterEnv._cluster_types if issubclass(each, cloud_tpu_cluster.BaseTpuCluster)]
    kinds.sort(key=lambda kind: kind.name != "gketpu")  # it asks variables alone, the other one the network
    try:
        present = next((kind for kind in kinds if kind.is_env_present()), None)
        if present is None:
            return False
        return len(present._get_worker_list_in_slice()) > 1 or present.get_process_count() > 1  # of several slices
    except Exception:
        return False  # no metadata server, so no VM of a slice: a notebook's TPU, say


def _has_tpu() -> bool:
    """Whether this machine may have a TPU's device files."""
    return any(Path("/dev").glob("accel*")) or any(Path("/dev").glob("vfio/[0-9]*"))


def _program() -> dict[str, Any]:
    """What all processes must run alike."""
    from importlib.metadata import PackageNotFoundError, version

    main = getattr(sys.modules.get("__main__"), "__file__", None)
    script = hashlib.sha256(Path(main).read_bytes()).hexdigest()[:12] if main and Path(main).is_file() else ""
    found: dict[str, Any] = {"script": script, "arguments": sys.argv[1:], "python": list(sys.version_info[:2])}
    for name in _RELEASES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _client() -> Any:
    from jax._src import distributed

    client = distributed.global_state.client
    if client is None:
        raise ValueError("several JAX processes without jax.distributed.initialize(): import porter.runtime first")
    return client


def _next() -> str:
    """The key of the next thing that all processes do."""
    global _calls
    _calls += 1
    return f"tpu_port/{__name__}/{_calls}"  # a vendored copy of this module counts on its own


def _said(text: str, what: str, number: int) -> Any:
    """What a process says of `what`. ValueError where it is at something else."""
    place, answer = json.loads(text)
    if place != what:
        raise ValueError(f"the processes have come apart: process {number} is at {place}, another one at {what}")
    return answer


def _read(name: str, what: str, number: int = 0) -> str:
    """The value of a key, as soon as process `number` has set it. ValueError where it has ended without."""
    started, said = time.monotonic(), False
    while True:
        try:
            return str(_client().blocking_key_value_get(name, _SLICE * 1000))
        except Exception as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
        if _there(f"{_ENDED}/{number}") is not None:
            raise ValueError(
                f"{what} needs all processes, and process {number} has ended: call it on all of them, not under "
                "`if jax.process_index() == 0`"
            )
        if not said and time.monotonic() - started > _SAY_AFTER:
            said = True
            print(f"waits for process {number} at {what}: does every process get there?", file=sys.stderr, flush=True)


def _there(name: str) -> str | None:
    """The value of a key, None where nobody has set it."""
    try:
        return str(_client().key_value_try_get(name))
    except Exception as error:
        if "NOT_FOUND" in str(error):
            return None
        raise


def _digest(values: Any) -> str:
    found = hashlib.sha256()
    for value in values:
        if hasattr(value, "tobytes"):  # NumPy's; porting a script imports this package without NumPy
            found.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
        else:
            found.update(json.dumps(value).encode())
    return found.hexdigest()


@contextmanager
def _patience(seconds: float, line: str) -> Iterator[None]:
    """Ends the process with `line` after `seconds`: JAX's own end of a wait is a stack trace of C++."""

    def end() -> None:
        print(line, file=sys.stderr, flush=True)
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Watch:
    """Ends this process when another has failed, and tells the others when this one does."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._client = _client()
        self._previous = sys.excepthook

    def start(self) -> None:
        sys.excepthook = self._tell
        self._thread.start()
        atexit.register(self._end)  # before JAX's own, which leaves the others

    def _end(self) -> None:
        """Waits for the others: the first process may be uploading, and JAX would end it after five minutes."""
        import jax

        self._over.set()
        self._thread.join()
        running = set(range(jax.process_count())) - {jax.process_index()}
        until = time.monotonic() + _LAST
        try:
            self._client.key_value_set(f"{_ENDED}/{jax.process_index()}", "yes")
            while running and time.monotonic() < until:
                running = {number for number in running if _there(f"{_ENDED}/{number}") is None}
                if running and _there(_FAILED) is not None:
                    os._exit(1)
                time.sleep(0.2 if running else 0)
        except Exception:
            return  # the first process is gone: JAX says so

    def _wait(self) -> None:
        while not self._over.wait(1.0):
            try:
                line = _there(_FAILED)
            except Exception:
                line = "process 0 is gone"
            if line is None:
                continue
            if self._over.is_set():
                return
            print(f"{line}: this process ends, too", file=sys.stderr, flush=True)
            os._exit(1)

    def _tell(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """sys.excepthook: the others would wait for this process until JAX ends them, and it for them.

        Python doesn't call it for SystemExit, nor tells anybody else of its code.
        """
        import jax

        self._over.set()
        self._previous(kind, error, trace)
        first = next(iter(str(error).splitlines()), "")
        try:
            self._client.key_value_set(_FAILED, f"process {jax.process_index()} failed: {kind.__name__}: {first[:500]}")
        except Exception:
            os._exit(1)  # another one has said so first
        sys.stdout.flush()
        sys.stderr.flush()
        if jax.process_index() == 0:
            time.sleep(3)  # the others hear of it here
        os._exit(1)
