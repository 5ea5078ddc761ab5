"""Output files from their pieces: several at a time, each file whole and on the disk before it has its name."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Protocol

import numpy as np

from ..errors import InputError
from .layout import PIECE, Copy, Make, OutFile
from .manifest import Manifest
from .merging import Retained, merge
from .output import PARTIAL, refused, settle

# Bytes that the kernel copies in one call; progress is said in between.
AT_ONCE = 64 << 20
# Bytes that may wait in memory for the disk before it is told to go on with them.
FLUSH = 256 << 20
# File systems that cannot copy, or set room aside, say one of these.
_UNABLE = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)
_held = threading.local()


class Change(Protocol):
    """What is made of a tensor; `reads_base`: whether its old values are needed."""

    reads_base: bool

    def rows(self, piece: Make, stored: np.ndarray) -> tuple[np.ndarray, Retained]:
        """Rows of the changed tensor as stored in the goal's dtype (uint8, (rows, bytes)), and what rounding kept."""


def write_files(
    files: tuple[OutFile, ...],
    manifest: Manifest,
    change: Callable[[str], Change],
    *,
    said: Callable[[int], None] = lambda count: None,
    check: Callable[[], None] = lambda: None,
    workers: int | None = None,
) -> None:
    """Writes the files that the manifest doesn't have yet. `change` gives the change that a piece names.

    `said` hears of bytes as they are written, from several threads; `check` is asked before a file gets its name, and
    raises when what it was made of is no longer what it was.
    """
    workers = workers or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with ThreadPoolExecutor(1) as disk, ThreadPoolExecutor(workers) as pool:
        settled: Future[None] | None = None
        for file in files:
            if manifest.is_done(file.name):
                said(file.size)
                continue
            target = manifest.folder / file.name
            try:
                descriptor, retained = _write(file, target, pool, disk, workers, change, said, check)
            except OSError as error:
                raise refused(error, target) from error
            if settled is not None:
                settled.result()
            settled = disk.submit(_finish, descriptor, manifest, file.name, retained)
        if settled is not None:
            settled.result()


def _write(
    file: OutFile,
    target: Path,
    pool: ThreadPoolExecutor,
    disk: ThreadPoolExecutor,
    workers: int,
    change: Callable[[str], Change],
    said: Callable[[int], None],
    check: Callable[[], None],
) -> tuple[int, dict[str, Retained]]:
    """Writes a file under its temporary name; returns its descriptor, still open, and what rounding kept.

    `disk` brings to the disk what is written while the rest is computed, which otherwise would wait for the end.
    """
    partial = target.with_name(target.name + PARTIAL)
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
    retained: dict[str, Retained] = {}
    try:
        _set_aside(descriptor, file.size)
        os.pwrite(descriptor, file.header, 0)
        said(len(file.header))
        flushed = len(file.header)
        for piece, (tensor, kept) in _in_order(pool, workers, file.pieces, descriptor, change, said):
            if tensor:
                retained.setdefault(tensor, Retained()).add(kept)
            if piece.to - flushed > FLUSH:
                flushed = piece.to
                disk.submit(os.fdatasync, descriptor)
        check()
    except BaseException:
        disk.submit(os.close, descriptor)  # after what it still has to do with it
        raise
    return descriptor, retained


def _finish(descriptor: int, manifest: Manifest, name: str, retained: dict[str, Retained]) -> None:
    target = manifest.folder / name
    try:
        settle(descriptor, target.with_name(name + PARTIAL), target)
    except OSError as error:
        raise refused(error, target) from error
    finally:
        os.close(descriptor)
    manifest.finish(name, retained)


def _set_aside(descriptor: int, size: int) -> None:
    """Takes the file's room on the disk, so that a full one says so before anything is computed."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise


def _in_order(
    pool: ThreadPoolExecutor,
    workers: int,
    pieces: tuple[Copy | Make, ...],
    descriptor: int,
    change: Callable[[str], Change],
    said: Callable[[int], None],
) -> Iterator[tuple[Copy | Make, tuple[str, Retained]]]:
    """Results in the pieces' order (sums of floats must not depend on who is first), few pieces ahead of them."""
    waiting: list[tuple[Copy | Make, Future[tuple[str, Retained]]]] = []
    try:
        for piece in pieces:
            waiting.append((piece, pool.submit(_job(piece, descriptor, change, said))))
            if len(waiting) > 2 * workers:
                first, future = waiting.pop(0)
                yield first, future.result()
        while waiting:
            first, future = waiting.pop(0)
            yield first, future.result()
    finally:
        for _, future in waiting:
            future.cancel()
        wait([future for _, future in waiting])


Job = Callable[[], tuple[str, Retained]]


def _job(piece: Copy | Make, descriptor: int, change: Callable[[str], Change], said: Callable[[int], None]) -> Job:
    if isinstance(piece, Copy):
        return lambda: _copy(piece, descriptor, said)
    return lambda: _make(piece, descriptor, change, said)


def _copy(piece: Copy, descriptor: int, said: Callable[[int], None]) -> tuple[str, Retained]:
    with piece.source.open("rb") as stream:
        done = 0
        while done < piece.count:
            count = min(AT_ONCE, piece.count - done)
            copied = _copy_range(stream.fileno(), descriptor, count, piece.start + done, piece.to + done)
            if not copied:
                raise InputError("became shorter while it was read", piece.source, fix="run the same command again")
            done += copied
            said(copied)
    return "", Retained()


def _copy_range(source: int, target: int, count: int, start: int, to: int) -> int:
    """Copies in the kernel where it can (Linux), else through memory; returns how many bytes."""
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, target, count, start, to)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
    data = os.pread(source, min(count, PIECE), start)
    return os.pwrite(target, data, to)


def _make(
    piece: Make, descriptor: int, change: Callable[[str], Change], said: Callable[[int], None]
) -> tuple[str, Retained]:
    tensor = piece.stored
    rows = tensor.shape[0] if len(tensor.shape) > 1 else 1
    width = tensor.nbytes // rows
    becomes = change(piece.change) if piece.change is not None else None
    stored = _buffer((piece.last - piece.first) * width).reshape(piece.last - piece.first, width)
    if becomes is None or becomes.reads_base:
        with piece.source.open("rb", buffering=0) as stream:
            stream.seek(tensor.start + piece.first * width)
            _fill(stream, stored, piece.source)
    try:
        if becomes is None:
            made, kept = merge(stored, tensor.dtype, piece.goal, None, None)
        else:
            made, kept = becomes.rows(piece, stored)
    except OverflowError as error:
        raise InputError(
            f"{tensor.name} has values {error}", piece.source, fix="--dtype bfloat16 or float32"
        ) from error
    view, at = made.data.cast("B"), piece.to
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written
    said(made.nbytes)
    return (tensor.name if kept.elements else ""), kept


def _buffer(size: int) -> np.ndarray:
    """This thread's bytes to read into."""
    held = getattr(_held, "bytes", None)
    if held is None or held.size < size:
        held = _held.bytes = np.empty(size, np.uint8)
    return held[:size]


def _fill(stream: object, buffer: np.ndarray, source: Path) -> None:
    view = buffer.data.cast("B")
    while view:
        count = stream.readinto(view)  # type: ignore[attr-defined]
        if not count:
            raise InputError("became shorter while it was read", source, fix="run the same command again")
        view = view[count:]
