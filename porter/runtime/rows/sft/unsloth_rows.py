"""The rows of Unsloth's SFTTrainer: its texts are tokens as they are, where TRL ends each with the end token.

Follows `sft_prepare_dataset` of unsloth_zoo: no end-of-text token is added; a BOS is, unless the chat template holds it
or the first text begins with it; texts are cut at `max_length`; a formatting function gets rows by the thousand and
gives a list. Rows that are tokens already, or a prompt and a completion, are left to TRL's preparation; the former are
cut at no length unless they are packed, since `sft_prepare_dataset` stands in for all of that of TRL before 1.0. Beside
later ones Unsloth cuts them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import datasets

from ...facts.field_tables import version_key
from ...facts.releases import Release
from ..tokenization import columns, first_row

# Of these releases, whose unsloth_zoo is 2025.3.17 to 2026.8.1, BOS is compared with the first character of a text.
READS_CHARACTER, READS_TEXT = (2025, 3, 19), (2026, 8, 2)
REPLACES = (2025, 3, 4)  # the first whose `sft_prepare_dataset` stands in for TRL's preparation, cuts included


def takes_whole(release: str | None, of_trl: Release) -> bool:
    """Whether rows that are tokens already are cut at no length, unless they are packed."""
    return release is not None and version_key(release) >= REPLACES and not of_trl.since(1, 0)


def tokenised(
    dataset: Any,
    *,
    tokenizer: Any,
    max_length: int | None,
    text_field: str,
    formatting_func: Callable[[Any], Any] | None,
    release: str | None,
) -> Any:
    """The dataset with the tokens of its texts in `input_ids` alone; the dataset itself without a `release`."""
    first = first_row(dataset)
    if release is None or {"input_ids", "labels"} & set(first) or {"prompt", "completion"} <= set(first):
        return dataset
    formats = text_field not in first
    if formats and formatting_func is None:
        raise ValueError(
            f"Unsloth needs a column {text_field!r} or a formatting_func; the dataset's columns are {columns(first)}"
        )
    starts = _adds_start(first, tokenizer, text_field, formatting_func if formats else None, release)
    cut = {} if max_length is None else {"truncation": True, "max_length": max_length}

    def tokens(rows: Mapping[str, Any]) -> dict[str, Any]:
        texts = formatting_func(rows) if formats and formatting_func is not None else rows[text_field]
        return {"input_ids": tokenizer(texts, add_special_tokens=starts, **cut)["input_ids"]}

    if not isinstance(dataset, datasets.Dataset | datasets.IterableDataset):
        dataset = datasets.Dataset.from_list(list(dataset))
    return dataset.map(tokens, batched=True, remove_columns=list(first))


def _adds_start(
    first: Mapping[str, Any],
    tokenizer: Any,
    text_field: str,
    formatting_func: Callable[[Any], Any] | None,
    release: str,
) -> bool:
    """Whether the tokenizer adds its special tokens: not where that would be a second BOS."""
    if formatting_func is not None:
        made = formatting_func(dict(first))
        if not isinstance(made, list):
            raise ValueError("formatting_func must return a list of texts: Unsloth refuses anything else")
        text = made[0]
    else:
        text = first[text_field]
        text = text[:1] if READS_CHARACTER <= version_key(release) < READS_TEXT else text
    start = tokenizer.bos_token
    return start is None or not (text.startswith(start) or start in (tokenizer.chat_template or ""))
