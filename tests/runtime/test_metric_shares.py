"""What tokens count in the metrics that SFTTrainer logs. That they are TRL's is shown in tests/real/test_loss.py."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from porter.runtime.batches.sft_batches import SFTBatches
from porter.runtime.losses.for_metrics import for_metrics
from porter.runtime.losses.token_loss import METRICS

from .byte_tokens import byte_tokenizer

IGNORED = -100
LETTERS = "abcdefgh"
ROWS = [{"text": letter * (37 * place + 1)} for place, letter in enumerate(LETTERS)]
LENGTHS = np.array([len(row["text"]) + 1 for row in ROWS])  # with the end token
OF_EACH = np.arange(1.0, len(ROWS) + 1)  # of the metric in every token of a row, another in each


def measured(batches: Iterable[dict[str, Any]], name: str) -> float:
    """The mean over micro-batches of the metric, by what these have for it."""
    letters = byte_tokenizer().convert_tokens_to_ids([*LETTERS])
    sums = []
    for batch in batches:
        ids, segments = batch["input_tokens"], batch["segment_ids"]
        share = for_metrics(batch)[name]
        of_tokens = np.zeros(ids.shape)
        for row, at in zip(*np.nonzero(segments), strict=True):
            first = ids[row][segments[row] == segments[row, at]][0]
            of_tokens[row, at] = OF_EACH[letters.index(first)]
        predicts = np.pad(batch["labels"][:, 1:], ((0, 0), (0, 1)), constant_values=IGNORED) != IGNORED
        counted = segments > 0 if name == "attended_entropy" else predicts
        sums.append(np.sum(of_tokens * counted * (share if share.ndim == 2 else share[:, None])))
    return float(np.mean(sums))


def expected(micro_batches: list[list[list[int]]], *, attended: bool) -> float:
    """The mean over micro-batches of the means over their processes' rows, which are given."""
    tokens = LENGTHS if attended else LENGTHS - 1  # nothing predicts the first one
    means = [[np.average(OF_EACH[rows], weights=tokens[rows]) for rows in processes] for processes in micro_batches]
    return float(np.mean(means))


def make(**settings: Any) -> SFTBatches:
    mesh = SimpleNamespace(shape={"fsdp": 1, "tp": 1})
    given = {"batch_size": 2, "accumulation": 2, "epochs": 1, "sampling": "sequential", "max_length": None}
    return SFTBatches(ROWS, byte_tokenizer(), mesh, **{**given, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"micro_batch": 4},
        {"buckets": (128, 256)},
        {"step_packing": ((1, 384), (2, 256))},
        {"packing": True, "max_length": 512, "batch_size": 8, "accumulation": 1},
        {"trl": "0.22.0", "transformers": "4.50.0"},
        {"trl": "1.2.0"},
        {"processes": 2},
        {"processes": 2, "trl": "1.2.0"},
    ],
    ids=str,
)
@pytest.mark.parametrize("metric", ["accuracy", "entropy"])
def test_metrics_are_means_over_the_micro_batches_of_the_gpu_run(settings: dict[str, Any], metric: str) -> None:
    made = make(**settings)
    attended = metric == "entropy" and settings.get("trl") in ("0.22.0", "1.2.0")
    name = "attended_entropy" if attended else metric
    batches = list(made)
    assert METRICS[name] and {*for_metrics(batches[0])} == {
        "accuracy",
        "attended_entropy" if "trl" in settings else "entropy",
    }
    first = batches[: made.accumulation or 1]
    if settings.get("packing"):
        micro_batches = [[[*range(8)]]]
    elif attended and "processes" in settings:
        micro_batches = [[[0], [1]], [[2], [3]]]
    else:
        micro_batches = [[[0, 1]], [[2, 3]]]
    assert measured(first, name) == pytest.approx(expected(micro_batches, attended=attended), rel=1e-5)


@pytest.mark.parametrize(("trl", "processes"), [(None, 1), (None, 2), ("1.2.0", 2)])
def test_metrics_of_an_evaluation_are_means_over_its_batches(trl: str | None, processes: int) -> None:
    evaluation = make(trl=trl, processes=processes).evaluation(ROWS, batch_size=4)
    name, apart = ("attended_entropy", True) if trl else ("entropy", False)
    whole = [[0, 1, 2, 3], [4, 5, 6, 7]]
    micro_batches = [[rows[:2], rows[2:]] if apart else [rows] for rows in whole]
    assert measured(evaluation, name) == pytest.approx(expected(micro_batches, attended=apart), rel=1e-5)


def test_no_other_trainer_has_them() -> None:
    for settings in ({"trl": "0.14.0"}, {"unsloth_counts": "2026.8.19"}):
        assert for_metrics(next(iter(make(**settings)))) == {}
