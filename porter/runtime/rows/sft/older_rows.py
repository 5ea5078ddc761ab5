"""How TRL before 1.15 turned a row into token ids and labels.

Three ways, one after another: every row one text (before 0.15); texts, with rendered conversations among them (0.15 to
0.18); and today's, with differences in what is masked (from 0.19 on). `releases.Release` says what changed when.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ...facts.releases import Release
from .. import packing as packer
from .. import tokenization
from ..response_masks import IgnorePadding, LabelMask, OwnLabels
from ..rows import Buffered, is_stream
from ..tokenization import IGNORED, Preparation, columns, is_conversational
from .older_texts import with_texts

_BUFFER = 1024  # rows of a packing buffer: num_of_sequences
_CHARACTERS = 3.6  # of a token, by which the buffer was measured: chars_per_token
_NO_LIMIT = int(1e20)  # transformers' LARGE_INTEGER: a tokenizer without a limit of its own

BESIDE_TEXT = ("prompt", "messages", "conversations")  # of preferences, whose text the script made itself
MASKS_ITSELF = (IgnorePadding, OwnLabels)  # of the padding token, or of nothing


def prepare(
    dataset: Any,
    *,
    release: Release,
    tokenizer: Any,
    text_field: str | None,
    formatting_func: Callable[[Any], Any] | None,
    packing: bool,
    seed: int,
    draws: packer.Shuffles | None = None,
    add_special_tokens: bool,
    append_concat_token: bool,
    **settings: Any,
) -> tuple[Any, Preparation, Buffered | None]:
    """The dataset, what the release did with each row of it, and how it packed where that was in a buffer.

    Arguments as in SFTBatches, the rest as in `tokenization.plan`. Before 1.15 a formatting function's texts stand in
    the dataset that is given back.
    """
    settings |= {"tokenizer": tokenizer, "packing": packing}
    if release.is_todays:
        first = tokenization.first_row(dataset)
        settings |= {"text_field": text_field or "text", "formatting_func": formatting_func}
        return dataset, tokenization.plan(first, **settings), None
    dataset, field, rendered = with_texts(
        dataset,
        release,
        tokenizer=tokenizer,
        text_field=text_field,
        formatting_func=formatting_func,
        packing=packing,
        skip=settings["skip_prepare"],
    )
    settings["text_field"] = field
    first = tokenization.first_row(dataset)
    if not release.whole_text:
        return dataset, _plan(first, release, formats=formatting_func is not None, **settings), None
    preparation = _plan_texts(
        first,
        release,
        special_tokens=add_special_tokens and not (rendered and release.one_start_for_chats),
        append_concat_token=append_concat_token,
        **settings,
    )
    if not packing or preparation.as_given:
        return dataset, preparation, None
    return dataset, preparation, _buffered(dataset, preparation, draws or random.Random(seed))


def _plan(first: Mapping[str, Any], release: Release, *, formats: bool, **settings: Any) -> Preparation:
    """From 0.15 on: today's plan with what the release did otherwise; `formats`: the texts are a function's."""
    wanted = settings["completion_only_loss"] if release.knows_completions else False
    if wanted is None:
        wanted = "prompt" in first and ("completion" in first or not release.since(0, 22))
    if wanted and formats and not settings["skip_prepare"]:
        raise ValueError("formatting_func makes plain text, which has no completion to train alone: TRL refuses it too")
    example = dict(first)
    joined = not release.knows_completions and "prompt" in first and "completion" in first
    if joined:
        example["messages" if is_conversational(first) else "text"] = example.pop("completion")
        del example["prompt"]
    field = settings["text_field"]
    beside = not release.knows_completions and "prompt" in first and not joined and isinstance(first.get(field), str)
    if beside:
        example = _text_alone(first, field)
    settings |= {"completion_only_loss": wanted, "formatting_func": None}
    base = tokenization.plan(example, **settings)
    chat = release.chats_as_text and not base.tokenised and not base.append_eos
    masked = base.label_mask is not None
    own = {field.name: getattr(base, field.name) for field in fields(Preparation)} | {
        "from_value": base.from_value or (release.chats_as_text and "conversations" in first),
        "has_labels": base.has_labels and (release.reads_labels or isinstance(base.label_mask, OwnLabels)),
        "drops_untrained": release.drops_untrained,
        "text_field": "text" if chat or joined else base.text_field,
    }
    return OlderPreparation(
        **own,
        release=release,
        text_alone=beside and not base.tokenised,
        special_tokens=not (chat and release.one_start_for_chats),
        masks_padding=(release.masks_padding_token or masked) and not isinstance(base.label_mask, MASKS_ITSELF),
        keep_masks=(release.packs_masks or not settings["packing"]) and not masked,
    )


def _text_alone(row: Mapping[str, Any], field: str) -> dict[str, Any]:
    """A row with a text beside a prompt that has no completion: before 0.17 the text alone was read."""
    return {name: value for name, value in row.items() if name not in BESIDE_TEXT or name == field}


def _plan_texts(
    first: Mapping[str, Any],
    release: Release,
    *,
    tokenizer: Any,
    text_field: str,
    max_length: int | None,
    skip_prepare: bool,
    packing: bool,
    special_tokens: bool,
    append_concat_token: bool,
    label_mask: LabelMask | None = None,
    **_: Any,
) -> OlderPreparation:
    """Before 0.15: one text a row, cut by the tokenizer, or packed with the end token between texts."""
    tokenised = "input_ids" in first and (release.takes_tokens or skip_prepare)
    if skip_prepare and not tokenised:
        raise ValueError(f"skip_prepare_dataset needs an 'input_ids' column; the columns are {columns(first)}")
    as_given = tokenised and packing and (skip_prepare or not release.packs_tokens)
    if as_given and label_mask is None and "labels" not in first:
        raise ValueError(
            f"TRL {release.trl} feeds rows of tokens as they are under packing=True, and these have no 'labels' to "
            f"train; the columns are {columns(first)}"
        )
    if isinstance(label_mask, OwnLabels):
        label_mask.check(first if tokenised else {}, packing=packing)
    if packing and label_mask is not None and not isinstance(label_mask, IgnorePadding):
        raise ValueError("a mask of responses doesn't go with packing=True: TRL refuses it too")
    return OlderPreparation(
        tokenizer=tokenizer,
        text_field=text_field,
        tokenised=tokenised,
        has_labels=isinstance(label_mask, OwnLabels) or (as_given and label_mask is None),  # others make them anew
        drops_untrained=False,
        label_mask=label_mask,
        release=release,
        special_tokens=special_tokens,
        length=_length(max_length, tokenizer, release),
        cuts=not packing,
        end=(tokenizer.eos_token_id or 0) if packing and append_concat_token and not as_given else None,
        as_given=as_given,
        masks_padding=not packing and not isinstance(label_mask, MASKS_ITSELF),  # packed rows brought their labels
    )


def _length(max_length: int | None, tokenizer: Any, release: Release) -> int | None:
    """How long a row was before 0.15: `max_length`, else 1024 or the tokenizer's limit, in 0.9 the latter alone."""
    if max_length is not None:
        return max_length
    own = tokenizer.model_max_length
    if release.since(0, 9) and not release.since(0, 10):
        return own if own < _NO_LIMIT else None
    return min(own, 1024)


