"""TrainerBatches: every row once an epoch, in the GPU run's order, with the weight that its step gives it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from porter.runtime.batches.order import randperm
from porter.runtime.batches.trainer_batches import TrainerBatches
from porter.runtime.facts.releases import BLIND
from porter.runtime.rows.response_masks import CompletionOnly

from .byte_tokens import byte_tokenizer, trained_text


class Rows:
    """A dataset as torch scripts write it: rows of 1 to 5 tokens, the first untrained."""

    def __init__(self, count: int) -> None:
        self.asked: list[int] = []
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> dict[str, Any]:
        self.asked.append(number)
        return {"input_ids": [number] * (1 + number % 5), "note": "not for the model"}


def collate(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Pads on the right; the rows come without what the model doesn't take."""
    assert all(set(row) == {"input_ids"} for row in rows)
    width = max(len(row["input_ids"]) for row in rows)
    ids = np.array([row["input_ids"] + [0] * (width - len(row["input_ids"])) for row in rows])
    mask = np.array([[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows])
    return {"input_ids": ids, "attention_mask": mask, "labels": np.where(mask == 1, ids, -100)}


@pytest.fixture
def mesh() -> Any:
    import jax

    return jax.make_mesh((1, 1), ("fsdp", "tp"), devices=jax.devices()[:1])


def numbers(batch: dict[str, np.ndarray]) -> list[int]:
    return [
        int(ids[0]) for ids, segments in zip(batch["input_tokens"], batch["segment_ids"], strict=True) if any(segments)
    ]


def test_order_and_scale(mesh: Any) -> None:
    batches = TrainerBatches(Rows(11), collate, mesh, epochs=2, batch_size=2, accumulation=2, seed=7)
    made = list(batches)

    assert (batches.steps_per_epoch, batches.steps, batches.accumulation, len(made)) == (3, 6, 2, 12)
    order = [number for batch in made for number in numbers(batch)]
    assert order == [*randperm(11, 7), *randperm(11, 8)]
    for step in range(6):
        group = made[2 * step : 2 * step + 2]
        tokens = sum(number % 5 for batch in group for number in numbers(batch))  # the first token isn't trained
        assert all(np.isclose(batch["scale"][0], 2 / tokens) for batch in group if numbers(batch))
    assert made[0]["input_tokens"].shape == (2, 128) and "attended" not in made[0]


def test_two_processes_collate_apart_and_may_average_apart(mesh: Any) -> None:
    sizes: list[int] = []

    def watched(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
        sizes.append(len(rows))
        return collate(rows)

    batches = TrainerBatches(
        Rows(8), watched, mesh, max_steps=1, batch_size=4, processes=2, average_tokens_across_devices=False
    )
    sizes.clear()
    (batch,) = batches
    assert sizes == [2, 2]
    first, second = (sum(number % 5 for number in half) for half in (numbers(batch)[:2], numbers(batch)[2:]))
    assert np.allclose(batch["scale"], [1 / (2 * first)] * 2 + [1 / (2 * second)] * 2)


@pytest.mark.parametrize("together", [True, False])
def test_label_smoothing_sums_the_means_of_the_gpus_micro_batches(mesh: Any, together: bool) -> None:
    """transformers neither counts the step's tokens then nor divides by the number of micro-batches."""
    batches = TrainerBatches(
        Rows(8), collate, mesh, max_steps=1, batch_size=4, accumulation=2, processes=2, label_smoothing=0.1,
        average_tokens_across_devices=together,
    )  # fmt: skip
    made = list(batches)
    for batch in made:
        first, second = (sum(number % 5 for number in half) for half in (numbers(batch)[:2], numbers(batch)[2:]))
        own = np.array([1 / max(first, 1)] * 2 + [1 / max(second, 1)] * 2)
        assert np.allclose(batch["scale"], len(made) * own * (1 if together else 1 / 2))
        assert batch["smoothing"].tolist() == pytest.approx([0.1] * 4)
    (evaluated,) = batches.evaluation(Rows(4), batch_size=4)
    assert np.allclose(evaluated["scale"], np.array([1, 1, 1 / 5, 1 / 5]) * (1 if together else 1 / 2))
    assert "smoothing" in evaluated and "smoothing" in next(iter(batches.evaluation(Rows(4)).whole))
    assert "smoothing" not in next(iter(TrainerBatches(Rows(8), collate, mesh)))


def test_evaluation_weights_make_the_trainers_mean(mesh: Any) -> None:
    evaluation = TrainerBatches(Rows(4), collate, mesh).evaluation(Rows(5), batch_size=2)
    made = list(evaluation)
    # Batches {0, 1}, {2, 3}, {4} with 1, 5 and 4 trained tokens, weighing by their rows.
    scales = np.concatenate([batch["scale"][: len(numbers(batch))] for batch in made])
    assert len(made) == len(evaluation) == 3
    assert np.allclose(scales / 3, np.array([2 / 1, 2 / 1, 2 / 5, 2 / 5, 1 / 4]) / 5)


def without_some_labels(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Rows of more than three tokens have nothing to train."""
    made = collate(rows)
    return {**made, "labels": np.where(made["attention_mask"].sum(axis=1, keepdims=True) > 3, -100, made["labels"])}


def test_rows_without_a_label_are_said_and_make_an_evaluations_loss_nan(mesh: Any) -> None:
    batches = TrainerBatches(Rows(10), without_some_labels, mesh, batch_size=2, accumulation=2)
    assert "; 4 rows have no trained token: a step of such rows alone has a loss of NaN" in repr(batches)
    older = TrainerBatches(Rows(10), without_some_labels, mesh, transformers="4.40.0")
    assert "a micro-batch of such rows alone" in repr(older)
    assert "no trained" not in repr(TrainerBatches(Rows(10), collate, mesh))
    _, labelled, ignored = (batch["scale"].tolist() for batch in batches.evaluation(Rows(6), batch_size=2))
    assert labelled == pytest.approx([3 * 2 / 2 / 6] * 2) and np.isnan(ignored).all()


def test_each_batch_of_an_evaluation_may_stand_for_itself(mesh: Any) -> None:
    evaluation = TrainerBatches(Rows(4), collate, mesh).evaluation(Rows(6), batch_size=2)
    made = list(evaluation.singly())
    assert [numbers(batch) for batch in made] == [[0, 1], [2, 3], [4, 5]] and evaluation.gpu_batches == 3
    assert [batch["scale"][0] for batch in made] == pytest.approx([1, 1 / 5, 1 / 4])
    (nothing,) = TrainerBatches(Rows(4), collate, mesh).evaluation(Rows(1)).singly()
    assert np.isnan(nothing["scale"][0])  # as torch's mean of no token


def test_an_epoch_has_its_own_order(mesh: Any) -> None:
    batches = TrainerBatches(Rows(11), collate, mesh, epochs=1, batch_size=2, accumulation=2, seed=7)
    assert [number for batch in batches.epoch(1) for number in numbers(batch)] == [*randperm(11, 8)]


def test_evaluation_is_grouped_by_length(mesh: Any) -> None:
    grouped = TrainerBatches(Rows(4), collate, mesh, sampling="group_by_length").evaluation(Rows(5), batch_size=2)
    assert sorted(number for batch in grouped for number in numbers(batch)) == [0, 1, 2, 3, 4]
    assert numbers(next(iter(grouped)))[0] == 4  # the longest first
    older = TrainerBatches(Rows(4), collate, mesh, sampling="group_by_length", transformers="4.45.2")
    assert numbers(next(iter(older.evaluation(Rows(5), batch_size=2)))) == [0, 1]


def test_what_cannot_make_a_step_is_said(mesh: Any) -> None:
    with pytest.raises(ValueError, match="nothing to train on"):
        TrainerBatches(Rows(0), collate, mesh)
    with pytest.raises(ValueError, match="don't fill one batch"):
        TrainerBatches(Rows(3), collate, mesh, batch_size=4, drop_last=True)
    with pytest.raises(ValueError, match="dealt evenly"):
        TrainerBatches(Rows(3), collate, mesh, batch_size=3, processes=2)


def test_a_dataset_without_inputs_of_the_model_is_said(mesh: Any) -> None:
    from datasets import Dataset

    dataset = Dataset.from_list([{"text": "a"}])
    with pytest.raises(ValueError, match="tokenise it first"):
        TrainerBatches(dataset, collate, mesh)


def test_a_stream_is_read_for_its_steps(mesh: Any) -> None:
    from datasets import Dataset

    stream = Dataset.from_list([{"input_ids": [number] * 3} for number in range(5)]).to_iterable_dataset()
    batches = TrainerBatches(stream, collate, mesh, max_steps=4, batch_size=2)
    assert [numbers(batch) for batch in batches] == [[0, 1], [2, 3], [4], [0, 1]]
    with pytest.raises(ValueError, match="set max_steps"):
        TrainerBatches(stream, collate, mesh)


def test_older_transformers_made_no_step_of_an_epochs_rest_and_took_the_mean_of_means(tiny_mesh: Any) -> None:
    rows = [{"input_ids": list(range(1, 3 + i)), "labels": list(range(1, 3 + i))} for i in range(5)]

    def pad(features: list[dict[str, list[int]]]) -> dict[str, np.ndarray]:
        longest = max(len(row["input_ids"]) for row in features)
        padded = {key: [row[key] + [fill] * (longest - len(row[key])) for row in features] for key, fill in FILLS}
        return {key: np.array(value) for key, value in padded.items()}

    FILLS = (("input_ids", 0), ("labels", -100))
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 1, "accumulation": 2, "sampling": "sequential"}
    now, then = (
        TrainerBatches(rows, pad, tiny_mesh(1, 1), **settings, transformers=release) for release in (None, "4.40.2")
    )
    assert (now.steps, then.steps) == (6, 4)
    shares = [sum(batch["scale"][:1].tolist()) for batch in list(then)[:2]]
    assert shares == pytest.approx([1 / 1, 1 / 2])  # each micro-batch's own mean, not one over their three tokens
    fifth, first = list(then)[4:6]
    assert (int((fifth["labels"] > 0).sum()), int((first["labels"] > 0).sum())) == (6, 2)  # runs into the next epoch


@pytest.mark.parametrize(("release", "counted"), [("4.46.3", 9), ("5.9.0", 9), ("5.12.1", 6)])
def test_some_transformers_counted_each_rows_first_token(tiny_mesh: Any, release: str, counted: int) -> None:
    rows = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]} for _ in range(3)]
    settings: dict[str, Any] = {"batch_size": 3, "sampling": "sequential", "max_steps": 1, "transformers": release}
    (batch,) = TrainerBatches(rows, collate_labels, tiny_mesh(1, 1), **settings)
    assert batch["scale"][:3].tolist() == pytest.approx([1 / counted] * 3)
    (batch,) = TrainerBatches(rows, collate_labels, tiny_mesh(1, 1), **settings, mean_over="micro_batch")
    assert batch["scale"][:3].tolist() == pytest.approx([1 / 6] * 3)


@pytest.mark.parametrize(("release", "share"), [(None, 1 / 4), ("4.52.4", 1 / 4), ("4.53.0", 1), ("5.12.1", 1)])
def test_a_short_group_of_means_is_divided_as_the_trainer_did(tiny_mesh: Any, release: str, share: float) -> None:
    rows = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]} for _ in range(5)]
    settings: dict[str, Any] = {"batch_size": 1, "accumulation": 4, "sampling": "sequential", "epochs": 1}
    settings |= {"mean_over": "micro_batch", "transformers": release}  # without a release it is a loop's own division
    made = list(TrainerBatches(rows, collate_labels, tiny_mesh(1, 1), **settings))
    assert made[4]["scale"][0] * 2 / 4 == pytest.approx(share)  # of two predicted tokens, in one of four micro-batches


@pytest.mark.parametrize(
    ("release", "attention", "name"),
    [
        ("4.35.2", None, "averages_past"),
        ("4.36.0", None, "sees_row"),
        ("4.52.4", "sdpa", "sees_row"),
        ("4.40.2", "eager", "averages_row"),
        ("4.40.2", "flash_attention_2", "sees_nothing"),
        ("4.53.0", None, ""),
        (None, None, ""),
    ],
)
def test_padding_in_front_sees_what_the_release_let_it(mesh: Any, release: str, attention: str, name: str) -> None:
    def pad_left(features: list[dict[str, list[int]]]) -> dict[str, np.ndarray]:
        ids = np.array([[0] * (5 - len(row["input_ids"])) + row["input_ids"] for row in features])
        mask = np.array([[0] * (5 - len(row["input_ids"])) + [1] * len(row["input_ids"]) for row in features])
        return {"input_ids": ids, "attention_mask": mask, "labels": np.where(mask == 1, ids, -100)}

    rows = [{"input_ids": [7, 8, 9]}, {"input_ids": [4, 5, 6, 7, 8]}]
    settings: dict[str, Any] = {"batch_size": 2, "sampling": "sequential", "max_steps": 1, "transformers": release}
    (batch,) = TrainerBatches(rows, pad_left, mesh, **settings, attention=attention)
    assert set(BLIND.values()) & set(batch) == ({name} if name else set())
    pads = 2 if name not in ("", "sees_nothing") else 1  # of those that see nothing the last is enough
    assert batch["input_tokens"][0, : pads + 3].tolist() == [0] * pads + [7, 8, 9]
    assert batch["attended"][0, : pads + 3].tolist() == [False] * pads + [True] * 3
    if name:
        assert batch[name].sum() == pads and batch[name][0, :pads].all()


@pytest.mark.parametrize("release", ["4.47.0", "4.48.0"])
def test_two_releases_told_no_model_how_many_tokens_a_step_has(tiny_mesh: Any, release: str) -> None:
    rows = [{"input_ids": list(range(1, 3 + i)), "labels": list(range(1, 3 + i))} for i in range(2)]
    settings: dict[str, Any] = {"batch_size": 1, "accumulation": 2, "sampling": "sequential", "epochs": 1}
    made = list(TrainerBatches(rows, collate_labels, tiny_mesh(1, 1), **settings, transformers=release))
    assert [batch["scale"][0] for batch in made] == pytest.approx([1 / 1, 1 / 2])


def collate_labels(features: list[dict[str, list[int]]]) -> dict[str, np.ndarray]:
    return {key: np.array([row[key] for row in features]) for key in ("input_ids", "labels")}


@pytest.mark.parametrize(("transformers", "firsts"), [("4.56.2", 0), ("4.57.0", 1), ("5.9.0", 1), ("5.10.0", 0)])
def test_evaluation_counts_first_tokens_as_the_release_did(mesh: Any, transformers: str, firsts: int) -> None:
    batches = TrainerBatches(Rows(8), collate, mesh, batch_size=4, transformers=transformers)
    (evaluated,) = batches.evaluation(Rows(4), batch_size=4)
    trained = sum(number % 5 for number in range(4))
    assert np.allclose(evaluated["scale"], 1 / (trained + 4 * firsts))


def test_a_collator_that_masks_questions_is_taken_as_it_is(mesh: Any) -> None:
    """TRL's DataCollatorForCompletionOnlyLM beside transformers' Trainer."""
    tokenizer = byte_tokenizer()
    rows = [{"input_ids": tokenizer(text)["input_ids"]} for text in ("xA:yz", "xxxA:v")]
    (batch,) = TrainerBatches(rows, CompletionOnly("A:", tokenizer=tokenizer), mesh, epochs=1, batch_size=2)
    assert sorted(trained_text(tokenizer, row).strip("·") for row in batch["labels"]) == ["v", "yz"]


def test_a_collator_of_rows_of_one_length_is_given_no_others(mesh: Any) -> None:
    """transformers' default collator pads nothing, which batches of one row need not."""

    def stack(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
        ids = np.stack([row["input_ids"] for row in rows])  # ValueError for rows of several lengths
        return {"input_ids": ids, "attention_mask": np.ones_like(ids), "labels": ids}

    batches = TrainerBatches(Rows(10), stack, mesh, max_steps=10, batch_size=1, seed=42)
    assert sorted(number for batch in batches for number in numbers(batch)) == list(range(10))
    with pytest.raises(ValueError, match="must have the same shape"):
        list(TrainerBatches(Rows(10), stack, mesh, max_steps=2, batch_size=2, seed=42))


@pytest.mark.parametrize(("drop_last", "batches"), [(False, 3), (True, 2)])
def test_the_batches_of_a_gpu_process_are_counted(mesh: Any, drop_last: bool, batches: int) -> None:
    training = TrainerBatches(Rows(10), collate, mesh, epochs=1, batch_size=4, processes=2, drop_last=drop_last)
    assert training.gpu_batches == batches


def test_sets_by_their_names_are_batches_of_each(mesh: Any) -> None:
    training = TrainerBatches(Rows(10), collate, mesh, epochs=1, batch_size=2)
    sets = training.evaluation({"few": Rows(3), "more": Rows(7)}, batch_size=2)
    assert {name: batches.rows for name, batches in sets.items()} == {"few": 3, "more": 7}


@pytest.mark.parametrize(
    ("transformers", "expected"),
    [("4.51.3", [1 / 6, *[1 / 24] * 4]), ("4.46.3", [1 / 6, *[1 / 24] * 3])],
)
def test_micro_batches_left_over_are_divided_by_their_own_tokens(
    tiny_mesh: Any, transformers: str, expected: list[float]
) -> None:
    """transformers 4.47 to 4.51 read `rows % accumulation` micro-batches behind an epoch's full steps, which ran into
    the next epoch's first step with a count of their own (trainer.py: `get_batch_samples` before each group). 4.46
    ended a step at every fourth micro-batch, so that the count was of one that the step didn't train, too."""
    rows = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]} for _ in range(13)]
    settings: dict[str, Any] = {"batch_size": 2, "accumulation": 4, "sampling": "sequential", "epochs": 2}
    made = TrainerBatches(rows, collate_labels, tiny_mesh(1, 1), **settings, transformers=transformers)
    second = list(made)[made.accumulation : 2 * made.accumulation]
    scales = [batch["scale"][0] / made.accumulation for batch in second]
    assert [scale for scale in scales if scale] == pytest.approx(expected)
