"""Stand-ins for what a compile needs no contents of: the script's dataset and tokenizer, and its batches by shape."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...runtime.facts.lengths import rounded


class Absent:
    """An object that answers everything with itself, holds nothing, and has a length."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return self._rows

    def __contains__(self, key: Any) -> bool:
        return False


class BatchShapes:
    """What the runtime's batches say of themselves, from their arguments alone: rows are as long as they may be.

    `seq_len`, `batch` (rows of a micro-batch over the whole mesh) and `rows` come from the command line and win over
    the script's; ValueError when neither says how long a row is.
    """

    def __init__(self, mesh: Any, given: dict[str, Any], *, seq_len: int | None, batch: int | None, rows: int) -> None:
        shapes = sorted(given.get("step_packing") or (), key=lambda shape: -shape[0] * shape[1])
        largest = shapes[0] if shapes else (None, None)
        longest = seq_len or largest[1] or given.get("max_length", 1024)
        if not longest:
            raise ValueError("the script sets no max_length (or tokenises its rows itself): give --seq-len N")
        self.length = rounded(longest)
        batch_size, accumulation = int(given.get("batch_size", 8)), int(given.get("accumulation", 1))
        self.effective = batch_size * accumulation
        fsdp = dict(mesh.shape).get("fsdp", 1)
        self.batch_size = -(-(batch or largest[0] or given.get("micro_batch") or batch_size) // fsdp) * fsdp
        self.micro_batches = max(1, math.ceil(self.effective / self.batch_size))
        self.accumulation = self.micro_batches if self.micro_batches > 1 else None
        self.rows = rows
        self.steps_per_epoch = max(1, math.ceil(rows / self.effective))
        max_steps, epochs = int(given.get("max_steps", -1)), float(given.get("epochs", 3.0))
        self.steps = max_steps if max_steps > 0 else max(1, math.ceil(epochs * self.steps_per_epoch))
        self.packing = bool(given.get("packing", False)) or bool(shapes)
        self.apart = given.get("mean_over") == "micro_batch" and bool(shapes)
        self.noisy = bool(given.get("neftune_noise_alpha"))
        self.smoothed = bool(given.get("label_smoothing"))
        buckets = sorted({rounded(length) for length in given.get("buckets") or ()})
        self.varying = tuple(f"a micro-batch of {n} tokens (buckets)" for n in buckets if n < self.length)
        self.varying += tuple(f"a micro-batch of {rows} x {n} tokens (step_packing)" for rows, n in shapes[1:])

    def evaluation(self, *args: Any, **kwargs: Any) -> BatchShapes:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def batch(self) -> dict[str, np.ndarray]:
        """One micro-batch: right shapes and dtypes, no memory."""
        names = ("input_tokens", "labels", "positions", "segment_ids")
        shape = (self.batch_size, self.length)
        arrays = {name: np.broadcast_to(np.int32(0), shape) for name in names}
        arrays["scale"] = np.broadcast_to(np.float32(0), shape if self.apart else shape[:1])
        if self.smoothed:
            arrays["smoothing"] = np.broadcast_to(np.float32(0), shape[:1])
        if self.noisy:
            arrays["noise"] = np.broadcast_to(np.float32(0), shape[:1])
            arrays["noise_seeds"] = np.broadcast_to(np.uint32(0), shape[:1])
        if self.packing:
            arrays["documents"] = np.broadcast_to(np.int32(0), shape[:1])
        return arrays
