"""TRL's preparation of a dataset: from text, prompts or messages to token ids and labels.

Follows SFTTrainer of TRL 1.16: formatting function, from/value conversations, end-of-sequence token, chat
template, the common prefix of prompt and whole, masks, truncation, and rows without a trained token dropped.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow.compute as pc  # type: ignore[import-untyped]

from . import chat_templates
from .chat_templates import Turns
from .response_masks import LabelMask, OwnLabels

IGNORED = -100
FORMATS = (
    "a text column (dataset_text_field), 'prompt' and 'completion', 'messages', 'conversations' with from/value, or "
    "tokenised 'input_ids'"
)
# Part of what `datasets` caches by: it sees the class by its name only, and would reuse what older code tokenised
_CODE = hashlib.sha256(b"".join(Path(file).read_bytes() for file in (__file__, chat_templates.__file__))).hexdigest()
_FEATURES = {"input_ids": datasets.List(datasets.Value("int32")), "labels": datasets.List(datasets.Value("int32"))}


@dataclass(frozen=True)
class Tokens:
    """Tokenised documents, one after another.

    `ids` and `labels`: int32 (tokens,), -100 where a token isn't trained. `spans`: (start, stop) of every document.
    `parts`: where a prepared dataset is packed already, the lengths of each row's documents.
    """

    ids: np.ndarray
    labels: np.ndarray
    spans: list[tuple[int, int]]
    parts: list[list[int]] | None = None


@dataclass(frozen=True)
class Preparation:
    """What to do with every row; decided once from the first row, as TRL does.

    `attends`: tokenised rows have an attention_mask that counts: transformers' collator keeps it, TRL's own doesn't.
    `sees_hidden`: what it hides between others is seen all the same: Unsloth's models train without it.
    """

    tokenizer: Any
    text_field: str = "text"
    formatting_func: Callable[[Any], str] | None = None
    completion_only: bool = False
    assistant_only: bool = False
    turns: Turns | None = None
    template: str | None = None
    tokenised: bool = False
    has_labels: bool = False
    from_value: bool = False
    append_eos: bool = False
    keep: slice | None = None
    keep_parts: bool = False
    attends: bool = False
    sees_hidden: bool = False
    drops_untrained: bool = True
    label_mask: LabelMask | None = None
    code: str = _CODE

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Token ids and labels of one row."""
        example = dict(row)
        if not self.tokenised:
            example.update(self._tokenise(self._as_text_or_messages(example)))
        ids = list(example["input_ids"])
        labels = list(example["labels"]) if self.has_labels else self._labels(ids, example)
        if len(labels) != len(ids):
            raise ValueError(f"a row has {len(ids)} input_ids but {len(labels)} labels")
        if self.keep is not None:
            ids, labels = ids[self.keep], labels[self.keep]
        if self.label_mask is not None:
            labels = self.label_mask(labels)
        if self.attends:
            mask = list(example["attention_mask"])
            ids, labels = _without_padding(ids, labels, mask, self.keep, sees_hidden=self.sees_hidden)
        parts = {"seq_lengths": list(example["seq_lengths"])} if self.keep_parts else {}
        return {"input_ids": ids, "labels": labels, **parts}

    def _as_text_or_messages(self, example: dict[str, Any]) -> dict[str, Any]:
        example = formatted(example, self.formatting_func)
        if self.from_value:
            example = role_content(example)
        if self.append_eos:
            eos = self.tokenizer.eos_token
            example.pop("messages", None)
            if self.text_field in example and not example[self.text_field].endswith(eos):
                example[self.text_field] += eos
            elif "completion" in example and not example["completion"].endswith(eos):
                example["completion"] += eos
        return example

    def _tokenise(self, example: dict[str, Any]) -> dict[str, Any]:
        if "prompt" not in example:
            if is_conversational(example):
                return self._conversation(example["messages"], example)
            return {"input_ids": self.tokenizer(text=example[self.text_field])["input_ids"]}
        prompt, completion = example["prompt"], example["completion"]
        if is_conversational(example):
            alone = self._prompt_ids(prompt, example)
            output = self._conversation(list(prompt) + list(completion), example)
        else:
            alone = self.tokenizer(text=prompt)["input_ids"]
            output = {"input_ids": self.tokenizer(text=prompt + completion)["input_ids"]}
        output["completion_mask"] = self._completion_mask(alone, output["input_ids"])
        return output

    def _prompt_ids(self, prompt: Any, example: Mapping[str, Any]) -> list[int]:
        return self._render(prompt, example, add_generation_prompt=True)

    def _completion_mask(self, prompt: Sequence[int], ids: Sequence[int]) -> list[int]:
        # The completion starts where the two diverge, not always at the prompt's end: tokens may merge there
        shared = common_prefix(prompt, ids)
        return [0] * shared + [1] * (len(ids) - shared)

    def _conversation(self, messages: Sequence[Mapping[str, Any]], example: Mapping[str, Any]) -> dict[str, Any]:
        if not self.assistant_only:
            return {"input_ids": self._render(messages, example)}
        ids, mask = chat_templates.tokenize_with_mask(
            self.tokenizer, messages, self.turns, **self._template_arguments(example)
        )
        if 1 not in mask:
            raise ValueError(
                "assistant_only_loss=True, but a row has no token that the assistant wrote; it has the roles "
                f"{[message.get('role') for message in messages]}. Drop such rows first, or check the chat template"
            )
        return {"input_ids": ids, "assistant_masks": mask}

    def _render(self, messages: Any, example: Mapping[str, Any], **arguments: Any) -> list[int]:
        return self.tokenizer.apply_chat_template(
            messages, tokenize=True, return_dict=True, **self._template_arguments(example), **arguments
        )["input_ids"]

    def _template_arguments(self, example: Mapping[str, Any]) -> dict[str, Any]:
        tools = example.get("tools")
        tools = json.loads(tools) if isinstance(tools, str) else tools
        return {"chat_template": self.template, "tools": tools, **(example.get("chat_template_kwargs") or {})}

    def _labels(self, ids: list[int], example: Mapping[str, Any]) -> list[int]:
        masks = [example["completion_mask"]] if self.completion_only and "completion_mask" in example else []
        masks += [example["assistant_masks"]] if "assistant_masks" in example else []
        return [token if all(bits) else IGNORED for token, *bits in zip(ids, *masks, strict=True)]


