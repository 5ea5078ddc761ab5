"""Preference batches and losses: what is trained, what each pair counts, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from porter import runtime as rt
from porter.runtime.arguments import trl_arguments
from porter.runtime.generation.prompts import check_rows
from porter.runtime.losses.dpo_losses import dpo_loss
from porter.runtime.losses.for_metrics import for_metrics
from porter.runtime.losses.preference_losses import Inputs, KTOLoss, cpo_loss, kto_loss, orpo_loss
from porter.runtime.preferences.kto_batches import KTOBatches
from porter.runtime.preferences.preference_batches import PreferenceBatches
from porter.runtime.preferences.preference_tokens import extract_prompt
from porter.runtime.preferences.preference_trainer import _mean
from porter.runtime.preferences.text_pair_batches import CPOBatches, ORPOBatches

from .byte_tokens import byte_tokenizer, trained_text

SETTINGS = {"epochs": 1, "sampling": "sequential", "max_length": None}
PAIRS = [{"prompt": f"q{i}?", "chosen": "yes" * (i + 1), "rejected": "no"} for i in range(5)]
LABELLED = [{"prompt": f"q{i}?", "completion": f"a{i}", "label": i % 2 == 0} for i in range(5)]


def made(batches: Any, rows: list[dict[str, Any]], mesh: Any, **settings: Any) -> Any:
    return batches(rows, byte_tokenizer(bos_token="<|user|>"), mesh, **{**SETTINGS, **settings})


def texts(batch: dict[str, np.ndarray]) -> list[str]:
    return [trained_text(byte_tokenizer(), labels[:40]) for labels in batch["labels"]]


def test_chosen_and_rejected_alternate_and_fill_rows_count_nothing(tiny_mesh: Any) -> None:
    batches = made(PreferenceBatches, PAIRS, tiny_mesh(4, 1), batch_size=3)
    assert (batches.batch_size, batches.steps, batches.accumulation) == (8, 2, None)
    first, second = batches
    assert texts(first)[:4] == ["·yes</s>·", "·no</s>·", "·yesyes</s>·", "·no</s>·"]
    assert first["scale"].tolist() == pytest.approx([1 / 3] * 6 + [0, 0])
    assert second["scale"].tolist() == pytest.approx([1 / 2] * 4 + [0] * 4)
    assert first["nll_scale"][0] == pytest.approx(1 / 21)  # tokens of the three chosen answers, ends included


def test_a_pair_counts_by_its_micro_batch_of_the_gpu_run(tiny_mesh: Any) -> None:
    batches = made(PreferenceBatches, PAIRS, tiny_mesh(1, 1), batch_size=2, accumulation=3)
    scales = np.concatenate([batch["scale"][0::2] for batch in batches]) / 3
    assert scales[:5].tolist() == pytest.approx([1 / 6] * 4 + [1 / 3])  # the last one is a micro-batch of its own
    both = made(PreferenceBatches, PAIRS, tiny_mesh(1, 1), batch_size=2, processes=2)
    assert [batch["scale"].sum() / 2 for batch in both] == pytest.approx([1.0] * 3)


@pytest.mark.parametrize(
    ("kind", "rows", "trl", "counted"),
    [
        (PreferenceBatches, PAIRS, None, True),
        (PreferenceBatches, PAIRS, "0.28.0", False),
        (KTOBatches, LABELLED, None, True),
        (KTOBatches, LABELLED, "1.7.0", False),
        (ORPOBatches, PAIRS, None, False),
    ],
)
def test_tokens_are_counted_where_the_release_logged_them(
    tiny_mesh: Any, kind: Any, rows: list[dict[str, Any]], trl: str | None, counted: bool
) -> None:
    batches = made(kind, rows, tiny_mesh(1, 1), batch_size=2, accumulation=2, trl=trl)
    every = 2 if kind is KTOBatches else 1  # not the completions of the KL term
    fed = [int((batch["segment_ids"][::every] > 0).sum()) for batch in batches]
    assert batches.counts(0, 1) == ({"num_tokens": sum(fed[:2])} if counted else {})
    assert batches.counts(1, 2) == ({"num_tokens": sum(fed[2:])} if counted else {})


def test_what_a_trainer_is_told_beside_its_arguments_counts_unless_it_is_none(tiny_mesh: Any) -> None:
    args = trl_arguments("0.19.1", "DPOConfig")(output_dir="out", beta=0.3, max_length=9)
    assert [rt.preference_loss(args, beta=given).beta for given in (0.2, None)] == [0.2, 0.3]
    rows = [{"prompt": "q" * 9, "chosen": "yes" * 9, "rejected": "no"}]
    told, untold = (
        PreferenceBatches.from_args(args, rows, byte_tokenizer(), tiny_mesh(1, 1), max_length=given)
        for given in (7, None)
    )
    assert [(each["segment_ids"] > 0).sum(axis=1).max() for each in (next(iter(told)), next(iter(untold)))] == [7, 9]


@pytest.mark.parametrize("micro_batch", [1, 2, 5])
def test_a_step_goes_through_the_mesh_in_micro_batches_of_any_size(tiny_mesh: Any, micro_batch: int) -> None:
    asked: dict[str, Any] = {"batch_size": 2, "accumulation": 2, "max_steps": 2}
    usual, other = (
        made(PreferenceBatches, PAIRS, tiny_mesh(1, 1), **asked, **more) for more in ({}, {"micro_batch": micro_batch})
    )
    assert other.batch_size == 2 * micro_batch and other.steps == usual.steps

    def counted(batches: PreferenceBatches) -> list[list[tuple[list[int], float]]]:
        """By step: each trained row, and what it counts of the step's mean."""
        count = batches.accumulation or 1
        found = list(batches)
        return [
            sorted(
                (batch["input_tokens"][row].tolist(), round(float(batch["scale"][row]) / count, 6))
                for batch in found[start : start + count]
                for row in range(batches.batch_size)
                if batch["scale"][row]
            )
            for start in range(0, len(found), count)
        ]

    assert counted(other) == counted(usual)
    with pytest.raises(ValueError, match="leave out micro_batch"):
        made(PreferenceBatches, PAIRS, tiny_mesh(1, 1), **asked, micro_batch=1, whole_micro_batches=True)


