"""The output folder: whether it may be written, and files in it that appear whole."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError

PARTIAL = ".partial"
# Left free for the rest of the machine.
SPARE = 64 << 20


def check_folder(folder: Path, names: Iterable[str], others: Iterable[Path], *, known: bool, force: bool) -> None:
    """InputError unless `names` may be written into `folder`. `others` are the base's and the checkpoint's folders.

    `known`: the folder holds an interrupted export of the same, which goes on. Nothing is ever deleted; with `force`
    files of these names are replaced.
    """
    if folder.is_symlink():
        raise InputError("the output is a symbolic link", folder, fix=f"name the folder itself: {folder.resolve()}")
    if folder.exists() and not folder.is_dir():
        raise InputError("the output is a file", folder, fix="name a folder")
    for other in others:
        if folder.resolve() == other.resolve() or other.resolve() in folder.resolve().parents:
            raise InputError(f"the output lies in {other}, which is read", folder, fix="write somewhere else")
    if not folder.exists():
        parent = next(parent for parent in folder.absolute().parents if parent.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            raise InputError("no permission to make the output folder", folder, fix=f"may you write to {parent}?")
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError("no permission to write into the output folder", folder, fix="write somewhere else")
    for name in names:
        for file in (folder / name, folder / f"{name}{PARTIAL}"):
            if file.is_symlink():
                raise InputError("is a symbolic link, which an export doesn't write through", file, fix="move it away")
            if file.is_dir():
                raise InputError("is a folder", file, fix="move it away")
    if not known and not force and any(folder.iterdir()):
        raise InputError("the output folder isn't empty", folder, fix="--force replaces files of the same names in it")


def check_strangers(folder: Path, ours: Iterable[str], patterns: Iterable[str]) -> None:
    """InputError when `folder` holds files of these patterns that aren't `ours`: they would be loaded, too."""
    if folder.is_dir():
        found = {path.name for pattern in patterns for path in folder.glob(pattern)} - set(ours)
        if found:
            raise InputError(
                f"the output folder holds {', '.join(sorted(found)[:4])}, which would be loaded with the export or "
                "in its place", folder, fix="write into another folder",
            )  # fmt: skip


def holds_only_partials(folder: Path, names: Iterable[str]) -> bool:
    """Whether `folder` holds nothing but what an export leaves that was killed before its first file was whole."""
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= {f"{name}{PARTIAL}" for name in names}


def check_space(folder: Path, needed: int, *, staged: int = 0) -> None:
    """InputError when the disk has less than `needed` bytes, plus `staged` for a file that is replaced, left."""
    parent = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(parent).free
    if free < needed + staged + SPARE:
        raise InputError(
            f"the disk has {free / 1e9:.2f} GB left, the export needs {(needed + staged + SPARE) / 1e9:.2f} GB", folder,
            fix="make room, or write to another disk",
        )  # fmt: skip


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """A path to write to, which becomes `file` when the block ends: on the disk first, then under its name.

    InputError when the disk is full or refuses; `file` is then as it was, and what was written stays under the other
    name for the next run to overwrite.
    """
    partial = file.with_name(file.name + PARTIAL)
    try:
        yield partial
        with open(partial, "rb+") as stream:
            settle(stream.fileno(), partial, file)
    except OSError as error:
        raise refused(error, file) from error


def settle(descriptor: int, partial: Path, file: Path) -> None:
    """Makes the open file `partial` into `file`: on the disk first, then under its name, then in its folder."""
    os.fsync(descriptor)
    os.replace(partial, file)
    sync_folder(file.parent)


def refused(error: OSError, file: Path) -> InputError:
    """What the operating system refused, in a user's words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(
            "the disk is full", file, fix="make room and run the same command again: it goes on from here"
        )
    return InputError(f"can't be written: {error.strerror or error}", file, fix="check the disk and its permissions")


def sync_folder(folder: Path) -> None:
    """Makes renames in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(file: Path, value: Any) -> None:
    """Indented JSON with sorted keys, as transformers and PEFT write it."""
    write_bytes(file, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())


def write_bytes(file: Path, content: bytes) -> None:
    with whole(file) as partial:
        partial.write_bytes(content)
