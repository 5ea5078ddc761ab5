"""What transformers' Trainer gathers for `compute_metrics`: predictions and labels, row for row as on the GPUs.

Rows are evaluated as wide as each GPU process padded them, in the order that the Trainer gathers them, so that a
metric which looks at padding counts what it counted there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..facts.files import to_host
from ..facts.lengths import rounded
from ..facts.releases import BLIND
from ..hosts.global_arrays import placed
from ..rows.collation import without_sight
from .arrays import Batch, divisible, smoothed

IGNORED = -100  # fills what a batch is narrower than another

# A function on traced arrays raises these where it needs their values; it is called without jit then.
_NEEDS_VALUES = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)


class EvalPrediction:
    """transformers' EvalPrediction: NumPy arrays `predictions` and `label_ids`, and `inputs` where they are asked for.

    It unpacks into what it has: `predictions, labels = prediction`.
    """

    def __init__(self, predictions: Any, label_ids: Any, inputs: Any = None) -> None:
        self.predictions, self.label_ids, self.inputs, self.losses = predictions, label_ids, inputs, None
        self.elements = (predictions, label_ids) if inputs is None else (predictions, label_ids, inputs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.elements)

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self.elements):
            raise IndexError("tuple index out of range")
        return self.elements[index]


Preprocess = Callable[[Any, Any], Any]
ComputeMetrics = Callable[[EvalPrediction], Mapping[str, Any]]


@dataclass(frozen=True)
class Share:
    """The rows that one GPU process evaluates in one step, as its model is given them.

    `ids`, `labels` (-100 = not trained) and `attended` (bool): (n, L), padding included. `weights`: (n,), what a token
    of each row counts in eval_loss.
    """

    ids: np.ndarray
    labels: np.ndarray
    attended: np.ndarray
    weights: np.ndarray


class WholeBatches:
    """Evaluation batches of whole steps of the GPU run, padding included: `attended` says which tokens are seen.

    `steps`: the shares of every process, step by step. `kept`: how many rows of the last step the Trainer keeps (it
    drops those that accelerate repeats to fill it); None for all. A batch holds as many whole steps as its rows allow.
    `of_no_token`: `Release.of_no_token`.
    """

    def __init__(
        self,
        steps: Sequence[Sequence[Share]],
        mesh: jax.sharding.Mesh,
        kept: int | None,
        label_smoothing: float = 0.0,
        of_no_token: str = "nothing",
    ) -> None:
        largest = max(sum(len(share.ids) for share in step) for step in steps)
        self.batch_size = divisible(largest, mesh)
        self.length = rounded(max(share.ids.shape[1] for step in steps for share in step))
        self.kept = kept
        self._label_smoothing, self._mesh = label_smoothing, mesh
        self._together = self.batch_size // largest
        self._steps = steps
        self._masked = any(not share.attended.all() for step in steps for share in step)
        self._of_no_token = of_no_token
        self._blind = BLIND.get(of_no_token, "") if self._masked else ""

    def __len__(self) -> int:
        return -(-len(self._steps) // self._together)

    def __iter__(self) -> Iterator[Batch]:
        return placed(map(self._assembled, self.steps()), self._mesh)

    def steps(self) -> Iterator[Sequence[Sequence[Share]]]:
        """The steps of each batch."""
        for start in range(0, len(self._steps), self._together):
            yield self._steps[start : start + self._together]

    def last(self, step: Sequence[Share]) -> bool:
        return step is self._steps[-1]

    def _assembled(self, steps: Sequence[Sequence[Share]]) -> Batch:
        shape = (self.batch_size, self.length)
        batch = {
            "input_tokens": np.zeros(shape, np.int32),
            "labels": np.full(shape, IGNORED, np.int32),
            "positions": np.tile(np.arange(self.length, dtype=np.int32), (self.batch_size, 1)),
            "segment_ids": np.zeros(shape, np.int32),
            "scale": np.zeros(self.batch_size, np.float32),
        }
        if self._masked:
            batch["attended"] = np.ones(shape, bool)
        if self._blind:
            batch[self._blind] = np.zeros(shape, bool)
        first = 0
        for share in (share for step in steps for share in step):
            place = slice(first, first + len(share.ids)), slice(share.ids.shape[1])
            batch["input_tokens"][place], batch["labels"][place] = share.ids, share.labels
            batch["segment_ids"][place] = 1
            if self._masked:
                batch["attended"][place] = share.attended
            if self._blind:
                batch[self._blind][place] = without_sight(share.attended, self._of_no_token)
            batch["scale"][place[0]] = len(self) * share.weights
            first += len(share.ids)
        return smoothed(batch, self._label_smoothing)


class Gathered:
    """Predictions of the batches of one evaluation, as `Trainer.evaluation_loop` gathers them.

    `compute_metrics` gets them; `inputs`: with the token ids.
    """

    def __init__(
        self, batches: WholeBatches, preprocess: Preprocessing, compute_metrics: ComputeMetrics, *, inputs: bool = False
    ) -> None:
        self.batches = batches
        self._preprocess, self._compute_metrics, self._with_inputs = preprocess, compute_metrics, inputs
        self._todo = batches.steps()
        self._predictions: list[Any] = []
        self._labels: list[np.ndarray] = []
        self._inputs: list[np.ndarray] = []

    def add(self, logits: jax.Array) -> None:
        """The logits (B, T, vocabulary) of the next batch."""
        first = 0
        for step in next(self._todo):
            width = max(share.ids.shape[1] for share in step)
            predicted, labels, inputs = [], [], []
            for share in step:
                wide = _widened(share.labels, width)
                predicted.append(self._preprocess(logits, wide, first, share.ids.shape[1]))
                labels.append(wide)
                inputs.append(_widened(share.ids, width))
                first += len(share.ids)
            kept = self.batches.kept if self.batches.last(step) else None
            self._predictions.append(_cut(_joined(predicted), kept))
            self._labels.append(np.concatenate(labels)[:kept].astype(np.int64))
            self._inputs.append(np.concatenate(inputs)[:kept].astype(np.int64))

    def prediction(self) -> EvalPrediction:
        """What `compute_metrics` is called with."""
        inputs = _joined(self._inputs) if self._with_inputs else None
        return EvalPrediction(_joined(self._predictions), _joined(self._labels), inputs)

    def metrics(self, prefix: str = "eval") -> dict[str, Any]:
        """What `compute_metrics` returns, as `Trainer.evaluate` reports it: plain numbers, names behind `prefix_`."""
        return {
            name if name.startswith(f"{prefix}_") else f"{prefix}_{name}": _plain(value)
            for name, value in (self._compute_metrics(self.prediction()) or {}).items()
        }


class Preprocessing:
    """`preprocess_logits_for_metrics`, called with each process's logits and labels on the device.

    It is jitted, once for every number and width of rows that an evaluation has; a function that needs values (a
    boolean index, NumPy) is called without. None keeps the logits.
    """

    def __init__(self, function: Preprocess | None) -> None:
        self._function = function
        self._jitted: Any = jax.jit(self._call, static_argnames=("first", "width"))
        self._traces = True

    def __call__(self, logits: jax.Array, labels: np.ndarray, first: int, width: int) -> Any:
        """The function's result on the host, for rows `first` and on, of which `labels` (n, L) has the labels.

        `width`: the tokens that the process itself had; accelerate fills its logits up to L with -100.
        """
        if self._function is not None and self._traces:
            try:
                return jax.tree.map(_numpy, self._jitted(logits, labels, first=first, width=width))
            except _NEEDS_VALUES:
                self._traces = False
        if not logits.is_fully_addressable:
            logits = jnp.asarray(to_host(logits))  # their values are in several processes
        return jax.tree.map(_numpy, self._call(logits, jnp.asarray(labels), first=first, width=width))

    def _call(self, logits: jax.Array, labels: jax.Array, *, first: int, width: int) -> Any:
        rows, length = labels.shape
        logits = logits[first : first + rows, :length]
        if width < length:
            logits = jnp.where(jnp.arange(length)[None, :, None] < width, logits, IGNORED)
        return logits if self._function is None else self._function(logits, labels)


def _plain(value: Any) -> Any:
    """Numbers without NumPy, JAX or torch around them, also in lists and dictionaries."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(each) for each in value)
    return value.item() if hasattr(value, "item") and np.size(value) == 1 else value


def _numpy(array: Any) -> np.ndarray:
    """On the host as torch's: integers of 64 bits, bfloat16 as float32."""
    found = np.atleast_1d(to_host(array) if isinstance(array, jax.Array) else np.asarray(array))
    if found.dtype.kind in "iu":
        return found.astype(np.int64)
    return found.astype(np.float32) if found.dtype == jnp.bfloat16 else found


def _widened(rows: np.ndarray, width: int) -> np.ndarray:
    if rows.shape[1] == width:
        return rows
    wide = np.full((len(rows), width, *rows.shape[2:]), IGNORED, rows.dtype)
    wide[:, : rows.shape[1]] = rows
    return wide


def _joined(parts: Sequence[Any]) -> Any:
    """Arrays one below the other, filled up to the widest with -100; of tuples, lists and dictionaries each member."""

    def join(*arrays: np.ndarray) -> np.ndarray:
        if arrays[0].ndim == 1:
            return np.concatenate(arrays)
        width = max(array.shape[1] for array in arrays)
        return np.concatenate([_widened(array, width) for array in arrays])

    return jax.tree.map(join, *parts)


def _cut(tree: Any, rows: int | None) -> Any:
    return jax.tree.map(lambda array: array[:rows], tree)