def is_conversational(example: Mapping[str, Any]) -> bool:
    """Whether a row holds messages with roles, as a conversation or as prompt and completion."""
    return any(_first_has(example.get(key), "role") for key in ("prompt", "completion", "messages"))


def role_content(example: dict[str, Any]) -> dict[str, Any]:
    """A row of from/value conversations as role/content messages; `conversations` becomes `messages`."""
    names = {"from": "role", "value": "content"}
    for key in ("prompt", "completion", "messages", "conversations"):
        if isinstance(example.get(key), list):
            example[key] = [
                {names.get(name, name): value for name, value in message.items()}
                if isinstance(message, dict)
                else message
                for message in example[key]
            ]
    if "conversations" in example:
        example["messages"] = example.pop("conversations")
    return example


def formatted(example: dict[str, Any], formatting_func: Callable[[Any], str] | None) -> dict[str, Any]:
    """The row with the formatting function's text, if there is a function."""
    if formatting_func is None:
        return example
    text = formatting_func(example)
    if not isinstance(text, str):
        raise TypeError(f"formatting_func must return the text of one row as a str, not {type(text).__name__}")
    return {**example, "text": text}


def plan(
    first: Mapping[str, Any],
    *,
    tokenizer: Any,
    text_field: str,
    formatting_func: Callable[[Any], str] | None,
    completion_only_loss: bool | None,
    assistant_only_loss: bool,
    max_length: int | None,
    truncation_mode: str,
    skip_prepare: bool,
    packing: bool,
    padding_free: bool,
    label_mask: LabelMask | None = None,
) -> Preparation:
    """How to prepare a dataset whose first row is `first`; arguments as in SFTConfig.

    ValueError where TRL refuses too, and for rows that hold nothing it knows.
    """
    if "image" in first or "images" in first:
        raise ValueError("the dataset holds images; tpu-port trains language models on text only")
    if isinstance(label_mask, OwnLabels):
        label_mask.check(first, packing=packing)
    completion_only = completion_only_loss
    if completion_only is None:
        completion_only = "prompt" in first and "completion" in first
    tokenised = "input_ids" in first
    if skip_prepare and not tokenised:
        raise ValueError(f"skip_prepare_dataset needs an 'input_ids' column; the columns are {columns(first)}")
    if skip_prepare and "labels" not in first and {"completion_mask", "assistant_masks"} & set(first):
        raise ValueError("skip_prepare_dataset with mask columns needs 'labels' (-100 where a token is not trained)")
    if completion_only and formatting_func is not None and not skip_prepare:
        raise ValueError(
            "formatting_func makes plain text, which has no completion to train alone: drop it or set "
            "completion_only_loss=False"
        )
    if packing and max_length is None:
        raise ValueError("packing=True needs max_length, the length of a packed row")
    if padding_free and not packing and max_length is not None:
        raise ValueError("padding_free=True without packing doesn't truncate: set max_length=None or packing=True")
    if assistant_only_loss and not is_conversational(first):
        raise ValueError(
            "assistant_only_loss=True needs conversations (a 'messages' column, or messages in 'prompt' and "
            f"'completion'); the columns are {columns(first)}"
        )
    keep = None
    if max_length is not None and not packing and not skip_prepare:
        keeps = {"keep_start": slice(None, max_length), "keep_end": slice(-max_length, None)}
        if truncation_mode not in keeps:
            raise ValueError(f"truncation_mode={truncation_mode!r}: expected 'keep_start' or 'keep_end'")
        keep = keeps[truncation_mode]

    from_value = append_eos = False
    if not tokenised:
        example = formatted(dict(first), formatting_func)
        from_value = all(_first_has(example.get("conversations"), name) for name in ("from", "value"))
        example = role_content(example) if from_value else example
        append_eos = not is_conversational(example)
        _check_columns(first, example, tokenizer, text_field, append_eos)
    turns = chat_templates.assistant_turns(tokenizer) if assistant_only_loss else None
    return Preparation(
        tokenizer=tokenizer,
        text_field=text_field,
        formatting_func=formatting_func,
        completion_only=completion_only,
        assistant_only=assistant_only_loss,
        turns=turns,
        template=chat_templates.training_template(tokenizer, turns) if turns else None,
        tokenised=tokenised,
        has_labels="labels" in first,
        from_value=from_value,
        append_eos=append_eos,
        keep=keep,
        keep_parts=skip_prepare and padding_free and "seq_lengths" in first,
        label_mask=label_mask,
    )


