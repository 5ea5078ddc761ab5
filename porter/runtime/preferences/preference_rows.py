"""TRL's preparation of preference data: from prompts, chosen and rejected answers to documents of token ids and labels.

A row, tokenised as in `preference_tokens`, becomes one or two documents: chosen and rejected, or a completion and the
mismatched one that KTO's KL term is estimated from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import datasets
import numpy as np

from ..facts import releases
from ..facts.releases import Release
from ..rows import chat_templates
from ..rows.packing import MAP_BATCH, map_batches
from ..rows.rows import is_stream
from ..rows.tokenization import IGNORED, columns, first_row
from .older_preferences import LENGTH, PROMPT_LENGTH, ApartTokens, JoinedTokens
from .preference_tokens import (
    CompletionTokens,
    OlderTokens,
    PairTokens,
    TextPairTokens,
    extract_prompt,
    is_messages,
    is_pair_conversational,
    maybe_extract_prompt,
)

TRUNCATIONS = ("keep_start", "keep_end")
_IDS = datasets.List(datasets.Value("int32"))
_FEATURES = {
    "first": _IDS,
    "second": _IDS,
    "first_start": datasets.Value("int32"),
    "second_start": datasets.Value("int32"),
}


@dataclass(frozen=True)
class Documents:
    """Tokenised rows of a run.

    `ids` and `labels`: for every row its documents' token ids and labels (-100 = prompt), int32 each. `desirable`: bool
    (rows,), KTO's label; all true for pairs. `wraps`: for every row whether each document's last token predicts its
    first one, or None where no release did so. `sizes`: what `older_preferences.lost_ends` takes of every row, or None
    where no release lost any. `columns`: how many columns of a padded batch are kept, its last ones, or None where
    each document is cut by itself.
    """

    ids: list[tuple[np.ndarray, ...]]
    labels: list[tuple[np.ndarray, ...]]
    desirable: np.ndarray
    wraps: list[tuple[bool, ...]] | None = None
    sizes: list[tuple[int, int, int]] | None = None
    columns: int | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def longest(self) -> int:
        """Tokens of the longest document, as far as a batch keeps them."""
        whole = max(len(ids) for row in self.ids for ids in row)
        return whole if self.columns is None else min(whole, self.columns)


def pairs(
    dataset: Any,
    tokenizer: Any,
    *,
    max_length: int | None,
    truncation_mode: str,
    max_prompt_length: int | None = None,
    max_completion_length: int | None = None,
    release: Release | None = None,
) -> Documents:
    """Chosen and rejected of every row as DPOTrainer feeds them, cut to `max_length`.

    With "keep_start" rows whose prompt alone fills `max_length` are dropped, from TRL 1.9 on. `max_prompt_length` (its
    end is kept) and `max_completion_length` are those of TRL before 0.29.
    """
    release = release or releases.release(None)
    first = _first(dataset)
    _need(first, "chosen", "rejected")
    if truncation_mode not in TRUNCATIONS:
        raise ValueError(f"truncation_mode={truncation_mode!r}: expected one of {', '.join(map(repr, TRUNCATIONS))}")
    implicit = "prompt" not in first
    example = extract_prompt(first) if implicit else maybe_extract_prompt(first) if release.pairs_apart else first
    append_eos = not _checked_conversational(example, ("prompt", "chosen", "rejected"), tokenizer)
    older: ApartTokens | JoinedTokens | None = None
    if release.pairs_joined:
        lengths = max_length or LENGTH, max_prompt_length or PROMPT_LENGTH
        older = JoinedTokens(tokenizer, release, *lengths, truncation_mode)
        max_length = None  # cut already, the prompt first
    elif release.pairs_apart:
        older = ApartTokens(tokenizer, max_prompt_length, max_completion_length, append_eos or release.ends_chat_pairs)
        truncation_mode = "keep_start" if release.cuts_pairs_start else truncation_mode
    if older is not None:
        tokens = OlderTokens(tokenizer, older, ("chosen", "rejected"), chats=release.pairs_apart)
        rows = _tokenised(dataset, tokens)
        if release.cuts_pair_columns and max_length is not None and truncation_mode == "keep_end":
            return replace(_documents(rows, slice(None), two=True), columns=max_length)
        found = _documents(rows, _kept(max_length, truncation_mode), two=True)
        if release.loses_pair_ends:
            sizes = [(row["first_start"], len(row["first"]), len(row["second"])) for row in rows]
            return replace(found, sizes=sizes)
        return _wrapping(found, max_length) if release.wraps_pairs and max_length is not None else found
    common = release.masks_common_prefix
    made = PairTokens(tokenizer, implicit, append_eos, max_prompt_length, max_completion_length, common)
    rows = _tokenised(dataset, made)
    if max_length is not None and truncation_mode == "keep_start" and release.drops_long_prompts:
        rows = [row for row in rows if row["first_start"] < max_length]
    return _documents(rows, _kept(max_length, truncation_mode), two=True)


def _kept(max_length: int | None, truncation_mode: str) -> slice:
    if max_length is None:
        return slice(None)
    return slice(None, max_length) if truncation_mode == "keep_start" else slice(-max_length, None)


def _wrapping(rows: Documents, max_length: int) -> Documents:
    """Documents of which nothing but the answer is left, in all columns of their batch: these wrap."""
    return replace(
        rows,
        wraps=[tuple(len(own) == max_length and own[0] != IGNORED for own in documents) for documents in rows.labels],
    )


def text_pairs(
    dataset: Any,
    tokenizer: Any,
    *,
    max_length: int | None,
    max_prompt_length: int | None = None,
    truncation_mode: str = "keep_end",
    release: Release | None = None,
) -> Documents:
    """Chosen and rejected of every row as ORPOTrainer and CPOTrainer feed them; `max_length` None is 512 there.

    `max_prompt_length` (None is 128) and `truncation_mode` are those of TRL before 0.28, which cut the prompt first.
    """
    release = release or releases.release(None)
    first = _first(dataset)
    _need(first, "chosen", "rejected")
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer has no end-of-sequence token to end each answer with: set tokenizer.eos_token")
    if is_pair_conversational(maybe_extract_prompt(first)):
        chat_templates.default_template(tokenizer)
    tokens: Any = TextPairTokens(tokenizer, max_length or LENGTH, by_longer=release.cuts_by_longer_answer)
    if release.cuts_text_prompts:
        lengths = max_length or LENGTH, max_prompt_length or PROMPT_LENGTH
        joined = JoinedTokens(tokenizer, release, *lengths, truncation_mode)
        tokens = OlderTokens(tokenizer, joined, ("chosen", "rejected"), chats=release.since(0, 12), whole=True)
    return _documents(_tokenised(dataset, tokens), slice(None), two=True)


def completions(
    dataset: Any,
    tokenizer: Any,
    *,
    max_length: int | None,
    rotate: int | None,
    num_proc: int | None,
    max_prompt_length: int | None = None,
    truncation_mode: str = "keep_end",
    release: Release | None = None,
) -> Documents:
    """Completions and their labels as KTOTrainer feeds them; pairs become two rows.

    `rotate`: rows (per_device_train_batch_size) within which the completions move on by one, to be the second document
    of each row; None gives rows of one document. `max_prompt_length` and `truncation_mode` are those of TRL before 1.3.
    """
    release = release or releases.release(None)
    first = _first(dataset)
    if not isinstance(dataset, datasets.Dataset):
        dataset = datasets.Dataset.from_list(list(dataset))
    if "chosen" in first and "rejected" in first:
        dataset = _unpaired(dataset, "prompt" not in first, num_proc)
        first = _first(dataset)
    _need(first, "prompt", "completion", "label")
    append_eos = not _checked_conversational(first, ("prompt", "completion"), tokenizer)
    desirable = np.asarray(dataset["label"], bool)
    older = None
    if release.completions_joined:
        lengths = max_length or LENGTH, None if release.since(0, 29) else max_prompt_length or PROMPT_LENGTH
        older = JoinedTokens(tokenizer, release, *lengths, truncation_mode)
        tokens: Any = OlderTokens(tokenizer, older, ("completion",), chats=release.since(0, 12))
        max_length = None  # cut when the start and end tokens are known
    else:
        tokens = CompletionTokens(tokenizer, append_eos, release.masks_common_prefix)
    rows = _tokenised(dataset, tokens)
    if max_length is not None and release.drops_long_prompts:
        fits = [row["first_start"] < max_length for row in rows]
        rows, desirable = [row for row, fit in zip(rows, fits, strict=True) if fit], desirable[np.asarray(fits, bool)]
    if rotate is not None:
        for chunk in map_batches(len(rows), rotate, num_proc):
            answers = [rows[i]["first"][rows[i]["first_start"] :] for i in chunk]
            for place, i in enumerate(chunk):
                start = rows[i]["first_start"]
                rows[i] |= {"second": [*rows[i]["first"][:start], *answers[place - 1]], "second_start": start}
    if older is not None:
        for row in rows:
            for name in ("first", "second")[: 1 if rotate is None else 2]:
                start = row[f"{name}_start"]
                row[name], row[f"{name}_start"] = older.ended(row[name][:start], row[name][start:])
    return replace(_documents(rows, slice(None, max_length), two=rotate is not None), desirable=desirable)


def _tokenised(dataset: Any, tokens: Any) -> list[dict[str, Any]]:
    if not isinstance(dataset, datasets.Dataset):
        dataset = datasets.Dataset.from_list(list(dataset))
    mapped = dataset.map(
        tokens, remove_columns=dataset.column_names, features=datasets.Features(_FEATURES), desc="Tokenizing"
    )
    return list(mapped)


def _documents(rows: list[dict[str, Any]], keep: slice, *, two: bool) -> Documents:
    if not rows:
        raise ValueError(
            "no row is left: every prompt alone fills max_length. Raise max_length, or shorten the prompts"
        )
    names = ("first", "second") if two else ("first",)
    ids, labels = [], []
    for row in rows:
        tokens = [np.asarray(row[name], np.int32) for name in names]
        starts = [row[f"{name}_start"] for name in names]
        wanted = [np.where(np.arange(len(t)) < start, IGNORED, t) for t, start in zip(tokens, starts, strict=True)]
        ids.append(tuple(t[keep] for t in tokens))
        labels.append(tuple(t[keep].astype(np.int32) for t in wanted))
    return Documents(ids, labels, np.ones(len(rows), bool))


def _unpaired(dataset: Any, implicit: bool, num_proc: int | None) -> Any:
    """Pairs as rows of their own: in each batch of `datasets.map` all chosen, then all rejected."""
    found = []
    for chunk in map_batches(len(dataset), MAP_BATCH, num_proc):
        rows = [extract_prompt(dataset[i]) if implicit else dict(dataset[i]) for i in chunk]
        for key, label in (("chosen", True), ("rejected", False)):
            rest = ({name: row[name] for name in row if name not in ("chosen", "rejected")} for row in rows)
            found += [{**kept, "completion": row[key], "label": label} for kept, row in zip(rest, rows, strict=True)]
    return datasets.Dataset.from_list(found)


def _first(dataset: Any) -> Mapping[str, Any]:
    if is_stream(dataset):
        raise ValueError("a streamed preference dataset can't be read: load it whole, without streaming=True")
    first = first_row(dataset)
    if "image" in first or "images" in first:
        raise ValueError("the dataset holds images; tpu-port trains language models on text only")
    return first


def _need(first: Mapping[str, Any], *names: str) -> None:
    missing = [name for name in names if name not in first]
    if missing:
        wanted = "'prompt', 'chosen' and 'rejected' (the prompt may be their common start)"
        if "completion" in names:
            wanted = "'prompt', 'completion' and 'label', or 'prompt', 'chosen' and 'rejected'"
        raise ValueError(
            f"the dataset has no {columns(missing)} column; its columns are {columns(first)}, expected are {wanted}"
        )


def _checked_conversational(example: Mapping[str, Any], keys: Sequence[str], tokenizer: Any) -> bool:
    """Whether the row holds messages; ValueError when only some of its columns do, which TRL can't join."""
    forms = {key: is_messages(example[key]) for key in keys}
    if any(forms.values()) and not all(forms[key] for key in keys if example[key]):
        said = ", ".join(f"{key!r} holds {'messages' if form else 'text'}" for key, form in forms.items())
        raise ValueError(
            f"{said}: TRL needs all of them in one form. Remove the prompt column if the answers repeat it"
        )
    conversational = any(forms.values())
    if conversational:
        chat_templates.default_template(tokenizer)
    elif tokenizer.eos_token is None:
        raise ValueError("the tokenizer has no end-of-sequence token to end each answer with: set tokenizer.eos_token")
    return conversational
