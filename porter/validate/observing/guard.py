"""Keeps a script that is run to its own copy: what it writes elsewhere goes below the work folder.

Installed in the script's process before it begins. Files that it would write outside the places it is given are
redirected, and found again where it looks for them; programs that its own code starts are replaced by one that does
nothing; only loopback and, when the machine is online, the Hub can be reached. Whatever slips past that, Python's audit
events end.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from .callers import of_user
from .spelling import by_place

if TYPE_CHECKING:
    from ..stand_ins.substitutes import Substitutes
    from .settings import Settings

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
HUB_HOSTS = ("huggingface.co", "hf.co")
# Functions of `os` whose first argument is a path: those that change something there, and those that look.
MAKES = ("mkdir", "mkfifo")
ALTERS = ("remove", "unlink", "rmdir", "chmod", "utime", "truncate")
LOOKS = ("stat", "lstat", "listdir", "scandir", "access", "readlink")
MOVES = ("rename", "replace", "link")  # from the first path to the second
CACHES = ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TORCHINDUCTOR_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")
STARTERS = (os.__file__, subprocess.__file__)  # which start a program for whoever calls them
AUDITED = {"os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "os.rename", "os.link", "os.symlink"}
AUDITED |= {"shutil.rmtree", "shutil.move"}


def keep_to_copy(settings: Settings, substitutes: Substitutes) -> None:
    """Guard this process: its script may write below the work folder and to libraries' caches."""
    caches = [os.environ[name] for name in CACHES if os.environ.get(name)]
    online = os.environ.get("HF_HUB_OFFLINE") != "1"
    Guard(substitutes.outside, [settings.work, *caches], substitutes.note, online=online).install()


