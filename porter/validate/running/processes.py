"""Starts one script under its observer, in a process group of its own, and waits for its trace."""

from __future__ import annotations

import importlib.metadata
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...source.notebooks.program import Program
from ..comparing.trace import Trace, join_ranks
from ..observing.settings import Settings
from ..observing.unseeded import ENVIRONMENT
from ..preloading import client as preloading
from .calling import UNCALLED
from .copying import COPY_LIMIT, place_for
from .script import CRASHED, uses_torch

HUB = ("huggingface.co", 443)
KEPT_LINES = 60
LONGEST_LINE = 4_000  # characters
# How a notebook starts a training in another process: in a line or a cell of the shell.
STARTS = re.compile(r"get_ipython\(\)|\bsystem\(|\bsubprocess\b")
LAUNCH = re.compile(
    r"(?:accelerate launch|torchrun|deepspeed|llamafactory-cli|axolotl|autotrain|python[\d.]*(?= +\S+\.py))"
    r" [^'\"\\]{1,60}"
)
MARK = "TPU_PORT_RUN"  # an environment variable that tells the processes of one run
HOSTS = "porter.validate.jax_side.launch_hosts"
# XLA ends a process whose devices wait 40 s for each other: several simulated devices on few busy cores may have to.
PATIENCE = "--xla_cpu_collective_call_terminate_timeout_seconds=600"
# The programs of tiny models take longer to optimize than to run, unless they run for long: at the first level they
# compile a step for 5 s instead of 2 s, and it takes half the time.
QUICKLY = ("--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true")
LASTING = ("--xla_backend_optimization_level=1",)
LONG = 40_000  # padded tokens that are trained, from which the first level has paid for itself: it was even at 34,000
# Fusions without MLIR: a third less again. XLA ends a process that is given a flag it has not, and this one may go.
UNFUSED = ("--xla_cpu_use_fusion_emitters=false",)
UNFUSED_IN = ("0.10.",)  # releases of jaxlib that have it


Process = subprocess.Popen[bytes] | preloading.Forked


UNSTARTED = "ended without training: no trainer was started"