def _check_columns(
    first: Mapping[str, Any], example: Mapping[str, Any], tokenizer: Any, text_field: str, append_eos: bool
) -> None:
    known = {text_field, "messages"} & set(example) or {"prompt", "completion"} <= set(example)
    if not known or (append_eos and "prompt" not in example and not isinstance(example.get(text_field), str)):
        raise ValueError(f"the dataset has the columns {columns(first)}; expected {FORMATS}")
    if append_eos and tokenizer.eos_token is None:
        raise ValueError("the tokenizer has no end-of-sequence token to end each text with: pass eos_token")
    if not append_eos:
        chat_templates.default_template(tokenizer)


def first_row(dataset: Any) -> Mapping[str, Any]:
    """The first row of a dataset or a list of rows. ValueError when it is empty or a dict of splits."""
    if isinstance(dataset, Mapping):
        raise ValueError(f"expected one split, got a dict of {list(dataset)}: pass for example dataset['train']")
    for row in dataset:
        return row
    raise ValueError("the dataset is empty: there is nothing to train on")


def tokenise(dataset: Any, preparation: Preparation) -> Tokens:
    """All rows of a `datasets.Dataset` or a list of dicts, tokenised, and cached as `datasets.map` does.

    In this process alone: JAX runs threads by now, and a fork of them (dataset_num_proc) may never return.
    """
    if not isinstance(dataset, datasets.Dataset):
        dataset = datasets.Dataset.from_list(list(dataset))
    if dataset.format["type"] == "custom":
        raise ValueError(
            "the dataset is transformed on the fly (with_transform), which TRL refuses too: apply it with map() first"
        )
    features = dict(_FEATURES)
    if preparation.keep_parts:
        features["seq_lengths"] = datasets.List(datasets.Value("int32"))
    mapped = dataset.map(
        preparation,
        remove_columns=dataset.column_names,
        features=datasets.Features(features),
        desc="Tokenizing",
    )
    table = mapped.data.table
    ids, offsets = _flat(table["input_ids"])
    labels, _ = _flat(table["labels"])
    parts = table["seq_lengths"].to_pylist() if preparation.keep_parts else None
    return Tokens(ids, labels, list(itertools.pairwise(offsets.tolist())), parts)