class Guard:
    """What one script may do. `note` gets a line for everything that was kept from it."""

    def __init__(self, outside: Path, allowed: list[str], note: Callable[[str], None], *, online: bool) -> None:
        self.outside = Path(os.path.realpath(outside))
        self.allowed = [os.path.realpath(place) for place in (str(outside), *allowed)]
        self.note = note
        self.online = online
        self._looking = threading.local()  # set while the guard itself follows links

    def install(self) -> None:
        """Patch this process; there is no way back."""
        self._patch_files()
        self._patch_programs()
        sys.addaudithook(self.audit)

    def is_allowed(self, path: str) -> bool:
        """Whether the script may write there: its copy, the work folder, devices, caches of the libraries."""
        if getattr(self._looking, "now", False):
            return True
        self._looking.now = True
        try:
            path = os.path.realpath(path)  # a link of the copy may lead out of it
        finally:
            self._looking.now = False
        return (
            path.startswith(("/dev/", "/proc/self/"))
            or "/__pycache__" in path
            or any(path == place or path.startswith(place + os.sep) for place in self.allowed)
        )

    def redirected(self, path: str) -> str:
        """Where what is written to `path` goes."""
        return str(self.outside / os.path.abspath(path).lstrip(os.sep))

    def written(self, path: Any) -> Any:
        """`path`, or where it goes instead; folders above it are made."""
        if not isinstance(path, str | os.PathLike):
            return path
        text = os.fspath(path)
        if not isinstance(text, str) or self.is_allowed(text):
            return path
        target = self.redirected(text)
        _makedirs(os.path.dirname(target), exist_ok=True)
        self.note(f"{text} lies outside the script's folder: what it writes there went elsewhere")
        return target

    def read(self, path: Any) -> Any:
        """`path`, or what the script has written in its place."""
        if not isinstance(path, str | os.PathLike):
            return path
        text = os.fspath(path)
        if not isinstance(text, str) or self.is_allowed(text):
            return path
        target = self.redirected(text)
        return target if _exists(target) else path

    def _patch_files(self) -> None:
        opens = builtins.open

        @functools.wraps(opens)
        def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
            return opens(self.written(file) if writes else self.read(file), mode, *args, **kwargs)

        builtins.open = io.open = open_
        low = os.open

        @functools.wraps(low)
        def os_open(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            return low(self.written(path) if flags & WRITES else self.read(path), flags, *args, **kwargs)

        os.open = os_open
        for names, where in ((MAKES, self.written), (LOOKS, self.read)):
            for name in names:
                setattr(os, name, _mapped(getattr(os, name), where))
        os.mkdir = self._making(os.mkdir)
        for name in ALTERS:
            setattr(os, name, self._altering(getattr(os, name)))
        shutil.rmtree = self._altering(shutil.rmtree)  # type: ignore[assignment]
        for name in MOVES:
            setattr(os, name, _moved(getattr(os, name), self.read, self.written))

    def _making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`os.mkdir`; a folder whose name was left empty for its user to fill in is the current one, which is there."""

        @functools.wraps(original)
        def function(path: Any, *args: Any, **kwargs: Any) -> Any:
            if path == "" and self.is_own_call():
                self.note("the empty name of a folder that the script makes was taken for the current folder")
                return None
            return original(path, *args, **kwargs)

        return function

    def _altering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """What changes or deletes something: of what the script has written itself, else nothing."""

        @functools.wraps(original)
        def function(path: Any, *args: Any, **kwargs: Any) -> Any:
            target = self.read(path)
            if isinstance(target, str) and not self.is_allowed(target):
                self.note(f"{target} lies outside the script's folder: {original.__name__} left it alone")
                return None
            return original(target, *args, **kwargs)

        return function

    def _patch_programs(self) -> None:
        guard = self
        start, system = subprocess.Popen.__init__, os.system

        @functools.wraps(start)
        def init(self: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
            if guard.is_own_call():
                guard.refuse(args if isinstance(args, str) else " ".join(map(str, args)))
                args, kwargs["shell"], kwargs["executable"] = ["true"], False, None
            start(self, args, *rest, **kwargs)

        @functools.wraps(system)
        def own_system(command: Any) -> int:
            if guard.is_own_call():
                guard.refuse(str(command))
                return 0
            return system(command)

        subprocess.Popen.__init__ = init  # type: ignore[method-assign]
        os.system = own_system

    def refuse(self, command: str) -> None:
        short = " ".join(command.split())
        self.note(f"a program that the script starts was not run: {short[:80]}{'…' if len(short) > 80 else ''}")

    def is_own_call(self) -> bool:
        """Whether the script's own code made this call, and not a library on its behalf."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith(("<", *STARTERS)):
            frame = frame.f_back
        return frame is not None and of_user(frame.f_code.co_filename)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The net: what reached Python another way."""
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str) and isinstance(flags, int) and flags & WRITES and not self.is_allowed(path):
                raise PermissionError(f"{path} lies outside the script's folder: validate lets nothing write there")
        elif event in AUDITED:
            targets = [part for part in arguments if isinstance(part, str)]
            outside = [path for path in targets if not self.is_allowed(path)]
            if outside and not (event in ("os.link", "os.symlink") and self.is_allowed(targets[-1])):
                raise PermissionError(f"{outside[0]} lies outside the script's folder: validate changes nothing there")
        elif event == "socket.getaddrinfo":
            self._check_host(str(arguments[0]))
        elif event in ("socket.connect", "socket.bind"):
            address = arguments[1]
            if isinstance(address, tuple) and event == "socket.bind" and not _is_loopback(str(address[0])):
                raise PermissionError(f"the script opens port {address[1]} to others: validate doesn't let it")
            if isinstance(address, tuple) and not self.online and not _is_loopback(str(address[0])):
                raise OSError(f"no network under validate: {address[0]}")

    def _check_host(self, host: str) -> None:
        if _is_loopback(host) or (self.online and any(host == h or host.endswith(f".{h}") for h in HUB_HOSTS)):
            return
        raise OSError(f"no network under validate: {host}")


_exists, _makedirs = os.path.lexists, os.makedirs


def _mapped(original: Callable[..., Any], where: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        return original(where(path), *args, **kwargs)

    return function


def _moved(
    original: Callable[..., Any], read: Callable[[Any], Any], written: Callable[[Any], Any]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        (source, target, *rest), kwargs = by_place(original, args, kwargs, 2)
        return original(read(source), written(target), *rest, **kwargs)

    return function


def _is_loopback(host: str) -> bool:
    return host in ("", "localhost", "::1", "None") or host.startswith("127.")
