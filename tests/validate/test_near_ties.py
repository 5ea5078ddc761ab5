"""Predictions that a last digit decides."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from porter.validate.comparing.configuration import dtype_class, one_dtype, same_setting
from porter.validate.torch_side.near_ties import NearTies

LOGITS = np.array([[3.0, 1.0, 2.0], [5.0, 5.00001, 1.0], [7.0, 7.00001, 0.0], [1.0, 0.5, 0.9]], np.float32)


def test_rows_whose_two_largest_are_as_good_as_equal() -> None:
    ties = NearTies()
    ties.see(LOGITS, np.array([0, 1, -100, 2]))

    assert ties.take() == 1 / 3
    assert ties.take() == 0.0


def test_what_has_no_classes_is_left_out() -> None:
    ties = NearTies()
    for values in (np.array([1, 2]), np.ones((4, 1), np.float32), np.ones((4, 3), np.int64), None, ()):
        ties.see(values)

    assert ties.all == 0


def test_a_trainers_metrics_are_computed_as_before() -> None:
    ties = NearTies()
    trainer = SimpleNamespace(preprocess_logits_for_metrics=None, compute_metrics=lambda found: {"n": found.label_ids})
    ties.watch(trainer)

    assert trainer.compute_metrics(SimpleNamespace(predictions=LOGITS, label_ids=4)) == {"n": 4}
    assert ties.take() == 0.5
    trainer = SimpleNamespace(preprocess_logits_for_metrics=lambda a, b: a + b, compute_metrics=lambda found: {})
    ties.watch(trainer)
    assert trainer.preprocess_logits_for_metrics(LOGITS, 1.0).shape == LOGITS.shape
    assert ties.take() == 0.5


def test_the_dtype_that_weights_are_loaded_in() -> None:
    assert dtype_class("auto", "float32") == "checkpoint"
    assert dtype_class(None, "float32") == "float32"
    assert dtype_class("torch.float16", "float32") == dtype_class(np.float16, "") == "float16"
    assert dtype_class("torch.bfloat16", "float32") == "half"
    assert dtype_class("torch.float32", "checkpoint") == dtype_class(np.float32, "") == "float32"
    assert one_dtype(["half", "half"]) == "half"
    assert one_dtype(["half", "float32"]) is one_dtype([]) is one_dtype(["quantised"]) is None


def test_loading_the_checkpoints_dtype_where_the_release_made_it_float32() -> None:
    def same(source: str | None, port: str | None) -> bool:
        return same_setting("weights_dtype", {"weights_dtype": source}, {"weights_dtype": port})

    assert not same("float32", "checkpoint")
    assert not same("float32", "half")
    assert not same("half", "float32")
    assert same("half", "checkpoint") and same("checkpoint", "float32") and same("float32", "float32")
    assert same(None, "half") and same("half", None)
