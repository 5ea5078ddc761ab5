"""W + B·A in the weights' own dtype: float32 sums, one rounding to nearest even, in blocks that stay in the cache.

NumPy has no bfloat16, and ml_dtypes converts element by element, so bfloat16 is read and rounded here as what it is:
the upper half of a float32.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

FLOATS = ("F32", "F16", "BF16")
_NUMPY: dict[str, Any] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
# Elements of a block: half a megabyte of float32, so that its passes run in a core's own cache.
BLOCK = 1 << 17
# Rounding is measured in every SAMPLE-th block.
SAMPLE = 8

_buffers = threading.local()


@dataclass
class Retained:
    """What rounding left of a delta, over the blocks that were measured. Sums of squares; counts of elements."""

    delta: float = 0.0
    lost: float = 0.0
    base: float = 0.0
    elements: int = 0
    moved: int = 0

    def add(self, other: Retained) -> None:
        self.delta += other.delta
        self.lost += other.lost
        self.base += other.base
        self.elements += other.elements
        self.moved += other.moved

    @property
    def kept(self) -> float:
        """1 minus the relative error of the delta after rounding, at least 0; 1 for no delta at all."""
        return max(0.0, 1.0 - (self.lost / self.delta) ** 0.5) if self.delta else 1.0

    @property
    def size(self) -> float:
        """|delta| / |W|, in Frobenius norms."""
        return float((self.delta / self.base) ** 0.5) if self.base else 0.0


def merge(
    rows: np.ndarray, dtype: str, goal: str, b: np.ndarray | None, a: np.ndarray | None
) -> tuple[np.ndarray, Retained]:
    """Rows of W as stored (uint8, (rows, bytes)) → rows of W + b @ a as stored in `goal`, and what rounding kept.

    `rows` are overwritten where `goal` is their dtype.

    `b` (rows, r) and `a` (r, in), float32, the scale already in `b`; None only converts. OverflowError where float16
    has no room for a value.
    """
    stored = rows.view(_NUMPY[dtype])
    count, width = stored.shape
    # In place where it can be: memory that was never touched costs as much as the sums.
    out = stored if goal == dtype else np.empty((count, width), _NUMPY[goal])
    kept = Retained()
    step = max(8, BLOCK // max(width, 1))
    sums, bits = _scratch(step, width)
    for i, at in enumerate(range(0, count, step)):
        block = stored[at : at + step]
        total, spare = sums[: len(block)], bits[: len(block)]
        if b is None or a is None:
            np.copyto(total, _widened(block, dtype, spare))
            _narrow(total, goal, spare, out[at : at + step])
            continue
        np.matmul(b[at : at + step], a, out=total)
        if i % SAMPLE:
            np.add(total, _widened(block, dtype, spare), out=total)
            _narrow(total, goal, spare, out[at : at + step])
            continue
        delta, base = total.copy(), _widened(block, dtype, spare).copy()
        np.add(total, base, out=total)
        exact = total.copy()
        _narrow(total, goal, spare, out[at : at + step])
        kept.add(_measured(delta, base, exact, _widened(out[at : at + step], goal, spare)))
    return out.view(np.uint8), kept


def _measured(delta: np.ndarray, base: np.ndarray, exact: np.ndarray, rounded: np.ndarray) -> Retained:
    error = (rounded - exact).ravel()
    return Retained(
        delta=float(np.dot(delta.ravel(), delta.ravel())),
        lost=float(np.dot(error, error)),
        base=float(np.dot(base.ravel(), base.ravel())),
        elements=error.size,
        moved=int(np.count_nonzero(rounded != base)),
    )


def narrowed(values: np.ndarray, goal: str) -> np.ndarray:
    """float32 (rows, columns) as stored in `goal`: uint8 (rows, bytes). OverflowError as in `merge`."""
    out = np.empty(values.shape, _NUMPY[goal])
    if values.size:
        step = max(8, BLOCK // values.shape[1])
        sums, bits = _scratch(step, values.shape[1])
        for at in range(0, len(values), step):
            total = sums[: len(values[at : at + step])]
            np.copyto(total, values[at : at + step])
            _narrow(total, goal, bits[: len(total)], out[at : at + step])
    return out.view(np.uint8)


def _widened(block: np.ndarray, dtype: str, spare: np.ndarray) -> np.ndarray:
    """Stored values as float32; `spare` (uint32, of the block's shape) is written to."""
    if dtype == "F32":
        return block
    if dtype == "BF16":
        np.left_shift(block, 16, out=spare, dtype=np.uint32, casting="unsafe")
        return spare.view(np.float32)
    values = spare.view(np.float32)
    np.copyto(values, block)
    return values


def _narrow(total: np.ndarray, goal: str, spare: np.ndarray, out: np.ndarray) -> None:
    """float32 rounded to nearest even into `out`; `total` and `spare` are written to."""
    if goal != "BF16":
        with np.errstate(over="ignore"):
            np.copyto(out, total, casting="unsafe")
        if goal == "F16" and np.isinf(out).any() and not np.isinf(total).any():
            raise OverflowError("beyond float16's range of ±65504")
        return
    bits = total.view(np.uint32)
    np.right_shift(bits, 16, out=spare)
    np.bitwise_and(spare, 1, out=spare)
    np.add(spare, 0x7FFF, out=spare)
    np.add(bits, spare, out=bits)
    np.right_shift(bits, 16, out=bits)
    np.copyto(out, bits, casting="unsafe")


def _scratch(rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """This thread's two buffers of that size: allocating them anew would cost as much as the sums."""
    held = getattr(_buffers, "held", None)
    if held is None or held[0].size < rows * width:
        held = np.empty(rows * width, np.float32), np.empty(rows * width, np.uint32)
        _buffers.held = held
    return held[0][: rows * width].reshape(rows, width), held[1][: rows * width].reshape(rows, width)