def test_whole_micro_batches_keep_processes_apart(tiny_mesh: Any) -> None:
    batches = made(
        PreferenceBatches, PAIRS, tiny_mesh(8, 1), batch_size=2, accumulation=2, processes=2, whole_micro_batches=True
    )
    found = [batch["processes"].tolist() for batch in batches]
    assert found[0] == [0, 0, 1, 1, -1, -1, -1, -1] and len(found) == 4
    assert found[-1] == [-1] * 8  # a short last group


def test_orpo_counts_the_prompt_in_its_likelihood_and_cpo_does_not(tiny_mesh: Any) -> None:
    orpo, cpo = (made(kind, PAIRS[:1], tiny_mesh(1, 1), batch_size=1) for kind in (ORPOBatches, CPOBatches))
    (one,), (other,) = orpo, cpo
    assert np.array_equal(one["input_tokens"], other["input_tokens"])
    assert (1 / one["nll_scale"][0], 1 / other["nll_scale"][0]) == pytest.approx((7, 4))  # q0?yes</s>, yes</s>


def test_ktos_second_document_is_the_row_befores_completion(tiny_mesh: Any) -> None:
    batches = made(KTOBatches, LABELLED, tiny_mesh(1, 1), batch_size=3)
    first, second = batches
    assert texts(first) == ["·a0</s>·", "·a2</s>·", "·a1</s>·", "·a0</s>·", "·a2</s>·", "·a1</s>·"]
    assert first["desirable"].tolist() == [True, True, False, False, True, True]
    assert texts(second)[:2] == ["·a3</s>·", "·a4</s>·"]


class Known(KTOLoss):
    """KTO's loss of log-probabilities that stand in the batch."""

    def total(self, token_logps: Any, inputs: Inputs) -> Any:
        return inputs.positions


def test_a_micro_batch_that_only_fills_the_step_has_no_kl() -> None:
    logps, none = jnp.asarray([-3.0, -1.0, -2.0, -2.5]), jnp.zeros(())
    found = []
    for scale in (jnp.ones(4), jnp.zeros(4)):
        desirable, labels = jnp.asarray([True, True, False, False]), jnp.full((4, 1), -100)
        inputs = Inputs(none, labels, logps, none, none, scale, scale, desirable=desirable)
        loss, metrics = Known().loss(lambda *given: (jnp.zeros((4, 1, 1)), None), inputs, logps - 0.5)  # type: ignore[arg-type]
        assert np.isfinite(loss)
        found.append(metrics["kl"])
    assert float(found[0]) == 0.5
    assert float(_mean(found)) == 0.5  # as TRL logs it, of the micro-batches that it had


def test_pairs_are_taken_apart_for_kto(tiny_mesh: Any) -> None:
    (batch,) = made(KTOBatches, PAIRS[:2], tiny_mesh(1, 1), batch_size=4, estimate_kl=False)
    assert texts(batch) == ["·yes</s>·", "·yesyes</s>·", "·no</s>·", "·no</s>·"]
    assert batch["desirable"].tolist() == [True, True, False, False]


def test_evaluation_weighs_batches_as_transformers_does(tiny_mesh: Any) -> None:
    batches = made(PreferenceBatches, PAIRS, tiny_mesh(1, 1), batch_size=2)
    evaluation = batches.evaluation(PAIRS, batch_size=2)
    scales = np.concatenate([batch["scale"][0::2] for batch in evaluation]) / len(evaluation)
    assert scales[:5].tolist() == pytest.approx([1 / 5] * 5)


