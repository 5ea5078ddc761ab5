"""Lengths of rows on a TPU: whole tiles of its matrix units and attention kernels."""

from __future__ import annotations

LENGTH_MULTIPLE = 128  # padding has no effect on the loss


def rounded(length: int, multiple: int = LENGTH_MULTIPLE) -> int:
    """`length` rounded up to a multiple."""
    return -(-int(length) // multiple) * multiple