def tokenise_rows(
    rows: Iterable[Mapping[str, Any]], preparation: Preparation
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Token ids and labels, row by row: for streamed datasets."""
    for row in rows:
        prepared = preparation(row)
        yield np.asarray(prepared["input_ids"], np.int32), np.asarray(prepared["labels"], np.int32)


def trained_spans(tokens: Tokens) -> list[tuple[int, int]]:
    """The documents that have at least one trained token."""
    counts = np.concatenate(([0], np.cumsum(tokens.labels != IGNORED)))
    return [(start, stop) for start, stop in tokens.spans if counts[stop] > counts[start]]


def _without_padding(
    ids: list[int], labels: list[int], seen: list[int], keep: slice | None, *, sees_hidden: bool = False
) -> tuple[list[int], list[int]]:
    """A row without the padding that the script put at its ends, which no token sees and none of which is trained."""
    seen = seen if keep is None else seen[keep]
    if len(seen) != len(ids):
        raise ValueError(f"a row has {len(ids)} input_ids but an attention_mask of {len(seen)}")
    if all(seen):
        return ids, labels
    start = next((place for place, one in enumerate(seen) if one), len(seen))
    stop = len(seen) - next((place for place, one in enumerate(reversed(seen)) if one), len(seen))
    if not all(seen[start:stop]) and not sees_hidden:
        raise ValueError("a row's attention_mask hides tokens between others: SFTBatches takes masks of padding alone")
    if any(label != IGNORED for label in labels[max(start, stop) :]):
        raise ValueError("rows are padded with a token that is trained: pad them with the tokenizer's padding token")
    return ids[start:stop], labels[start:stop]


def _flat(column: Any) -> tuple[np.ndarray, np.ndarray]:
    values = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    sizes = [pc.list_value_length(chunk).to_numpy(zero_copy_only=False) for chunk in column.chunks]
    flat = np.concatenate(values) if values else np.zeros(0, np.int32)
    return flat, np.concatenate(([0], np.cumsum(np.concatenate(sizes)))).astype(np.int64)


def common_prefix(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many items both start with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _first_has(messages: Any, key: str) -> bool:
    return isinstance(messages, list) and bool(messages) and isinstance(messages[0], dict) and key in messages[0]


def columns(names: Iterable[str]) -> str:
    """The names of columns, also as the keys of a row, for a message."""
    return ", ".join(map(repr, names)) or "none"
