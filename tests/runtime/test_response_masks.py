"""Masks of answers on token ids: 1 2 stands before a question, 3 4 before an answer."""

import re

import pytest

from porter.runtime.rows.response_masks import IGNORED, CompletionOnly, IgnorePadding, ResponsesOnly


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
