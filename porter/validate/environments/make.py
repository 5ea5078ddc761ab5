"""Makes an environment: this Python with the wanted releases, and torch shared with tpu-port's own.

uv installs where it is there, pip else. What is made, and how large it is, is said before it starts; an installation
that ends early leaves a folder that is never used and made anew.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Callable, Collection, Sequence
from importlib import metadata
from pathlib import Path

from ...releases.versions import fits
from ..running.processes import kill_group
from .sets import LIBRARIES, Wanted
from .store import Kept, finish, locked, look, mark_used, remove, store

FORMAT = 2  # of an environment's folder; another number is another environment
FORMAT_EXTRAS = "2"  # of one with what else a script imports
NEEDED = 1_500_000_000  # bytes that have to be free
USUAL_SIZE = "about 400 MB; torch is shared"
SHARED = ("torch", "torchgen", "functorch", "torch-*.dist-info", "nvidia", "triton", "triton-*.dist-info", "nvidia_*")
# torch is shared; the others are compiled for a GPU, and have substitutes that stand back for what is installed.
WITHOUT = "".join(f'{name} ; python_version < "3"\n' for name in ("torch", "deepspeed", "bitsandbytes", "ninja"))
OF_TORCH = ("typing-extensions>=4.12", "sympy>=1.13.3", "networkx", "jinja2", "filelock")  # the shared one imports them
LONGEST = 1200.0  # seconds for one installation
UNREACHABLE = re.compile(
    r"dns error|failed to fetch|could not connect|connection (refused|error|reset)|network is unreachable|"
    r"name or service not known|newconnectionerror|temporary failure in name resolution|timed out|max retries",
    re.IGNORECASE,
)

Say = Callable[[str], None]


class CannotMake(Exception):
    """There is no such environment; one line that says what is missing."""


def environment_for(wanted: Wanted, say: Say = lambda line: None) -> Kept:
    """The environment with these releases, made when it isn't there.

    One whose TRL or transformers has become another, as by an installation of somebody's own, is made anew. CannotMake
    when no release fits, the package index can't be reached, or the disk is too full.
    """
    return _once(
        name_of(wanted), lambda folder: _make(folder, wanted, say), say, lambda folder: _strayed(folder, wanted)
    )


def _strayed(folder: Path, wanted: Wanted) -> str:
    """The release of TRL or transformers that is in an environment though another is wanted."""
    held = {name.lower(): version for name, version in there(folder, beside=False).items()}
    pinned = ((name, wanted.pins[name]) for name in ("trl", "transformers") if name in wanted.pins)
    return ", ".join(f"{name} {held[name]}" for name, pin in pinned if name in held and not fits(held[name], "==", pin))


def overlay_for(extras: Sequence[str], say: Say = lambda line: None) -> Kept:
    """tpu-port's own environment with `extras` (requirements) beside it; what it has already isn't installed again."""
    asked = sorted(extras)
    name = f"with-{_digest(_own_site(), *asked)}"
    return _once(name, lambda folder: _make_overlay(folder, asked, say), say)


def _once(
    name: str, make: Callable[[Path], None], say: Say, strayed: Callable[[Path], str] = lambda folder: ""
) -> Kept:
    """The environment of that name, which `make(folder)` makes where it isn't there, or `strayed(folder)` says what it
    holds instead; one process at a time."""
    folder = store() / name
    found = look(folder)
    if found.about is None or strayed(folder):
        with locked(name, say):
            found = look(folder)
            other = strayed(folder) if found.about is not None else ""
            if other:
                say(f"{folder} holds {other} by now, and is made anew")
            if found.about is None or other:
                make(folder)
                found = look(folder)
    mark_used(folder)
    return found


def name_of(wanted: Wanted) -> str:
    """The folder's name: readable, and another one when anything that is in it changes."""
    lead = [f"{name}-{wanted.pins[name].rstrip('.*')}" for name in ("trl", "transformers") if name in wanted.pins]
    torch = metadata.version("torch") if _torch() else "none"
    return "-".join(
        [*lead, _digest(*wanted.requirements(), *_digested(wanted), torch, str(_torch()), sys.version.split()[0])]
    )


def _digested(wanted: Wanted) -> list[str]:
    return [*sorted(wanted.extras), FORMAT_EXTRAS] if wanted.extras else []


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join([str(FORMAT), *parts]).encode()).hexdigest()[:8]


