"""The texts that TRL before 1.15 made of rows: what a formatting function got, which columns were a conversation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import datasets

from ...facts.releases import Release
from ..tokenization import columns, first_row

MAP_BATCH = 1000  # rows that a formatting function got at once
_MESSAGE = {"content": datasets.Value("string"), "role": datasets.Value("string")}
_INSTRUCTION = {"prompt": datasets.Value("string"), "completion": datasets.Value("string")}


def with_texts(
    dataset: Any,
    release: Release,
    *,
    tokenizer: Any,
    text_field: str | None,
    formatting_func: Callable[[Any], Any] | None,
    packing: bool,
    skip: bool = False,
) -> tuple[Any, str, bool]:
    """The dataset with the texts that the release made of its rows, the column they stand in, and whether rendered.

    Before 0.15 a formatting function got up to 1000 rows at once, as a dict of lists, and returned a list of texts; a
    packed run called it row by row. Until 0.20 both were accepted. Tokenised rows stay as they are, from
    0.8.2 on.
    """
    first = first_row(dataset)
    field = text_field or "text"
    if skip or ("input_ids" in first and release.takes_tokens):
        return dataset, field, False
    if not release.whole_text:
        if formatting_func is None:
            return dataset, field, False
        return _formatted(dataset, first, formatting_func, release), field, False
    named = text_field is not None and release.columns_before_text
    conversation = None if formatting_func is not None or named else _conversation(dataset, first, tokenizer)
    if conversation is not None:
        return _map(dataset, first, conversation, batched=False), "text", True
    if formatting_func is not None and (not named or packing):
        if packing:
            return _map(dataset, first, lambda row: _one_text(formatting_func(row)), batched=False), "text", False
        return _map(dataset, first, lambda rows: _texts(formatting_func(rows)), batched=True), "text", False
    if text_field is None and release.text_field is None:
        raise ValueError(
            f"TRL {release.trl} needs dataset_text_field or formatting_func, or 'messages' of role and content; the "
            f"columns are {columns(first)}"
        )
    if field not in first:
        raise ValueError(f"the dataset has no column {field!r}; its columns are {columns(first)}")
    return dataset, field, False


def _formatted(dataset: Any, first: Mapping[str, Any], formatting_func: Callable[[Any], Any], release: Release) -> Any:
    batched = False
    if release.may_format_batches:
        try:
            batched = isinstance(formatting_func(dict(first)), list) and not release.since(0, 17)
        except Exception:  # a function of batches; from 0.17 on TRL tried rows first as well
            batched = True
    if batched:
        return _map(dataset, first, lambda rows: _texts(formatting_func(rows)), batched=True, keep=True)
    return _map(dataset, first, lambda row: _one_text(formatting_func(row)), batched=False, keep=True)


def _one_text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"formatting_func must return the text of one row as a str here, not {type(text).__name__}")
    return text


def _texts(texts: Any) -> list[str]:
    if not isinstance(texts, list):
        raise TypeError(
            "formatting_func must return a list of texts, one for each row of the dict of lists that it gets, not "
            f"{type(texts).__name__}"
        )
    return texts


def _map(
    dataset: Any, first: Mapping[str, Any], texts: Callable[[Any], Any], *, batched: bool, keep: bool = False
) -> Any:
    """The dataset with a column `text`; the other columns go unless `keep`, as they must where lengths change."""
    if not isinstance(dataset, datasets.Dataset | datasets.IterableDataset):
        dataset = datasets.Dataset.from_list(list(dataset))

    def to_text(rows: Any) -> dict[str, Any]:
        return {"text": texts(rows)}

    columns = None if keep else list(first)
    return dataset.map(to_text, batched=batched, batch_size=MAP_BATCH, remove_columns=columns)


def _conversation(dataset: Any, first: Mapping[str, Any], tokenizer: Any) -> Callable[[Any], str] | None:
    """How a row's conversation becomes text, where the columns are what TRL before 0.15 took for one."""
    features = dataset.features if isinstance(dataset, datasets.Dataset) else None
    if features is None and not isinstance(dataset, datasets.IterableDataset):
        features = datasets.Dataset.from_list([dict(first)]).features
    if features is None:  # a stream: TRL looked at datasets only
        return None
    for key in ("messages", "conversations"):
        if key in features and _is_list_of_messages(features[key]):
            return functools.partial(_render, tokenizer, key)
    return functools.partial(_render_pair, tokenizer) if dict(features) == _INSTRUCTION else None


def _render(tokenizer: Any, key: str, row: Mapping[str, Any]) -> str:
    return tokenizer.apply_chat_template(row[key], tokenize=False)


def _render_pair(tokenizer: Any, row: Mapping[str, Any]) -> str:
    turns = zip(("user", "assistant"), (row["prompt"], row["completion"]), strict=True)
    return tokenizer.apply_chat_template([{"role": role, "content": said} for role, said in turns], tokenize=False)


def _is_list_of_messages(feature: Any) -> bool:
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    return isinstance(inner, dict) and dict(inner) == _MESSAGE
