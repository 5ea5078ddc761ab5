"""Masks of answers on token ids: 1 2 stands before a question, 3 4 before an answer."""

import re

import numpy as np
import pytest

from porter.runtime.rows.response_masks import IGNORED, CompletionOnly, IgnorePadding, ResponsesOnly

from .byte_tokens import byte_tokenizer, trained_text


@pytest.mark.parametrize(
    ("row", "trained"),
    [
        ([9, 1, 2, 8, 3, 4, 7, 7], [6, 7]),
        ([1, 2, 8, 3, 4, 7, 1, 2, 8, 3, 4, 6, 5], [5, 11, 12]),
        ([3, 4, 7, 5], [2, 3]),  # without a question
        ([1, 2, 8, 8], []),  # without an answer
        ([1, 2, 8, 3, 4, 7, 3, 4, 6], [5, 6, 7, 8]),  # until the next question
        ([1, 2, 8, 3, 4, 7, 1, 2, 8], [5]),  # cut off in a question
        ([1, 2, 8, 3, 4], []),
    ],
)
def test_unsloths_answers_are_trained(row: list[int], trained: list[int]) -> None:
    mask = ResponsesOnly([1, 2], [3, 4])
    assert mask(row) == [token if at in trained else -100 for at, token in enumerate(row)]


def test_the_last_answer_may_be_trained_alone() -> None:
    row = [1, 2, 8, 3, 4, 7, 1, 2, 8, 3, 4, 6, 5]
    assert ResponsesOnly([1, 2], [3, 4], last_response_only=True)(row) == [-100] * 11 + [6, 5]
    assert ResponsesOnly([1, 2], [3, 4], last_response_only=True)([1, 2, 8]) == [-100] * 3


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_collators_mask_collates_rows_too(side: str) -> None:
    """As TRL 0.19.1's torch_call does; it was a mask of one row alone, and ended where a Trainer was given it."""
    tokenizer = byte_tokenizer(padding_side=side)
    texts = ["xA:yz", "A:wA:v", "q"]
    rows = [{"input_ids": tokenizer(text)["input_ids"]} for text in texts]
    collator = CompletionOnly("A:", tokenizer=tokenizer, pad_to_multiple_of=8, return_tensors="pt")
    with pytest.warns(UserWarning, match="is not trained"):
        batch = collator(rows)
    assert batch["input_ids"].shape == batch["labels"].shape == batch["attention_mask"].shape == (3, 8)
    assert [trained_text(tokenizer, row).strip("·") for row in batch["labels"]] == ["yz", "v", ""]
    assert np.array_equal(batch["input_ids"] == tokenizer.pad_token_id, batch["attention_mask"] == 0)
    with pytest.warns(UserWarning, match="is not trained"):
        assert np.array_equal(collator([row["input_ids"] for row in rows])["labels"], batch["labels"])
    labels = IgnorePadding(tokenizer, mlm=False)(rows)["labels"]
    assert [trained_text(tokenizer, row).strip("·") for row in labels] == texts


def test_batches_without_padding_are_documents_whose_first_tokens_arent_trained() -> None:
    tokenizer = byte_tokenizer()
    rows = [tokenizer(text) for text in ("A:yz", "xA:v")]
    batch = CompletionOnly(tokenizer("A")["input_ids"], tokenizer=tokenizer, padding_free=True)(rows)
    assert (
        set(batch) == {"input_ids", "labels", "position_ids"} and trained_text(tokenizer, batch["labels"]) == "·:yz·:v"
    )
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3] * 2]
    with pytest.raises(ValueError, match="ignore_index=0"):
        CompletionOnly([1], tokenizer=tokenizer, ignore_index=0)


def test_without_questions_what_follows_the_last_answers_mark_is_trained() -> None:
    assert CompletionOnly([3, 4])([8, 3, 4, 7, 3, 4, 6]) == [-100] * 6 + [6]


def test_a_masked_language_model_is_refused() -> None:
    with pytest.raises(ValueError, match="mlm=False"):
        IgnorePadding(None)


class Words:
    """Line ends that stand together are one token, every other character is one."""

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [1000 + len(piece) if piece[0] == "\n" else ord(piece) for piece in re.findall(r"\n+|.", text)]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Q\nwhat\nA\nso", "\nso"),
        ("Q\nwhat\nA\n\nso", "\n\nso"),  # one token of two line ends: what all tokens don't find
        ("Q\nwhat\nA\nso\nQ\nand\nA\nno", "\nso|\nno"),  # a question's own line end ends no answer
        ("Q\nwhat\nA\nso\nx", "\nso"),  # nor does Unsloth train the last token behind one
        ("Q\nwhat", ""),
    ],
)
def test_tokens_that_stay_are_looked_for_alone(text: str, kept: str) -> None:
    """As Unsloth did before 2025.3.9: the line end behind the answer's mark is trained."""
    words = Words()
    masked = ResponsesOnly("\nQ\n", "\nA\n", words, force_match=False)(words.encode(text, False))
    assert [label for label in masked if label != IGNORED] == words.encode(kept.replace("|", ""), False)


def test_a_further_line_end_is_the_marks_own() -> None:
    class Singly(Words):
        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            return [ord(letter) for letter in text]

    words = Singly()
    mask = ResponsesOnly("Q\n", "A\n", words, force_match=False)
    assert [chr(label) for label in mask(words.encode("Q\nhmA\n\nso", False)) if label != IGNORED] == ["\n", "s", "o"]
