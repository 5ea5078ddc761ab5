"""Collated batches become rows: padding goes on either side, unless something is trained on it or from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from porter.runtime.rows.collation import only, read_rows, without_torch


def rows(**batch: Any) -> list[tuple[list[int], list[int], list[bool]]]:
    found = read_rows({name: np.array(value) for name, value in batch.items()})
    return [(row.ids.tolist(), row.labels.tolist(), row.attended.tolist()) for row in found]


def test_untrained_padding_goes_on_both_sides() -> None:
    made = rows(
        input_ids=[[0, 0, 5, 6, 7, 0]], attention_mask=[[0, 0, 1, 1, 1, 0]], labels=[[-100, -100, -100, 6, 7, -100]]
    )
    assert made == [([5, 6, 7], [-100, 6, 7], [True] * 3)]


def test_padding_that_is_trained_stays_and_is_not_seen() -> None:
    made = rows(input_ids=[[5, 6, 0, 0]], attention_mask=[[1, 1, 0, 0]], labels=[[5, 6, 0, 0]])
    assert made == [([5, 6, 0, 0], [5, 6, 0, 0], [True, True, False, False])]


def test_a_first_token_predicted_from_padding_keeps_one_of_it() -> None:
    made = rows(input_ids=[[0, 0, 5, 6]], attention_mask=[[0, 0, 1, 1]], labels=[[-100, -100, 5, 6]])
    assert made == [([0, 5, 6], [-100, 5, 6], [False, True, True])]


def test_padding_that_sees_its_row_stays_where_something_is_predicted_from_it() -> None:
    def kept(labels: list[int]) -> list[int]:
        batch = {"input_ids": [[0, 0, 5, 6]], "attention_mask": [[0, 0, 1, 1]], "labels": [labels]}
        (row,) = read_rows({name: np.array(value) for name, value in batch.items()}, "row")
        return row.ids.tolist()

    assert kept([-100, -100, 5, 6]) == [0, 0, 5, 6]
    assert kept([-100, -100, -100, 6]) == [5, 6]


def test_without_a_mask_all_tokens_count() -> None:
    assert rows(input_ids=[[5, 0, 0]], labels=[[5, -100, -100]]) == [([5, 0, 0], [5, -100, -100], [True] * 3)]


def test_documents_run_together_come_out_apart() -> None:
    made = rows(input_ids=[[5, 6, 7, 8]], labels=[[-100, 6, -100, 8]], position_ids=[[0, 1, 0, 1]])
    assert [ids for ids, _, _ in made] == [[5, 6], [7, 8]]
    with pytest.raises(ValueError, match="only the document before"):
        rows(input_ids=[[5, 6, 7, 8]], labels=[[-100, 6, 7, 8]], position_ids=[[0, 1, 0, 1]])


def test_positions_beside_a_mask_may_only_count_through() -> None:
    batch = {"input_ids": [[0, 5, 6]], "labels": [[-100, 5, 6]], "attention_mask": [[0, 1, 1]]}
    assert rows(**batch, position_ids=[[1, 0, 1]]) == rows(**batch)
    with pytest.raises(ValueError, match="leave places out"):
        rows(**batch, position_ids=[[0, 0, 5]])


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({"input_ids": [[5]]}, "returns no labels"),
        ({"labels": [[5]]}, "returns no input_ids"),
        ({"input_ids": [[5]], "labels": [[5]], "inputs_embeds": [[0.0]]}, "inputs_embeds"),
        ({"input_ids": [5], "labels": [5]}, "one shape"),
        ({"input_ids": [[5]], "labels": [[5]], "attention_mask": [[[1]]]}, "attention_mask of the shape"),
    ],
)
def test_what_is_no_batch_of_a_language_model_is_said(batch: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rows(**batch)


def test_the_librarys_collators_return_numpy_arrays() -> None:
    from transformers import DataCollatorForLanguageModeling, default_data_collator

    from .byte_tokens import byte_tokenizer

    collator = DataCollatorForLanguageModeling(byte_tokenizer(), mlm=False)
    found = without_torch(collator)([{"input_ids": [5, 6]}, {"input_ids": [7]}])
    assert isinstance(found["labels"], np.ndarray) and collator.return_tensors == "pt"
    assert without_torch(default_data_collator)([{"input_ids": [5], "labels": [5]}])["labels"].tolist() == [[5]]
    collator.mlm = True
    with pytest.raises(ValueError, match="mlm=False"):
        without_torch(collator)
    assert without_torch(len) is len


def test_what_torch_makes_no_tensor_of_ends_here_too() -> None:
    from transformers import (
        DataCollatorForLanguageModeling,
        DataCollatorForSeq2Seq,
        DataCollatorWithPadding,
        default_data_collator,
    )

    from .byte_tokens import byte_tokenizer

    texts = [{"input_ids": [5, 6], "text": "a"}, {"input_ids": [7], "text": "b"}]
    ragged = [{"input_ids": [5, 6], "labels": [5, 6]}, {"input_ids": [7], "labels": [7]}]
    numbered = [{"input_ids": [5, 6], "id": 1}, {"input_ids": [7], "id": 2}]
    tokenizer = byte_tokenizer()
    language = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    for collator in (language, DataCollatorForSeq2Seq(tokenizer), DataCollatorWithPadding(tokenizer)):
        for rows, column in ((texts, "text"), (ragged, "labels")):
            if (isinstance(collator, DataCollatorForSeq2Seq), column) == (True, "labels"):
                assert without_torch(collator)(rows)["labels"].shape == (2, 2)
                continue
            with pytest.raises(ValueError):
                collator(rows)  # as torch does
            with pytest.raises(ValueError, match=f"can be made of '{column}'"):
                without_torch(collator)(rows)
        assert without_torch(collator)(numbered)["id"].tolist() == collator(numbered)["id"].tolist()
    same = [{"input_ids": [5], "labels": [5], "text": "a"}]
    assert list(without_torch(default_data_collator)(same)) == list(default_data_collator(same))


def test_a_model_called_with_the_ids_for_labels_trains_padding() -> None:
    batch = {"input_ids": [[5, 6, 0]], "labels": [[-100, 6, -100]], "attention_mask": [[1, 1, 0]]}
    inputs = {"input_ids": "input_ids", "attention_mask": "attention_mask", "labels": "input_ids", "position_ids": "at"}
    (row,) = read_rows(only(lambda rows: batch, inputs)([]))
    assert (row.labels.tolist(), row.attended.tolist()) == ([5, 6, 0], [True, True, False])
    (row,) = read_rows(only(lambda rows: batch, {"input_ids": "input_ids", "labels": "labels"})([]))
    assert (row.labels.tolist(), row.attended.tolist()) == ([-100, 6, -100], [True, True, True])
