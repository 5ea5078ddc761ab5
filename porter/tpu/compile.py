"""Compile a ported script's training step for a TPU slice, in a process of its own, and keep the result.

`compile_step` starts porter.tpu.tracing.abstract_run and reads what it wrote. The result depends on the script, the
request, the runtime's and the model family's files and the installed compiler alone: it is cached by a hash of these.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import re
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..own_imports import PYTHON
from ..source.notebooks.program import is_notebook, read_program
from ..tables import rules_folder
from ..validate.preloading import client as preloading
from ..validate.running.processes import Process, kill_group
from .results import Step, step_of
from .slices import Slice

PACKAGES = ("jax", "jaxlib", "libtpu", "flax", "google-tunix", "qwix", "optax", "transformers")
# `python -m` would look for the package in the current folder first; the script's own folder takes the first place.
MODULE = "porter.tpu.tracing.abstract_run"
START = f"""
import runpy, sys
sys.path.insert(0, sys.executable)
runpy.run_module("{MODULE}", run_name="__main__", alter_sys=True)
"""
REMAT = ("script", "none", "decoder")
KEPT_LINES = 40
SAY_EVERY = 15  # seconds


@dataclass(frozen=True)
class Request:
    """What to compile. None means: as the script says.

    `mesh`: axes and sizes; `seq_len`: tokens of a row; `batch`: rows of a micro-batch over the whole mesh; `remat`:
    script, none or decoder; `query_block`: queries that attend at a time (`rt.attend_in_blocks`); `layers`: only the
    first of them, 0 for one period of the attention kinds; `model`: a folder or config.json in place of the script's
    model; `rows`: assumed length of the dataset; `prompt_len`, `completion_len`: tokens of prompts that completions are
    sampled after, and of these; `compile` False: only trace, which gives the sizes. `quick`: XLA spends the least time
    on making the program fast; its figures are then within a few per cent of the whole compile's (docs/plan.md), which
    takes two to six times as long.
    """

    script: Path
    slice: Slice
    mesh: Mapping[str, int] | None = None
    seq_len: int | None = None
    batch: int | None = None
    remat: str = "script"
    query_block: int | None = None
    layers: int | None = None
    model: Path | None = None
    rows: int = 10_000
    prompt_len: int | None = None
    completion_len: int | None = None
    arguments: tuple[str, ...] = ()
    compile: bool = True
    quick: bool = False


class CompileFailed(Exception):
    """The script or the compiler failed: `output` has the traceback or the last lines."""

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(reason)
        self.output = output


def libtpu_problem() -> str:
    """Why the TPU compiler can't be used here, with what to do; "" when it can."""
    try:
        jax = importlib.metadata.version("jax")
    except importlib.metadata.PackageNotFoundError:
        return "JAX is not installed: pip install 'tpu-port[tpu-compile]'"
    wanted = pinned_libtpu()
    try:
        there = importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        return f"libtpu, which holds the TPU compiler, is not installed: pip install 'libtpu=={wanted}'"
    if wanted.endswith(".*") and not there.startswith(wanted[:-1]):
        return f"libtpu {there} doesn't match jax {jax}, which needs {wanted}: pip install 'libtpu=={wanted}'"
    return ""


def pinned_libtpu() -> str:
    """The libtpu release that the installed jax asks for in its extra `tpu` (0.0.42.*); "*" when it doesn't say."""
    for line in importlib.metadata.requires("jax") or []:
        match = re.match(r"libtpu\s*\(?==\s*([\d.]+\.\*|[\d.]+)", line)
        if match:
            return match[1]
    return "*"


