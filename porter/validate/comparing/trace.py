"""What one run did, as a folder of plain files: the only thing the two sides of a comparison share.

Rows are kept without padding and documents of packed rows apart, so that a trace doesn't depend on how a side
pads, packs into rows or splits a batch over devices.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

IGNORED = -100
MOST_RATES = 200_000  # steps of a horizon whose learning rates are compared


@dataclass(frozen=True)
class Row:
    """One document: token ids and labels, both int32 of the same length, without padding.

    The first label is always -100: no token precedes it, so no loss is computed there.
    """

    tokens: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, tokens: Any, labels: Any) -> Row:
        """A row from two sequences of the same length; the first label is masked."""
        tokens, labels = np.array(tokens, np.int32), np.array(labels, np.int32)
        if tokens.shape != labels.shape:
            raise ValueError(f"{tokens.size} tokens but {labels.size} labels")
        if labels.size:
            labels[0] = IGNORED
        return cls(tokens, labels)

    @property
    def trained(self) -> int:
        """Number of tokens that the loss sees."""
        return int((self.labels != IGNORED).sum())

    @property
    def mark(self) -> int:
        """A 32-bit checksum of the tokens, by which a row is found again in a dataset."""
        return zlib.crc32(self.tokens.tobytes())

    def same(self, other: Row) -> bool:
        """Whether tokens and labels are equal, element by element, up to the last one that is trained.

        What follows it is seen by no loss.
        """
        end = max(self._end, other._end) or max(self.tokens.size, other.tokens.size)
        tokens = np.array_equal(self.tokens[:end], other.tokens[:end])
        return tokens and np.array_equal(self.labels[:end], other.labels[:end])

    @property
    def _end(self) -> int:
        """The number of tokens up to the last one that is trained, 0 where none is."""
        trained = np.flatnonzero(self.labels != IGNORED)
        return int(trained[-1]) + 1 if trained.size else 0


@dataclass(frozen=True)
class Step:
    """One optimizer step.

    `rows` are the documents in the order in which they were fed, `micro` the number of them in each
    micro-batch. `learning_rate` is the one that this update used, `loss` the mean over the trained tokens of the
    accumulated batch as the trainer reports it, `grad_norm` the norm of the accumulated gradient before clipping.
    `row_loss`, where the side can tell, is the summed loss of each document. `metrics`: what a preference trainer logs
    beside its loss.
    """

    rows: tuple[Row, ...] = ()
    micro: tuple[int, ...] = ()
    learning_rate: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    row_loss: tuple[float, ...] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def trained(self) -> int:
        return sum(row.trained for row in self.rows)


@dataclass(frozen=True)
class Trace:
    """A whole run: its settings as the libraries understood them, its steps, its weights before and after.

    `config` holds plain JSON values (among them `events`: what the run leaves behind, see `events.py`); `schedule` the
    learning rate of every step of the whole horizon, also of those not run; `initial` and `final` the trained tensors
    under the source's names; `evaluations` pairs of (step, loss); `measured` the metrics of the script's
    compute_metrics at those steps, by transformers' names (the source's with all that its trainer reports besides);
    `dataset` the marks of all documents of the prepared training set in its own order, where the side knows them;
    `gradients` each trained element's typical gradient (the root of Adam's corrected second moment), of a source with
    such an optimizer; `notes` what the observer changed, in a user's words.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    schedule: tuple[float, ...] = ()
    initial: Mapping[str, np.ndarray] = field(default_factory=dict)
    final: Mapping[str, np.ndarray] = field(default_factory=dict)
    gradients: Mapping[str, np.ndarray] = field(default_factory=dict)
    evaluations: tuple[tuple[int, float], ...] = ()
    measured: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    dataset: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def losses(self) -> list[float]:
        return [float("nan") if step.loss is None else step.loss for step in self.steps]

    def first(self, count: int) -> Trace:
        """The trace of the first `count` steps; weights after training no longer belong to it and are left out."""
        if count >= len(self.steps):
            return self
        evaluations = tuple(pair for pair in self.evaluations if pair[0] <= count)
        measured = {step: values for step, values in self.measured.items() if step <= count}
        return replace(
            self, steps=self.steps[:count], final={}, gradients={}, evaluations=evaluations, measured=measured
        )

    def save(self, folder: str | Path) -> None:
        """Write `trace.json`, the rows and the arrays into `folder` (made when missing)."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        rows = [row for step in self.steps for row in step.rows]
        empty = np.zeros(0, np.int32)
        np.savez(
            folder / "rows.npz",
            tokens=np.concatenate([row.tokens for row in rows]) if rows else empty,
            labels=np.concatenate([row.labels for row in rows]) if rows else empty,
            lengths=np.array([row.tokens.size for row in rows], np.int64),
        )
        _save_arrays(folder / "initial.npz", self.initial)
        _save_arrays(folder / "final.npz", self.final)
        _save_arrays(folder / "gradients.npz", self.gradients)
        steps = [
            {
                "rows": len(step.rows),
                "micro": list(step.micro),
                "learning_rate": step.learning_rate,
                "loss": step.loss,
                "grad_norm": step.grad_norm,
                "row_loss": step.row_loss,
                "metrics": dict(step.metrics),
            }
            for step in self.steps
        ]
        data = {
            "config": dict(self.config),
            "steps": steps,
            "schedule": list(self.schedule),
            "evaluations": [list(pair) for pair in self.evaluations],
            "measured": [[step, dict(values)] for step, values in self.measured.items()],
            "dataset": list(self.dataset),
            "notes": list(self.notes),
            "seconds": self.seconds,
        }
        # Written last and moved into place: a folder with a trace.json is a finished trace.
        partial = folder / "trace.json.partial"
        partial.write_text(json.dumps(data, indent=1, default=str), encoding="utf-8")
        partial.replace(folder / "trace.json")

    @classmethod
    def load(cls, folder: str | Path) -> Trace:
        """Read what `save` wrote. FileNotFoundError when the run left no finished trace."""
        folder = Path(folder)
        data = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
        if (folder / "events.json").exists():  # which go on after the trace
            data["config"]["events"] = json.loads((folder / "events.json").read_text(encoding="utf-8"))
        with np.load(folder / "rows.npz") as packed:
            ends = np.cumsum(packed["lengths"])[:-1]
            tokens = np.split(packed["tokens"], ends) if packed["lengths"].size else []
            labels = np.split(packed["labels"], ends) if packed["lengths"].size else []
        rows = [Row(a, b) for a, b in zip(tokens, labels, strict=True)]
        steps, at = [], 0
        for entry in data["steps"]:
            count = entry.pop("rows")
            row_loss = entry.pop("row_loss")
            steps.append(
                Step(
                    rows=tuple(rows[at : at + count]),
                    micro=tuple(entry.pop("micro")),
                    row_loss=None if row_loss is None else tuple(row_loss),
                    **entry,
                )
            )
            at += count
        return cls(
            config=data["config"],
            steps=tuple(steps),
            schedule=tuple(data["schedule"]),
            initial=_arrays(folder / "initial.npz"),
            final=_arrays(folder / "final.npz"),
            gradients=_arrays(folder / "gradients.npz"),
            evaluations=tuple((int(step), float(loss)) for step, loss in data["evaluations"]),
            measured={int(step): values for step, values in data["measured"]},
            dataset=tuple(data["dataset"]),
            notes=tuple(data["notes"]),
            seconds=data["seconds"],
        )


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that are numbers."""
    return {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}