def _make(folder: Path, wanted: Wanted, say: Say) -> None:
    torch = _torch()
    if torch is None:
        raise CannotMake("torch isn't installed beside tpu-port: pip install 'tpu-port[validate]'")
    _check_disk(folder)
    say(f"making an environment for {wanted} ({USUAL_SIZE}) in {folder}")
    started = time.monotonic()
    site = _bare(folder)
    (site / "shared_torch.pth").write_text(f"{_shared_torch(torch)}\n", encoding="utf-8")
    dropped: list[str] = []
    try:
        _install_wanted(folder, wanted, say)
        _install(folder, OF_TORCH, say)  # of its own day, not of the script's
        dropped = _install_extras(folder, wanted.extras, say, before=wanted.until, kept=_kept(wanted))
        if other := _strayed(folder, wanted):
            raise CannotMake(f"the installer gave {other} for {wanted}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _finish(folder, str(wanted), started, dropped, say)


def _install_wanted(folder: Path, wanted: Wanted, say: Say) -> None:
    """The releases as they are wanted; failing that, the source libraries', or only those that the script was dated by,
    with others of their day.
    """
    said = ""
    for kept, before in itertools.product((None, LIBRARIES, ("trl", "transformers")), (wanted.until, "")):
        try:
            _install(folder, wanted.requirements(kept=kept), say, before=before)
        except _NoFit as error:
            said = said or str(error)
            continue
        if kept is not None:
            say(f"not all of {wanted} go together ({said}): other releases of that day were taken beside TRL's")
        return
    raise CannotMake(f"no releases go together with {wanted}: {said}")


def _make_overlay(folder: Path, extras: list[str], say: Say) -> None:
    _check_disk(folder)
    say(f"installing {', '.join(extras)} beside tpu-port's own environment, in {folder}")
    started = time.monotonic()
    site = _bare(folder)
    (site / "beside.pth").write_text(f"{_own_site()}\n", encoding="utf-8")
    try:
        dropped = _install_extras(folder, extras, say)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _finish(folder, "tpu-port's own releases", started, dropped, say)


def _finish(folder: Path, about: str, started: float, dropped: list[str], say: Say) -> None:
    releases = {
        found.metadata["Name"].lower(): found.version
        for found in metadata.distributions(path=[str(_site(folder))])
        if found.metadata["Name"]
    }
    seconds = time.monotonic() - started
    finish(folder, {"about": about, "releases": releases, "missing": dropped, "seconds": round(seconds, 1)})
    say(f"made in {seconds:.0f} s")


def _install_extras(
    folder: Path, extras: Sequence[str], say: Say, *, before: str = "", kept: Collection[str] | None = None
) -> list[str]:
    """Install what else a script imports; what can't be had is left out, and given back.

    Of what is there, releases of the `kept` stay as they are and others may become older; all stay where that is None.

    One that asks for more than goes together is taken as it is today, then without what it asks for.
    """
    if not extras:
        return []
    pinned = constraints(there(folder, beside=kept is None), kept)
    try:
        _install(folder, extras, say, before=before, constraints=pinned)
        return []
    except _NoFit:
        missing = []
    for extra in extras:
        said = ""
        for day, alone in ((before, False), ("", False), ("", True)):
            try:
                _install(folder, [extra], say, before=day, constraints=pinned, alone=alone)
            except _NoFit as error:
                said = said or str(error)
                continue
            said = f"without what it asks for: {said}" if alone else ""
            break
        else:
            missing.append(extra)
            said = f"can't be installed: {said}"
        if said:
            say(f"{extra} {said}")
    return missing


class _NoFit(Exception):
    """The installer found no releases that go together, or couldn't build one."""


def _install(
    folder: Path,
    requirements: Sequence[str],
    say: Say,
    *,
    before: str = "",
    constraints: Sequence[str] = (),
    alone: bool = False,
) -> None:
    """Run the installer, `alone` without what the requirements ask for themselves.

    _NoFit when the requirements can't be met, CannotMake when it can't work at all.
    """
    with tempfile.TemporaryDirectory(prefix="tpu-port-install-") as work:
        without, limits = Path(work, "overrides.txt"), Path(work, "constraints.txt")
        without.write_text(WITHOUT, encoding="utf-8")
        limits.write_text("\n".join([*constraints, ""]), encoding="utf-8")
        python = str(folder / "bin" / "python")
        uv = _uv()
        environment = dict(os.environ)
        if uv:
            words = [uv, "pip", "install", "--python", python, "--override", str(without), "-c", str(limits)]
            words += ["--exclude-newer", before] if before else []
            for ours, theirs in (("UV_DEFAULT_INDEX", "PIP_INDEX_URL"), ("UV_FIND_LINKS", "PIP_FIND_LINKS")):
                if theirs in environment:
                    environment.setdefault(ours, environment[theirs])
        else:
            words = [sys.executable, "-m", "pip", "--python", python, "install", "--no-input", "-c", str(limits)]
            words += ["--disable-pip-version-check"]
        output = _run([*words, *(["--no-deps"] if alone else []), *requirements], environment)
    if output is None:
        return
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if UNREACHABLE.search(output):
        raise CannotMake(f"the package index can't be reached ({_said(lines)})")
    if "No space left" in output:
        raise CannotMake(f"the disk of {store()} is full: tpu-port environments remove --all")
    raise _NoFit(_said(lines))


def _run(words: Sequence[str], environment: dict[str, str]) -> str | None:
    """None when the command did it, else what it printed."""
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        kill_group(process)
        raise CannotMake(f"the installation took over {LONGEST:g} s") from None
    except BaseException:
        kill_group(process)
        raise
    return output if process.returncode else None


def _said(lines: list[str]) -> str:
    """The installer's reason in one line."""
    told = [line for line in lines if re.search(r"because|no version|no matching|error|conflict|fail", line, re.I)]
    text = " ".join((told or lines or ["it said nothing"])[-1].split())
    return text if len(text) <= 200 else f"{text[:199]}…"


def _bare(folder: Path) -> Path:
    """A new virtual environment without packages, in place of what is there; its site-packages."""
    if folder.exists():
        shutil.rmtree(folder)
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    return _site(folder)


def _site(folder: Path) -> Path:
    return folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"


def _own_site() -> str:
    return sysconfig.get_paths()["purelib"]


def _torch() -> Path | None:
    """The folder that holds tpu-port's torch."""
    found = importlib.util.find_spec("torch")
    return Path(found.origin).parent.parent if found is not None and found.origin else None


def _shared_torch(site: Path) -> Path:
    """A folder with links to torch and nothing else of the environment that has it."""
    folder = store() / f".torch-{_digest(str(site), metadata.version('torch'))}"
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in SHARED:
        for path in site.glob(pattern):
            link = folder / path.name
            if not link.is_symlink():
                link.symlink_to(path)
    return folder


def _kept(wanted: Wanted) -> set[str]:
    """What of an environment makes it the script's own, or is torch's: numpy isn't, which many want older than 2."""
    return {*wanted.pins, *(re.split(r"[<>=]", each)[0] for each in OF_TORCH)} - {"numpy"}


def there(folder: Path, *, beside: bool) -> dict[str, str]:
    """The releases in an environment; with those of tpu-port's own, `beside` which it lies."""
    places = [str(_site(folder))] + ([_own_site()] if beside else [])
    found = {each.metadata["Name"]: each.version for each in metadata.distributions(path=places)}
    return {name: version.partition("+")[0] for name, version in found.items() if name and name != "tpu-port"}


def constraints(releases: dict[str, str], kept: Collection[str] | None) -> list[str]:
    """What keeps `releases` as they are, all of them or the `kept`; others may become older, and never newer.

    Were all kept, an installer would look for ever older releases of what is to come, down to those that asked for
    nothing yet, and work with nothing any more.
    """
    return [
        f"{name}{'==' if kept is None or name.lower().replace('_', '-') in kept else '<='}{version}"
        for name, version in releases.items()
    ]


def _check_disk(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED:
        raise CannotMake(
            f"only {free / 1e9:.1f} GB are free on the disk of {folder.parent}, and {NEEDED / 1e9:.1f} are needed: "
            "tpu-port environments remove --all, or name another place with TPU_PORT_CACHE"
        )


def _uv() -> str | None:
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return shutil.which("uv")


def made_of(environment: Kept) -> str:
    """What an environment holds, for a list."""
    if environment.about is None:
        return "half made: never used, made anew when it is needed"
    return str(environment.about.get("about", "")) or json.dumps(environment.about)


__all__ = ["CannotMake", "environment_for", "made_of", "name_of", "overlay_for", "remove"]