def compile_step(
    request: Request,
    say: Callable[[str], None] = lambda line: None,
    *,
    timeout: float = 3600,
    stop: threading.Event | None = None,
) -> Step:
    """The step of `request`, from the cache or compiled now. `say` gets a word on what is going on, every 15 seconds.

    `stop` ends it when another thread sets it. InputError without a usable libtpu (only when compiling), CompileFailed
    when the script or the compiler fails.
    """
    if not request.script.is_file():
        raise InputError("there is no such file", request.script)
    if is_notebook(request.script):
        read_program(request.script)
    if request.compile:
        problem = libtpu_problem()
        if problem:
            raise InputError(problem)
    file = cache_folder() / f"{key(request)}.json"
    if file.is_file():
        try:
            return step_of(json.loads(file.read_text(encoding="utf-8")), request.slice, cached=True)
        except (ValueError, TypeError, KeyError):
            file.unlink(missing_ok=True)
    found = _run(request, say, timeout, stop or threading.Event())
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_text(json.dumps(found), encoding="utf-8")
    os.replace(temporary, file)  # whole or not at all: a compile that is killed leaves no entry
    return step_of(found, request.slice, cached=False)


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/tpu-port/compile`, else below ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tpu-port" / "compile"


def key(request: Request) -> str:
    """A hash of everything that the result depends on."""
    digest = hashlib.sha256()
    digest.update(json.dumps(_message(request), sort_keys=True).encode())
    digest.update("\0".join(request.arguments).encode())
    for package in PACKAGES:
        digest.update(f"{package}={_version(package)}\n".encode())
    here = Path(__file__).parent
    parts = [*here.glob("**/*.py"), *here.parent.glob("runtime/**/*.py"), *rules_folder().glob("models/*.toml")]
    parts += request.script.absolute().parent.glob("porter_runtime/**/*.py")
    if request.model is not None:
        parts.append(request.model if request.model.is_file() else request.model / "config.json")
    for part in [request.script, *sorted(parts)]:
        if part.is_file():
            digest.update(part.name.encode() + b"\0" + part.read_bytes())
    return digest.hexdigest()[:32]


def environment(devices: int) -> dict[str, str]:
    """A process that sees no TPU and no network, and whose libtpu asks nobody where it is."""
    kept = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")}
    ours = str(Path(__file__).resolve().parents[2])
    found = importlib.util.find_spec("libtpu")
    library = {"TPU_LIBRARY_PATH": str(Path(found.origin).parent / "libtpu.so")} if found and found.origin else {}
    return (
        kept
        | library
        | {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
            "TPU_SKIP_MDS_QUERY": "1",
            "TPU_WORKER_HOSTNAMES": "localhost",
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_VERBOSITY": "error",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join([part for part in (kept.get("PYTHONPATH"), ours) if part]),
        }
    )


def compile_steps(
    requests: Sequence[Request], say: Callable[[int, str], None], *, timeout: float = 3600
) -> list[Step | CompileFailed]:
    """The steps of `requests`, compiled side by side, one to a core; a failure stands in its step's place.

    `say` gets the number of the request that its line is about. What `compile_step` raises besides is raised.
    """
    stop = threading.Event()

    def one(number: int) -> Step | CompileFailed:
        try:
            return compile_step(requests[number], partial(say, number), timeout=timeout, stop=stop)
        except CompileFailed as failure:
            return failure

    with ThreadPoolExecutor(min(len(requests), os.cpu_count() or 1)) as pool:
        waiting = [pool.submit(one, number) for number in range(len(requests))]
        try:
            return [found.result() for found in waiting]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run(request: Request, say: Callable[[str], None], timeout: float, stop: threading.Event) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tpu-port-") as folder:
        asked, answer = Path(folder) / "request.json", Path(folder) / "result.json"
        asked.write_text(json.dumps({**_message(request), "folder": os.getcwd()}), encoding="utf-8")
        words = [str(asked), str(answer), str(request.script), *request.arguments]
        last: deque[str] = deque(maxlen=KEPT_LINES)
        stage = ["starting"]
        process = _started(words, folder, environment(request.slice.devices))
        reader = threading.Thread(target=_read, args=(process, last, stage), daemon=True)
        reader.start()
        started = said = time.monotonic()
        try:
            while not _ended(process):
                now = time.monotonic()
                if now - said >= SAY_EVERY:
                    say(f"{stage[0]}, {now - started:.0f} s")
                    said = now
                if now - started > timeout:
                    raise CompileFailed(f"{stage[0]} had not finished after {timeout:g} s (--timeout)")
                if stop.is_set():
                    raise CompileFailed(f"{stage[0]} was stopped; the cache is as it was")
        except BaseException:
            kill_group(process)
            raise
        reader.join(5)
        if answer.is_file():
            found = dict(json.loads(answer.read_text(encoding="utf-8")))
            if "refused" in found:
                raise InputError(found["refused"], request.script)
            return found
        crash = Path(folder) / "crash.txt"
        output = crash.read_text(encoding="utf-8") if crash.is_file() else "\n".join(last)
        if is_notebook(request.script):
            output = read_program(request.script).named(output)
        code = process.returncode or 0
        if code < 0:
            raise CompileFailed(f"{stage[0]} was killed (signal {-code}); the cache is as it was", output)
        if not crash.is_file() and code == NEVER_TRAINED:
            raise CompileFailed("the script ended without training: no PeftTrainer.train was called", output)
        raise CompileFailed(_last_line(output) or f"exit status {code}", output)


def _started(words: list[str], folder: str, variables: Mapping[str, str]) -> Process:
    """abstract_run with these arguments: a fork of an interpreter that has imported what it needs, or a new one."""
    preloaded = preloading.server("port", PYTHON[0], variables)
    if preloaded and (process := preloading.begin(preloaded, MODULE, words, variables, folder)):
        return process
    return subprocess.Popen(
        [*PYTHON, "-c", START, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(variables),
        start_new_session=True,
    )


def _ended(process: Process) -> bool:
    try:
        process.wait(0.2)
    except subprocess.TimeoutExpired:
        return False
    return True


NEVER_TRAINED = 9  # abstract_run's exit status for a script that starts no trainer


def _message(request: Request) -> dict[str, Any]:
    return {
        "topology": {"name": request.slice.topology_name, "arguments": dict(request.slice.arguments)},
        "devices": request.slice.devices,
        "mesh": dict(request.mesh) if request.mesh else None,
        "seq_len": request.seq_len,
        "batch": request.batch,
        "remat": request.remat,
        "query_block": request.query_block,
        "layers": request.layers,
        "model": str(request.model) if request.model else None,
        "rows": request.rows,
        "prompt_len": request.prompt_len,
        "completion_len": request.completion_len,
        "compile": request.compile,
        "quick": request.quick,
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _read(process: Process, last: deque[str], stage: list[str]) -> None:
    assert process.stdout is not None
    for line in io.TextIOWrapper(process.stdout, "utf-8", errors="replace"):
        if line.startswith("stage "):
            stage[0] = line.removeprefix("stage ").strip()
        elif line.strip():
            last.append(line.rstrip())


def _last_line(output: str) -> str:
    """What an exception said: a traceback's end, from the line that names the exception on."""
    lines = output.rstrip().splitlines()
    for number in range(len(lines) - 1, -1, -1):
        if re.match(r"^[A-Za-z_][\w.]*(Error|Exception|Family)\b", lines[number]):
            return "\n".join(lines[number:])
    return lines[-1] if lines else ""
