"""Documents of preference batches, of the releases that join prompts and completions in their forward pass."""

from __future__ import annotations

import numpy as np
import pytest

from porter.validate.comparing.preferences import documents, is_preference
from porter.validate.comparing.trace import IGNORED

BATCH = {
    "prompt_input_ids": np.array([[0, 5, 6], [7, 8, 9]]),
    "prompt_attention_mask": np.array([[0, 1, 1], [1, 1, 1]]),
    "chosen_input_ids": np.array([[11, 12], [13, 0]]),
    "chosen_attention_mask": np.array([[1, 1], [1, 0]]),
    "rejected_input_ids": np.array([[14, 0, 0], [15, 16, 17]]),
    "rejected_attention_mask": np.array([[1, 0, 0], [1, 1, 1]]),
}


def test_prompts_apart_from_their_completions_are_joined_chosen_before_rejected() -> None:
    rows = documents(BATCH)
    assert [row.tokens.tolist() for row in rows] == [[5, 6, 11, 12], [5, 6, 14], [7, 8, 9, 13], [7, 8, 9, 15, 16, 17]]
    assert rows[0].labels.tolist() == [IGNORED, IGNORED, 11, 12]


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("start", [[5, 6, 11, 12], [5, 6, 14], [7, 8, 9, 13], [7, 8, 9, 15]]),
        ("end", [[5, 6, 11, 12], [5, 6, 14], [7, 8, 9, 13], [9, 15, 16, 17]]),
        # The batch is six columns wide: TRL 0.13 to 0.17 take its last four, whatever a row has in them.
        ("columns", [[11, 12], [14], [9, 13], [9, 15, 16, 17]]),
    ],
)
def test_they_are_cut_as_the_release_cuts_them(kept: str, expected: list[list[int]]) -> None:
    assert [row.tokens.tolist() for row in documents(BATCH, (4, kept))] == expected


def test_an_end_token_that_trl_hides_within_a_document_is_a_token_of_it() -> None:
    seen = np.array([[0, 1, 0, 1, 0]])
    batch = {
        f"{side}_{name}": np.array([[9, 5, 2, 6, 9]])
        for side in ("chosen", "rejected")
        for name in ("input_ids", "labels")
    }
    batch |= {f"{side}_attention_mask": seen for side in ("chosen", "rejected")}
    assert [row.tokens.tolist() for row in documents(batch)] == [[5, 2, 6]] * 2


def test_completions_of_the_older_kto_hold_their_prompts() -> None:
    batch = {
        "prompt_input_ids": np.array([[5, 6]]),
        "prompt_attention_mask": np.array([[1, 1]]),
        "completion_input_ids": np.array([[5, 6, 11]]),
        "completion_attention_mask": np.array([[1, 1, 1]]),
        "completion_labels": np.array([[IGNORED, IGNORED, 11]]),
        "KL_completion_input_ids": np.array([[5, 6, 12, 0]]),
        "KL_completion_attention_mask": np.array([[1, 1, 1, 0]]),
        "KL_completion_labels": np.array([[IGNORED, IGNORED, 12, IGNORED]]),
    }
    assert is_preference(batch)
    assert [row.tokens.tolist() for row in documents(batch)] == [[5, 6, 11], [5, 6, 12]]
