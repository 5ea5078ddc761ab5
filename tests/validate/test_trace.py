"""A trace survives its folder, and says the same of a run however that padded, packed or split its batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porter.validate.comparing.trace import Row, Step, Trace, join_ranks, rows_of_batch
from porter.validate.comparing.verdict import Check, Verdict

X = -100


def row(*tokens: int) -> Row:
    return Row.of(tokens, tokens)


def test_the_first_label_is_never_trained() -> None:
    assert row(5, 6, 7).labels.tolist() == [-100, 6, 7]
    assert row(5, 6, 7).trained == 2


def test_tokens_and_labels_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="3 tokens but 2 labels"):
        Row.of([1, 2, 3], [1, 2])


def test_padding_and_rows_of_padding_vanish() -> None:
    tokens = np.array([[5, 6, 7, 0], [8, 9, 0, 0], [0, 0, 0, 0]])
    keep = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])

    assert [r.tokens.tolist() for r in rows_of_batch(tokens, tokens, keep=keep)] == [[5, 6, 7], [8, 9]]
    left = rows_of_batch(tokens[:, ::-1], tokens[:, ::-1], keep=keep[:, ::-1])
    assert [r.tokens.tolist() for r in left] == [[7, 6, 5], [9, 8]]


def test_packed_documents_come_apart() -> None:
    tokens = np.array([[5, 6, 7, 8, 9, 0]])
    segments = np.array([[1, 1, 1, 2, 2, 0]])

    assert [r.tokens.tolist() for r in rows_of_batch(tokens, tokens, segments=segments)] == [[5, 6, 7], [8, 9]]


def test_a_trace_comes_back_equal(tmp_path: Path) -> None:
    trace = Trace(
        config={"steps": 3, "max_grad_norm": None, "lora_scaling": [2.0]},
        steps=(
            Step((row(5, 6), row(7, 8, 9)), (1, 1), 1e-3, 2.5, 0.5, (1.0, 2.0)),
            Step((row(1, 2),), (1,), 5e-4, 2.25, None, None),
        ),
        schedule=(1e-3, 5e-4, 0.0),
        initial={"a.lora_A.weight": np.ones((2, 3), np.float32)},
        final={"a.lora_A.weight": np.zeros((2, 3), np.float32)},
        evaluations=((2, 3.5),),
        measured={2: {"eval_f1": 0.5}},
        dataset=(row(5, 6).mark,),
        notes=("float32",),
        seconds=1.5,
    )
    trace.save(tmp_path)
    back = Trace.load(tmp_path)

    assert all(
        a.same(b) for x, y in zip(trace.steps, back.steps, strict=True) for a, b in zip(x.rows, y.rows, strict=True)
    )
    assert [(s.micro, s.loss, s.grad_norm, s.row_loss) for s in back.steps] == [
        (s.micro, s.loss, s.grad_norm, s.row_loss) for s in trace.steps
    ]
    assert (back.config, back.schedule, back.evaluations) == (trace.config, trace.schedule, trace.evaluations)
    assert back.measured == trace.measured and back.first(1).measured == {}
    assert (back.dataset, back.notes, back.seconds) == (trace.dataset, trace.notes, trace.seconds)
    np.testing.assert_array_equal(back.final["a.lora_A.weight"], 0)


def test_an_empty_trace_comes_back(tmp_path: Path) -> None:
    Trace().save(tmp_path)

    assert Trace.load(tmp_path).steps == ()


def test_a_folder_without_a_finished_trace(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path)


def test_ranks_are_joined_micro_step_by_micro_step() -> None:
    ranks = [
        Trace(steps=(Step((row(first, 1), row(first, 2), row(first, 3)), (2, 1), 1e-3, loss, 0.5),))
        for first, loss in ((10, 2.0), (20, 4.0))
    ]
    joined = join_ranks(ranks).steps[0]

    assert [int(r.tokens[0]) * 10 + int(r.tokens[1]) for r in joined.rows] == [101, 102, 201, 202, 103, 203]
    assert joined.micro == (4, 2)
    assert joined.loss == 3.0


def test_a_verdict_in_json_and_back() -> None:
    verdict = Verdict(
        "a.py",
        "b.py",
        (Check("loss of every step", "differs", "step 3", 1e-3, 1e-5, 3, "the update"),),
        notes=("float32",),
        source_losses=(2.0, 1.5),
        port_losses=(2.0, 1.6),
        meshes=(("fsdp=4,tp=1", (2.0,)),),
        seconds=3.0,
    )

    assert Verdict.from_json(verdict.to_json()) == verdict
    assert (verdict.equal, verdict.exit_code) == (False, 3)
    assert '"first_divergence": "loss of every step"' in verdict.to_json()


@pytest.mark.parametrize("text", ["{}", "not json", '{"equal": true, "first_divergence": null, "checks": [{}]}'])
def test_text_that_is_no_verdict(text: str) -> None:
    with pytest.raises(ValueError, match="not a verdict"):
        Verdict.from_json(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (([1, 5, 6, 2], [X, 5, 6, X]), ([1, 5, 6], [X, 5, 6]), True),
        (([1, 5, 6, 2], [X, 5, 6, 2]), ([1, 5, 6], [X, 5, 6]), False),
        (([1, 5, 6, 2], [X, 5, X, X]), ([1, 5, 7, 2], [X, 5, X, X]), True),
        (([1, 5, 6, 7], [X, X, X, 7]), ([1, 5, 9, 7], [X, X, X, 7]), False),
        (([1, 5], [X, X]), ([1, 6], [X, X]), False),
        (([1, 5], [X, X]), ([1, 5], [X, X]), True),
    ],
)
def test_what_follows_the_last_trained_token_is_seen_by_no_loss(one: Any, other: Any, same: bool) -> None:
    assert Row.of(*one).same(Row.of(*other)) == same == Row.of(*other).same(Row.of(*one))