def _buffered(dataset: Any, preparation: OlderPreparation, draw: packer.Shuffles) -> Buffered:
    release, length = preparation.of, preparation.length
    if is_stream(dataset):
        raise ValueError(f"TRL {release.trl} packed a stream without end: load the dataset whole (streaming=False)")
    if length is None:
        raise ValueError("packing=True needs max_length, the length of a packed row")
    column = "input_ids" if preparation.tokenised else preparation.text_field
    return functools.partial(
        packer.buffered,
        max_length=length,
        sizes=[len(row[column]) for row in dataset],
        buffer=length * _BUFFER * (1 if preparation.tokenised else _CHARACTERS),
        shuffles=release.shuffles_before_packing,
        draw=draw,
    )


@dataclass(frozen=True)
class OlderPreparation(Preparation):
    """What an older release did with every row; see `Preparation`.

    `special_tokens`: whether the tokenizer adds its own; `length`: of a row, where the tokenizer `cuts`; `end`: the id
    put behind each text that is packed; `keep_masks`: whether prompts are masked; `as_given`: rows of tokens that are
    not packed though packing was asked for, nor given other labels than their own; `text_alone`: of a row with a text
    beside a prompt without a completion.
    """

    release: Release | None = None
    special_tokens: bool = True
    length: int | None = None
    cuts: bool = False
    end: int | None = None
    masks_padding: bool = False
    keep_masks: bool = True
    as_given: bool = False
    text_alone: bool = False

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        if self.tokenised and self.end is not None:
            row = {"input_ids": [*row["input_ids"], self.end]}
        return super().__call__(row)

    @property
    def of(self) -> Release:
        """The release."""
        assert self.release is not None
        return self.release

    def _as_text_or_messages(self, example: dict[str, Any]) -> dict[str, Any]:
        release = self.of
        if release.whole_text:
            return example
        if self.text_alone:
            return _text_alone(example, self.text_field)
        if not release.knows_completions and "prompt" in example and "completion" in example:
            key = "messages" if is_conversational(example) else "text"
            example[key] = example.pop("prompt") + example.pop("completion")
        if self.from_value:
            example = tokenization.role_content(example)
        if release.chats_as_text and is_conversational(example):
            return self._rendered(example)
        if self.append_eos and release.end_token == "text":
            key = self.text_field if release.end_field else "text"
            key = key if key in example else "completion"
            if key in example and not example[key].endswith(self.tokenizer.eos_token):
                example[key] += self.tokenizer.eos_token
            example.pop("messages", None)
        return example

    def _rendered(self, example: dict[str, Any]) -> dict[str, Any]:
        """Conversations as text: `text`, or `prompt` and `completion` cut where the rendered prompt ends."""
        render = self.tokenizer.apply_chat_template
        if "messages" in example:
            return {"text": render(example["messages"], tokenize=False)}
        prompt, whole = example["prompt"], example["prompt"] + example["completion"]
        asks = prompt[-1]["role"] == "user"
        start = render(prompt, tokenize=False, add_generation_prompt=asks, continue_final_message=not asks)
        text = render(whole, tokenize=False)
        if not text.startswith(start):
            raise ValueError(
                f"TRL {self.of.trl} refuses a chat template that renders a prompt alone otherwise than at the start "
                f"of the conversation: {start[-60:]!r}"
            )
        return {"prompt": start, "completion": text[len(start) :]}

    def _tokenise(self, example: dict[str, Any]) -> dict[str, Any]:
        release = self.of
        if release.whole_text:
            return {"input_ids": self._ids(example[self.text_field])}
        if not release.chats_as_text and is_conversational(example):
            return super()._tokenise(example)
        if self.text_alone or "prompt" not in example:
            ids = self._ids(example[self.text_field])
            ends = self.tokenizer.eos_token_id
            if release.end_token == "id" and ends is not None and ids[-1] != ends:
                ids.append(ends)
            return {"input_ids": ids}
        prompt, ids = self._ids(example["prompt"]), self._ids(example["prompt"] + example["completion"])
        return {"input_ids": ids, "completion_mask": self._completion_mask(prompt, ids)}

    def _ids(self, text: str) -> list[int]:
        cut = {"truncation": True, "max_length": self.length} if self.cuts and self.length is not None else {}
        ids = list(self.tokenizer(text, add_special_tokens=self.special_tokens, **cut)["input_ids"])
        return ids if self.end is None else [*ids, self.end]

    def _completion_mask(self, prompt: Sequence[int], ids: Sequence[int]) -> list[int]:
        if self.of.masks_common_prefix:
            return super()._completion_mask(prompt, ids)
        return [int(place >= len(prompt)) for place in range(len(ids))]

    def _prompt_ids(self, prompt: Any, example: Mapping[str, Any]) -> list[int]:
        return self._render(prompt, example, add_generation_prompt=self.of.hides_generation_prompt)

    def _labels(self, ids: list[int], example: Mapping[str, Any]) -> list[int]:
        labels = super()._labels(ids, example if self.keep_masks else {})
        if not self.masks_padding:
            return labels
        padding = self.tokenizer.pad_token_id
        return [IGNORED if label == padding else label for label in labels]