def epoch_means(losses: Mapping[int, Sequence[float]]) -> list[tuple[int, float]]:
    """Step → losses of the batches that a loop of the script's own evaluated there, as pairs of (step, mean)."""
    return [(step, sum(found) / len(found)) for step, found in sorted(losses.items())]


def needed(mask: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Tokens (B, T) that a trace keeps: those that `mask` lets others see, and padding that is trained or predicts."""
    trained = labels[:, 1:] != IGNORED
    keep = mask.astype(bool)
    keep[:, 1:] |= trained
    keep[:, :-1] |= trained
    return keep


def rows_of_batch(
    tokens: np.ndarray, labels: np.ndarray, *, keep: np.ndarray | None = None, segments: np.ndarray | None = None
) -> list[Row]:
    """The documents of one padded batch, in order; rows of padding alone give none.

    `tokens`, `labels`: (B, T). `keep`: (B, T), true on tokens that are no padding. `segments`: (B, T) document
    numbers from 1, 0 on padding; wins over `keep`.
    """
    rows = []
    for index in range(tokens.shape[0]):
        if segments is None:
            mask = np.ones(tokens.shape[1], bool) if keep is None else keep[index].astype(bool)
            parts = [mask] if mask.any() else []
        else:
            numbers = segments[index]
            parts = [numbers == number for number in np.unique(numbers) if number > 0]
        rows += [Row.of(tokens[index][part], labels[index][part]) for part in parts]
    return rows


def join_ranks(ranks: list[Trace]) -> Trace:
    """One trace of a run on several processes: rank after rank in each micro-step, as the batch was dealt out.

    The loss of a step is the mean over ranks: TRL multiplies each rank's by their number.
    """
    first = ranks[0]
    steps = []
    for together in zip(*(rank.steps for rank in ranks), strict=True):
        rows: list[Row] = []
        micro: list[int] = []
        starts = [0] * len(together)
        for number in range(max(len(step.micro) for step in together)):
            size = 0
            for rank, step in enumerate(together):
                count = step.micro[number] if number < len(step.micro) else 0
                rows += step.rows[starts[rank] : starts[rank] + count]
                starts[rank] += count
                size += count
            micro.append(size)
        losses = [step.loss for step in together if step.loss is not None]
        loss = sum(losses) / len(losses) if losses else None
        steps.append(replace(together[0], rows=tuple(rows), micro=tuple(micro), loss=loss, row_loss=None))
    config = dict(first.config)
    if "rollouts" in config:  # each rank sampled its own part of the generation batches
        calls = zip(*(rank.config["rollouts"] for rank in ranks), strict=True)
        config["rollouts"] = [[[*chain(*parts)] for parts in zip(*call, strict=True)] for call in calls]
    if "distilled" in config:  # all ranks draw the same chances
        steps_of = zip(*(rank.config["distilled"] for rank in ranks), strict=True)
        together_of = [
            [[*chain(*parts)] for parts in zip(*made, strict=True)] if all(made) else None for made in steps_of
        ]
        config["distilled"] = together_of
    return replace(first, config=config, steps=tuple(steps))


def _save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    named: dict[str, Any] = dict(arrays)
    np.savez(path, **named)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    with np.load(path) as packed:
        return {name: packed[name] for name in packed.files}