class RunFailed(Exception):
    """A script that didn't end well: `side` is "source" or "port", `output` its own traceback or last lines.

    `trace`: what it had trained where it failed afterwards, else None. `folder` is where the run left what it wrote,
    None when it was ended from outside.
    """

    def __init__(
        self, side: str, reason: str, output: str, trace: Trace | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(f"the {side} {reason}")
        self.folder = folder
        self.side = side
        self.reason = reason
        self.output = output
        self.trace = trace

    @property
    def late(self) -> bool:
        """Whether it was ended because what follows its training took too long."""
        return self.trace is not None and self.reason.startswith("had not ended")


@dataclass(frozen=True)
class Limits:
    """What a script may use before it is ended: seconds in all and behind training, bytes of memory and of a copy."""

    timeout: float = 900.0
    tail: float = 60.0  # its trace is there then: what follows only saves and samples
    memory: int = 0  # 0: four fifths of the machine's
    copy: int = COPY_LIMIT


def run_observed(
    side: str,
    module: str,
    script: Path,
    arguments: tuple[str, ...],
    settings: Settings,
    *,
    environment: Mapping[str, str],
    limits: Limits = Limits(),
    python: str = sys.executable,
    processes: int = 1,
    say: Callable[[str], None] = lambda line: None,
    source: Path | None = None,
) -> Trace:
    """Run `script` in a copy of its project under observer `module` of interpreter `python`, and return its trace.

    A port runs in a copy of its `source`'s project, see `copying`.
    `processes` > 1 starts as many ranks with torch's launcher (gloo), `settings.hosts` as many JAX processes. The whole
    process group, and whatever else the run has started, is ended when a limit is passed. `say` gets a line for each
    training step. RunFailed on a crash, a timeout, or a script that never trained, with the trace of what it had
    trained before.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{side}-", dir=settings.work))
    place, notes = place_for(script, folder, limits.copy, source)
    settings_file = folder / "settings.json"
    preloaded = import_ahead(side, script, environment, python, source) if processes == 1 else ""
    if preloaded and side == "source" and python == settings.tool_python:
        settings = replace(settings, preloaded=preloaded)
    settings.save(settings_file)
    run = uuid.uuid4().hex
    variables = {**ENVIRONMENT, **environment, **_homes(folder), "PYTHONPATH": _path(folder, environment), MARK: run}
    hosts = [HOSTS, str(settings.hosts)] if settings.hosts > 1 else []
    words = [*hosts, module, str(folder), str(settings_file), str(place.script), *arguments]
    process: Process | None = None
    if preloaded:
        process = preloading.begin(preloaded, words[0], words[1:], variables, str(place.folder))
    if process is None:
        process = _new(python, processes, words, variables, place.folder)
    last = LastLines()
    reader = threading.Thread(target=last.read, args=(process, say), daemon=True)
    reader.start()
    try:
        ended = _wait(process, folder, limits)
    finally:
        kill_group(process)
        kill_marked(run)
        reader.join(5)
    output = place.told(last.text())
    trace = _trace(folder)
    if trace is not None and place.program is not None:
        trace = _in_cells(trace, place.program)
    if ended:
        raise RunFailed(side, ended.format(limits=limits), output, trace)
    if process.returncode:
        crashes = sorted(folder.rglob(CRASHED))
        own = place.told(crashes[0].read_text(encoding="utf-8")) if crashes else output
        raise RunFailed(side, f"crashed (exit status {process.returncode})", own.rstrip(), trace, folder)
    if trace is None:
        raise RunFailed(side, _idle(place.program, folder), output, folder=folder)
    trace = replace(trace, notes=(*trace.notes, notes)) if notes else trace
    trace.save(folder)
    return trace


def _in_cells(trace: Trace, program: Program) -> Trace:
    """A notebook's trace, its events with the cell of their line and the line in that."""
    events = []
    for event in trace.config.get("events") or ():
        cell, line = program.place(event["line"]) if event.get("line") else (None, None)
        events.append({**event, "cell": cell or None, "line": line})
    return replace(trace, config={**trace.config, "events": events}) if "events" in trace.config else trace


def _idle(program: Program | None, folder: Path) -> str:
    """Why a script that ended trained nothing: a notebook may start its training as another program, a module only
    define what trains."""
    for said in folder.rglob(UNCALLED):
        return f"ended without training: {said.read_text(encoding='utf-8')}"
    for number, text in enumerate(program.text.splitlines() if program is not None else (), start=1):
        found = LAUNCH.search(text) if STARTS.search(text) else None
        if found is not None and program is not None:
            cell, line = program.place(number)
            started = f"{found[0].strip()} in {f'cell {cell}' if cell else f'line {line}'}"
            return f"ended without training, which is started by {started}, another program"
    return UNSTARTED


def import_ahead(
    side: str,
    script: Path,
    environment: Mapping[str, str],
    python: str = sys.executable,
    source: Path | None = None,
) -> str:
    """The socket of an interpreter that has imported what `script` will, or is at it; "" where it needs a new one."""
    if side == "port" and uses_torch(script, source):
        return ""
    return preloading.server(side, python, {**ENVIRONMENT, **environment, "HF_HOME": _hub()})


def _new(
    python: str, processes: int, words: list[str], variables: Mapping[str, str], folder: Path
) -> subprocess.Popen[bytes]:
    """A new interpreter for a module and its arguments, or as many of them as there are `processes`."""
    launcher = ["torch.distributed.run", "--standalone", f"--nproc_per_node={processes}", "-m"]
    return subprocess.Popen(
        [python, "-m", *(launcher if processes > 1 else []), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=dict(variables),
        start_new_session=True,
    )


def _trace(folder: Path) -> Trace | None:
    """The trace that a run left, of all its ranks; None when one left none."""
    ranks = sorted(folder.glob("rank*")) or [folder]
    try:
        traces = [Trace.load(rank) for rank in ranks]
    except FileNotFoundError:
        return None
    return join_ranks(traces) if len(traces) > 1 else traces[0]


def _wait(process: Process, folder: Path, limits: Limits) -> str:
    """Wait for the script; why it has to be ended early, or nothing."""
    started = time.monotonic()
    memory = limits.memory or _memory_limit()
    trained: float | None = None
    measured = started
    while True:
        try:
            process.wait(0.2)
            return ""
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        if now - started > limits.timeout:
            return "had not finished after {limits.timeout:g} s (--timeout)"
        if trained is None and [*folder.glob("trace.json"), *folder.glob("rank0/trace.json")]:
            trained = now
        if trained is not None and now - trained > limits.tail:
            return "had not ended {limits.tail:g} s after its training"
        if not memory or now - measured < 1:  # all of the machine's processes are looked through
            continue
        measured = now
        if _resident(process.pid) > memory:
            return f"used over {memory / 1e9:.0f} GB of memory"


def _resident(leader: int) -> int:
    """Bytes of memory that the processes of this run hold."""
    total = 0
    for process in filter(str.isdigit, os.listdir("/proc")):  # a glob asks for each, and raises where one has ended
        try:
            stat = Path("/proc", process, "stat").read_bytes()
        except OSError:
            continue
        fields = stat.rpartition(b")")[2].split()  # a process may be called anything
        if int(fields[3]) == leader:
            total += int(fields[21]) * PAGE
    return total


def _memory_limit() -> int:
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * PAGE * 0.8)
    except (ValueError, OSError):
        return 0


PAGE = os.sysconf("SC_PAGE_SIZE")


def _path(folder: Path, environment: Mapping[str, str]) -> str:
    """PYTHONPATH with tpu-port's own package behind the user's, and nothing else of where that is installed."""
    ours = folder / "path"
    ours.mkdir()
    (ours / "porter").symlink_to(Path(__file__).resolve().parents[2])
    return os.pathsep.join(part for part in (environment.get("PYTHONPATH", ""), str(ours)) if part)


def _homes(folder: Path) -> dict[str, str]:
    """Where a script finds its home and temporary folder: below its own. The Hub's cache stays the user's."""
    home, temporary = folder / "home", folder / "tmp"
    for each in (home, temporary):
        each.mkdir()
    return {"HOME": str(home), "TMPDIR": str(temporary), "HF_HOME": _hub(), "XDG_CACHE_HOME": str(home / ".cache")}


def _hub() -> str:
    return os.environ.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")


class LastLines:
    """The last lines of what a process prints, however much that is."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)

    def text(self) -> str:
        return "\n".join(self._lines)

    def read(self, process: Process, say: Callable[[str], None]) -> None:
        """Read to the end; lines of training steps go to `say`, a line without an end is cut."""
        assert process.stdout is not None
        rest = b""
        while chunk := process.stdout.read1(1 << 16):  # type: ignore[attr-defined]
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-LONGEST_LINE:]
            for line in lines:
                self._take(line, say)
        if rest:
            self._take(rest, say)

    def _take(self, line: bytes, say: Callable[[str], None]) -> None:
        text = line[-LONGEST_LINE:].decode("utf-8", "replace").rstrip()
        if text.startswith("step ") and " loss " in text:
            say(text)
        elif text:
            self._lines.append(text.split("\r")[-1])


def kill_group(process: Process | subprocess.Popen[str]) -> None:
    """End the process and its group: torch's launcher has ranks of its own."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(3)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    except ProcessLookupError:
        process.wait()


def kill_marked(run: str) -> None:
    """End what a run has started and that has left its process group: its environment tells."""
    mark = f"{MARK}={run}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)
        except (OSError, ValueError):
            continue


def environment(side: str, *, dtype: str, devices: int, online: bool, tiny: bool, tokens: int = 0) -> dict[str, str]:
    """The environment of one run: CPU (or the TPU that is there, for the port), no reports, no telemetry.

    `devices`: simulated CPU devices of the port. `tiny`: the model is a stand-in, for which one thread is fastest.
    `tokens`: what the port will train, with padding, as far as that is known.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ACCELERATE_", "FSDP_"))}
    path = [os.path.abspath(part) for part in kept.get("PYTHONPATH", "").split(os.pathsep) if part]
    kept |= {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_MODE": "disabled",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    if not online:
        kept |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    if side == "source" and tiny:
        # Threads that wait for each other after every 64 x 64 product took ten times as long on a busy machine.
        kept["OMP_NUM_THREADS"] = "1"
    if side == "port":
        flags = [flag for flag in kept.get("XLA_FLAGS", "").split() if "host_platform_device_count" not in flag]
        kept["XLA_FLAGS"] = " ".join(
            [PATIENCE, *(quickly(tokens) if tiny else ()), *flags, f"--xla_force_host_platform_device_count={devices}"]
        )
        if not tpu_there():
            kept["JAX_PLATFORMS"] = "cpu"
        if dtype == "float32":
            # A TPU multiplies float32 matrices in one bf16 pass unless told otherwise.
            kept["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
    return kept


def quickly(tokens: int = 0) -> tuple[str, ...]:
    """XLA's flags with which the installed jaxlib has compiled a tiny model, and trained it on `tokens`, soonest."""
    level = LASTING if tokens > LONG else QUICKLY
    try:
        release = importlib.metadata.version("jaxlib")
    except importlib.metadata.PackageNotFoundError:
        return level
    return (*level, *UNFUSED) if release.startswith(UNFUSED_IN) else level


def tpu_there() -> bool:
    """Whether this machine has a TPU's device files."""
    return any(Path("/dev").glob("accel*")) or (bool(os.environ.get("TPU_NAME")) and any(Path("/dev").glob("vfio/*")))


def hub_reachable() -> bool:
    """Whether the Hub answers within three seconds and the user hasn't asked to stay offline."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return False
    try:
        socket.create_connection(HUB, timeout=3).close()
    except OSError:
        return False
    return True
