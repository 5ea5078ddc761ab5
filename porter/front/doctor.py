"""What of tpu-port would work on this machine, what would fail and why.

Nothing here imports JAX or torch: versions come from the installed distributions' metadata, devices from a child
process that may not take longer than a timeout (a TPU held by another process makes JAX wait for ever).
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from ..extras import least_of, normal, of_extra
from ..own_imports import PYTHON, safe_environment
from ..tables import PACKAGE

Health = Literal["ok", "differs", "fails"]

# What each command needs.
COMMANDS = {
    "tpu-port SOURCE": ("port",),
    "running a port": ("port", "tpu"),
    "tpu-port export": ("port", "tpu"),
    "tpu-port validate": ("port", "tpu", "validate"),
}
MIN_PYTHON = (3, 11)
# A validation keeps a tiny model twice (torch and JAX, a process each): about 3 GiB in all, and their logs.
MEMORY_GIB = 4
DISK_GIB = 2
DEVICES_TIMEOUT = 60

DEVICES = """
import json, jax
devices = jax.devices()
print(json.dumps({"platform": devices[0].platform, "kind": devices[0].device_kind, "count": len(devices)}))
"""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `subject` as found, whether that is well, and what to do if not.

    `differs`: works as far as is known, but it isn't what tpu-port is tested with. `needed_by` names the commands
    that fail without it.
    """

    subject: str
    found: str
    health: Health
    fix: str = ""
    needed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """All checks, and for each command whether it works here or why not."""

    checks: tuple[Check, ...]

    @property
    def commands(self) -> dict[str, tuple[Check, ...]]:
        """The failing checks of every command; an empty tuple where it works."""
        failed = [check for check in self.checks if check.health == "fails"]
        return {name: tuple(check for check in failed if name in check.needed_by) for name in COMMANDS}

    @property
    def exit_code(self) -> int:
        return 1 if any(self.commands.values()) else 0


def diagnose(timeout: float = DEVICES_TIMEOUT) -> Diagnosis:
    """Look at the interpreter, the distributions, devices, memory, disk and the packs of rules."""
    known = known_versions()
    checks = [_python()]
    for extra, names in _extras().items():
        commands = tuple(command for command, needs in COMMANDS.items() if extra in needs)
        checks += [package(name, known, extra, commands) for name in names]
    checks += [_compiler(known), _packs(), _devices(timeout), _memory(), _disk(Path.cwd()), _disk(_cache())]
    return Diagnosis(tuple(checks))


def _extras() -> dict[str, tuple[str, ...]]:
    """The distributions of the port, of what it runs with, and of a validation; jaxlib is a part of JAX."""
    run = of_extra("tpu")
    more = tuple(name for name in of_extra("validate") if name not in (*run, "uv"))  # uv comes in many ways
    at = run.index("jax") + 1 if "jax" in run else len(run)
    return {"port": of_extra(""), "tpu": (*run[:at], "jaxlib", *run[at:]), "validate": more}


def _compiler(known: Mapping[str, str]) -> Check:
    """XLA's compiler for TPUs: without it `plan` and `compile` estimate by formula, which is no failure."""
    found = package("libtpu", known, "tpu-compile", ())
    fix = found.fix and f"{found.fix}, else `tpu-port plan` and `compile` give estimates only"
    return replace(found, health="differs", fix=fix) if found.health == "fails" else found


def known_versions() -> dict[str, str]:
    """Name → version of constraints.txt: what tpu-port is developed and tested with."""
    text = (PACKAGE / "constraints.txt").read_text(encoding="utf-8")
    rows = re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE)
    return {normal(name): number for name, number in rows}


def package(name: str, known: Mapping[str, str], extra: str, needed_by: tuple[str, ...]) -> Check:
    """How the installed version of a distribution compares with the one known to work."""
    want = known.get(normal(name), "")
    target = "tpu-port" if extra == "port" else f"'tpu-port[{extra}]'"
    try:
        have = version(name)
    except PackageNotFoundError:
        return Check(name, "not installed", "fails", f"pip install {target}", needed_by)
    if not want or have.split("+")[0] == want:
        return Check(name, have, "ok", needed_by=needed_by)
    least = least_of(name)
    if least and _numbers(have) < _numbers(least):
        return Check(name, f"{have}, older than {least}", "fails", f"pip install -U {target}", needed_by)
    return Check(name, have, "differs", f"tested with {want}: pip install {name}=={want} if something fails", needed_by)


def _python() -> Check:
    found = sys.version.split()[0]
    commands = tuple(COMMANDS)
    if sys.version_info < MIN_PYTHON:
        return Check("Python", found, "fails", "use Python 3.11 or newer", commands)
    return Check("Python", found, "ok", needed_by=commands)


def _packs() -> Check:
    needed = ("tpu-port SOURCE",)
    try:
        from ..engine.packs.packs import load_packs
        from .project import installed_packs, read_project
        from .trust import allowed_packs

        packs = load_packs((*allowed_packs(read_project(Path.cwd()), ask=lambda question: False), *installed_packs()))
    except Exception as error:  # whatever it is, it is the answer
        return Check(
            "packs of rules", f"{type(error).__name__}: {error}", "fails", "mend or leave out the pack", needed
        )
    rules = sum(len(pack.every_rule) for pack in packs)
    return Check("packs of rules", f"{len(packs)} packs, {rules} rules", "ok", needed_by=needed)


def _devices(timeout: float) -> Check:
    needed = ("running a port", "tpu-port validate")
    try:
        version("jax")
    except PackageNotFoundError:
        return Check("devices", "no jax to ask", "fails", "pip install 'tpu-port[tpu]'", needed)
    try:
        words = [*PYTHON, "-c", DEVICES]
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, env=safe_environment())
    except subprocess.TimeoutExpired:
        fix = "another process may hold the TPU (look with: sudo lsof /dev/accel* /dev/vfio/*); or JAX_PLATFORMS=cpu"
        return Check("devices", f"jax found none within {timeout:g} s", "fails", fix, needed)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Check("devices", f"jax failed: {last}", "fails", "mend jax, or set JAX_PLATFORMS=cpu", needed)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    text = f"{found['count']} × {found['kind']} ({found['platform']})"
    if found["platform"] != "tpu" and _tpu_files():
        return Check("devices", f"{text}, though a TPU is in this machine", "differs", "pip install 'jax[tpu]'", needed)
    return Check("devices", text, "ok", needed_by=needed)


def _tpu_files() -> bool:
    return bool(glob.glob("/dev/accel*")) or (bool(glob.glob("/dev/vfio/[0-9]*")) and "TPU_NAME" in os.environ)


def _memory() -> Check:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    enough = gib >= MEMORY_GIB
    fix = "" if enough else f"validation of a tiny model takes about {MEMORY_GIB} GiB"
    return Check("memory", f"{gib:.1f} GiB", "ok" if enough else "fails", fix, ("tpu-port validate",))


def _disk(folder: Path) -> Check:
    while not folder.exists():
        folder = folder.parent
    gib = shutil.disk_usage(folder).free / 2**30
    enough = gib >= DISK_GIB
    fix = "" if enough else f"checkpoints and models need room: {DISK_GIB} GiB at the very least"
    return Check(f"disk at {folder}", f"{gib:.1f} GiB free", "ok" if enough else "fails", fix, ("running a port",))


def _cache() -> Path:
    """Where Hugging Face libraries put models (huggingface_hub's HF_HOME)."""
    return Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0]))
