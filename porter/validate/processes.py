"""Starts one script under its observer, in a process group of its own, and waits for its trace."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from .script import CRASHED
from .settings import Settings
from .trace import Trace, join_ranks

HUB = ("huggingface.co", 443)
KEPT_LINES = 60
# XLA ends a process whose devices wait 40 s for each other: several simulated devices on few busy cores may have to.
PATIENCE = "--xla_cpu_collective_call_terminate_timeout_seconds=600"


class RunFailed(Exception):
    """A script that left no trace: `side` is "source" or "port", `output` its own traceback or last lines."""

    def __init__(self, side: str, reason: str, output: str) -> None:
        super().__init__(f"the {side} {reason}")
        self.side = side
        self.reason = reason
        self.output = output


def run_observed(
    side: str,
    module: str,
    script: Path,
    arguments: tuple[str, ...],
    settings: Settings,
    *,
    environment: Mapping[str, str],
    timeout: float,
    processes: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> Trace:
    """Run `script` under observer `module` and return its trace.

    `processes` > 1 starts as many ranks with torch's launcher (gloo). `timeout` in seconds, after which the whole
    process group is killed. `say` gets a line for each training step. RunFailed on a crash, a timeout, or a script that
    never trained.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{side}-", dir=settings.work))
    settings_file = folder / "settings.json"
    settings.save(settings_file)
    words = [sys.executable, "-m"]
    if processes > 1:
        words += ["torch.distributed.run", "--standalone", f"--nproc_per_node={processes}", "-m"]
    words += [module, str(folder), str(settings_file), str(script), *arguments]
    last: deque[str] = deque(maxlen=KEPT_LINES)
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        text=True,
        errors="replace",
        start_new_session=True,
    )
    reader = threading.Thread(target=_read, args=(process, last, say), daemon=True)
    reader.start()
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        kill_group(process)
        reader.join(5)
        reason = f"had not finished after {timeout:g} s (--timeout)"
        raise RunFailed(side, reason, "\n".join(last)) from None
    except BaseException:
        kill_group(process)
        raise
    reader.join(5)
    if code:
        crashes = sorted(folder.rglob(CRASHED))
        own = crashes[0].read_text(encoding="utf-8") if crashes else "\n".join(last)
        raise RunFailed(side, f"crashed (exit status {code})", own.rstrip())
    ranks = sorted(folder.glob("rank*")) or [folder]
    try:
        traces = [Trace.load(rank) for rank in ranks]
    except FileNotFoundError:
        raise RunFailed(side, "ended without training: no trainer was started", "\n".join(last)) from None
    trace = join_ranks(traces) if len(traces) > 1 else traces[0]
    trace.save(folder)
    return trace


def kill_group(process: subprocess.Popen[str]) -> None:
    """End the process and all that it started: torch's launcher has ranks of its own."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(3)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    except ProcessLookupError:
        process.wait()


def environment(side: str, *, dtype: str, devices: int, online: bool, tiny: bool) -> dict[str, str]:
    """The environment of one run: CPU (or the TPU that is there, for the port), no reports, no telemetry.

    `devices`: simulated CPU devices of the port. `tiny`: the model is a stand-in, for which one thread is fastest.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ACCELERATE_", "FSDP_"))}
    ours = str(Path(__file__).resolve().parents[2])
    path = [part for part in kept.get("PYTHONPATH", "").split(os.pathsep) if part]
    kept |= {
        "PYTHONPATH": os.pathsep.join([*path, ours]),
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
        kept["XLA_FLAGS"] = " ".join([PATIENCE, *flags, f"--xla_force_host_platform_device_count={devices}"])
        if not tpu_there():
            kept["JAX_PLATFORMS"] = "cpu"
        if dtype == "float32":
            # A TPU multiplies float32 matrices in one bf16 pass unless told otherwise.
            kept["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
    return kept


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


def _read(process: subprocess.Popen[str], last: deque[str], say: Callable[[str], None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        line = line.rstrip("\n")
        if line.startswith("step ") and " loss " in line:
            say(line)
        elif line.strip():
            last.append(line.split("\r")[-1])
