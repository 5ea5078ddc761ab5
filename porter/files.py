"""Reading what somebody else wrote: a regular file of a sensible size, or one clear line.

A repository may name a FIFO, a device or a sparse file of terabytes where it names a config; reading one of these never
ends, or takes all memory.
"""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

from .errors import InputError

# Settings and scripts are far smaller; notebooks with pictures in their outputs are not.
LARGEST_FILE = 256 * 1024 * 1024
LARGEST_SETTINGS = 4 * 1024 * 1024
# Marks at the start of a text: PowerShell's `pip freeze > requirements.txt` is UTF-16, and pip reads it.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def is_file(path: Path) -> bool:
    """Whether a regular file (or a link to one) can be seen there; False for any path that the system refuses."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether a folder can be seen there; False for any path that the system refuses."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def read_file(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """The bytes of a regular file. OSError when it can't be read; InputError when it is none or longer than `largest`.

    Opened without waiting and looked at through the open file, so that nothing can take its place in between.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # a NUL in the name
        raise InputError(f"can't be read: {error}", path, fix="name a file") from None
    with os.fdopen(number, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise InputError("is no regular file", path, fix="name a file, no device, pipe or folder")
        if found.st_size > largest:
            size = f"{found.st_size / 2**20:.0f} MiB"
            raise InputError(f"has {size}: {largest / 2**20:.0f} MiB are read at most", path, fix="shorten it")
        data = file.read(largest + 1)
    if len(data) > largest:  # it grew, or lied about its size
        raise InputError(f"grows: {largest / 2**20:.0f} MiB are read at most", path, fix="shorten it")
    return data


def read_text(path: Path, largest: int = LARGEST_SETTINGS) -> str:
    """The UTF-8 text of a regular file; UnicodeDecodeError when it is none, and as `read_file`."""
    return read_file(path, largest).decode("utf-8")


def read_marked(path: Path, largest: int = LARGEST_SETTINGS) -> str:
    """The text of a regular file, as the mark at its start says it is written, else UTF-8; what is none is replaced."""
    data = read_file(path, largest)
    mark, encoding = next((found for found in MARKS if data.startswith(found[0])), (b"", "utf-8"))
    return data[len(mark) :].decode(encoding, "replace")