@pytest.mark.parametrize(
    ("kind", "trl", "last"),
    [
        (PreferenceBatches, None, [1 / 8] * 4),
        (PreferenceBatches, "0.28.0", [1 / 2, 0, 0, 0]),
        (ORPOBatches, None, [1 / 2, 0, 0, 0]),
    ],
)
def test_rows_that_fill_an_evaluations_last_batch_count_in_what_is_logged_where_they_are_gathered(
    kind: Any, trl: str | None, last: list[float], tiny_mesh: Any
) -> None:
    """accelerate repeats rows, whose losses transformers cuts off; DPO gathers what it logs of all from 0.29 on."""
    batches = made(kind, PAIRS, tiny_mesh(1, 1), batch_size=2, processes=2, trl=trl)
    evaluation = batches.evaluation(PAIRS, batch_size=4)  # the second batch: a row, and three of the first again
    beside = [for_metrics(batch)["scale"][0::2] for batch in evaluation]
    assert (np.concatenate(beside) / len(evaluation)).tolist() == pytest.approx([1 / 8] * 4 + last)
    assert [(batch["scale"] > 0).sum() for batch in evaluation] == [8, 4]


def test_what_both_answers_start_with_is_the_prompt() -> None:
    assert extract_prompt({"chosen": "Hi: good", "rejected": "Hi: bad"})["prompt"] == "Hi:"
    turn = {"role": "user", "content": "?"}
    row = {
        "chosen": [turn, {"role": "assistant", "content": "a"}],
        "rejected": [turn, {"role": "assistant", "content": "b"}],
    }
    assert extract_prompt(row)["prompt"] == [turn]


BAD_ROWS = [
    (PreferenceBatches, [{"prompt": "q", "chosen": "a"}], {}, "no 'rejected' column"),
    (KTOBatches, [{"prompt": "q", "completion": "a"}], {}, "no 'label' column"),
    (
        PreferenceBatches,
        [{"prompt": "q", "chosen": [{"role": "assistant", "content": "a"}], "rejected": "b"}],
        {},
        "one form",
    ),
    (PreferenceBatches, PAIRS, {"max_length": 3}, "every prompt alone fills max_length"),
    (ORPOBatches, PAIRS, {"max_length": 3}, "leaves nothing of the answer"),
    (PreferenceBatches, PAIRS, {"truncation_mode": "keep_middle"}, "expected one of 'keep_start', 'keep_end'"),
    (KTOBatches, LABELLED, {"sampling": "random"}, "breaks up the batches of KTO's KL term"),
    (PreferenceBatches, [], {}, "empty"),
]


@pytest.mark.parametrize(("kind", "rows", "settings", "said"), BAD_ROWS)
def test_bad_rows_are_named(kind: Any, rows: Any, settings: dict[str, Any], said: str, tiny_mesh: Any) -> None:
    with pytest.raises(ValueError, match=said):
        made(kind, rows, tiny_mesh(1, 1), **settings)


def test_rows_longer_than_the_models_context_are_refused(tiny_mesh: Any) -> None:
    tokenizer = byte_tokenizer(model_max_length=12)
    with pytest.raises(ValueError, match="longer than the model's context of 12"):
        PreferenceBatches(PAIRS, tokenizer, tiny_mesh(1, 1), **SETTINGS)


def test_the_checkpoints_own_context_counts_too() -> None:
    model = SimpleNamespace(porter=SimpleNamespace(config={"text_config": {"max_position_embeddings": 8}}))
    check_rows(model, 8)
    with pytest.raises(ValueError, match="a row of 9 tokens is longer than the model's context of 8"):
        check_rows(model, 9)


BAD_LOSSES = [
    (lambda: dpo_loss(loss_type="sigmoidal"), "does not exist; choose one of 'sigmoid'"),
    (lambda: dpo_loss(beta=0), "give a beta above 0"),
    (lambda: dpo_loss(loss_type=["sigmoid", "sft"], loss_weights=[1.0]), "1 loss_weights for 2 loss types"),
    (lambda: dpo_loss(loss_type="exo_pair"), "needs label_smoothing above 0"),
    (lambda: dpo_loss(loss_type="aot", f_divergence_type="forward_kl"), "goes with"),
    (lambda: dpo_loss(f_divergence_type="kl"), "expected one of 'reverse_kl'"),
    (lambda: dpo_loss(loss_type="aot", use_weighting=True), "no pair to weigh"),
    (lambda: cpo_loss(loss_type="kto_pair"), "does not exist"),
    (lambda: kto_loss(beta=0), "give a beta above 0"),
]


@pytest.mark.parametrize(("make", "said"), BAD_LOSSES)
def test_bad_losses_are_named(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_what_trl_takes_is_taken() -> None:
    assert dpo_loss(loss_type="sft", beta=0).loss_type == ("sft",)
    assert dpo_loss(loss_type="aot_pair").loss_type == ("aot_unpaired",)
    assert cpo_loss(loss_type="alphapo").cpo_alpha == 0.0
    assert not orpo_loss().reference and kto_loss().reference
    assert not dpo_loss(reference_free=True).reference
