"""Files of framed records: TensorFlow's, which TensorBoard's events are, and LevelDB's log, which W&B's file is."""

from __future__ import annotations

import struct
from collections.abc import Iterator

BLOCK = 32_768
HEADER = 7  # of a LevelDB record: checksum, length, kind
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


class Cut(Exception):
    """The file ends in the middle of a record."""


def tensorflow_records(data: bytes) -> Iterator[bytes]:
    """Length, its checksum, the record, its checksum. Cut when the last one isn't whole."""
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            raise Cut
        (size,) = struct.unpack_from("<Q", data, at)
        if at + 16 + size > len(data):
            raise Cut
        yield data[at + 12 : at + 12 + size]
        at += 16 + size


def leveldb_records(data: bytes, start: int) -> Iterator[bytes]:
    """Records, some in parts, in blocks of 32 KiB that end in zeros. `start`: bytes of the file's own header."""
    at, whole = start, bytearray()
    while at < len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        if at + HEADER > len(data):
            raise Cut
        _, size, kind = struct.unpack_from("<IHB", data, at)
        if kind == 0 and size == 0:
            at += left
            continue
        part = data[at + HEADER : at + HEADER + size]
        if len(part) < size or kind not in (WHOLE, FIRST, MIDDLE, LAST):
            raise Cut
        if kind in (WHOLE, FIRST):
            whole.clear()
        whole += part
        if kind in (WHOLE, LAST):
            yield bytes(whole)
        at += HEADER + size
