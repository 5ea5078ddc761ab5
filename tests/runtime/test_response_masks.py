"""Masks of answers on token ids: 1 2 stands before a question, 3 4 before an answer."""

import pytest

from porter.runtime.rows.response_masks import CompletionOnly, IgnorePadding, ResponsesOnly


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


def test_without_questions_what_follows_the_last_answers_mark_is_trained() -> None:
    assert CompletionOnly([3, 4])([8, 3, 4, 7, 3, 4, 6]) == [-100] * 6 + [6]


def test_a_masked_language_model_is_refused() -> None:
    with pytest.raises(ValueError, match="mlm=False"):
        IgnorePadding(None)
