"""From a dataset to the rows of SFTTrainer: tokens and what is trained of them, packed, streamed, joined."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...facts.releases import APART, Release
from .. import rows, tokenization
from ..packing import Shuffles
from ..response_masks import CompletionOnly, IgnorePadding, LabelMask, OwnLabels
from ..rows import Rows
from . import older_rows, unsloth_rows

OF_TRANSFORMERS = (IgnorePadding, CompletionOnly)  # collators that keep the rows' own attention_mask


class SFTRows:
    """The rows that one trainer makes of its datasets, those of training and of evaluation; arguments as in SFTBatches.

    `packing`: the strategy that packs rows of training, or None. `padding_free`: whether rows that aren't packed are
    run together, too. One collator serves both sets: it runs rows together, `flattens`, as those of training ask for.
    """

    def __init__(
        self,
        release: Release,
        tokenizer: Any,
        *,
        max_length: int | None,
        text_field: str | None,
        formatting_func: Callable[[Any], Any] | None,
        completion_only_loss: bool | None,
        assistant_only_loss: bool,
        label_mask: LabelMask | None,
        packing: str | None,
        padding_free: bool,
        attention: str | None,
        shuffle_dataset: bool,
        truncation_mode: str,
        num_proc: int | None,
        skip_prepare: bool,
        add_special_tokens: bool,
        append_concat_token: bool,
        seed: int,
        unsloth: str | None,
        draws: Shuffles | None,
    ) -> None:
        self._release, self._seed, self.padding_free = release, seed, padding_free
        self.flattens, self._trains_packed = padding_free or packing in APART, packing
        self._tokenise = functools.partial(
            unsloth_rows.tokenised,
            tokenizer=tokenizer,
            max_length=max_length,
            text_field=text_field or "text",
            formatting_func=formatting_func,
            release=unsloth,
        )
        self._plan = functools.partial(
            older_rows.prepare,
            release=release,
            tokenizer=tokenizer,
            text_field=text_field,
            formatting_func=formatting_func,
            completion_only_loss=completion_only_loss,
            assistant_only_loss=assistant_only_loss,
            max_length=max_length,
            truncation_mode=truncation_mode,
            skip_prepare=skip_prepare,
            label_mask=label_mask,
            add_special_tokens=add_special_tokens,
            append_concat_token=append_concat_token,
            draws=draws,
        )
        self._max_length, self._skip_prepare, self._num_proc = max_length, skip_prepare, num_proc
        self._takes_whole = unsloth_rows.takes_whole(unsloth, release)
        self._joins = unsloth is None and release.joins_documents(attention)
        self._shuffle_seed = seed if shuffle_dataset else None

    def of(
        self,
        dataset: Any,
        packing: str | None,
        max_steps: int = -1,
        step_rows: int = 1,
        steps_of: Callable[[int], int] = lambda rows: rows,
        *,
        trains: bool = False,
    ) -> Rows:
        """The rows of a dataset, packed by a strategy where that isn't None; `trains`: for training, not evaluation.

        Of a stream `max_steps` steps of `step_rows` rows are read; `steps_of`: how many full ones so many rows make.
        """
        dataset = self._tokenise(dataset)
        packing = self._trains_packed if self._skip_prepare else packing
        whole_rows = self.padding_free and self._trains_packed is None  # which the release doesn't cut
        dataset, preparation, buffered = self._plan(
            dataset, packing=packing is not None, padding_free=whole_rows or packing in APART, seed=self._seed
        )
        whole = self._takes_whole and preparation.tokenised and packing is None
        preparation = replace(preparation, keep=None) if whole else preparation
        if self._release.whole_text and buffered is None:  # rows that are tokens already, which nothing packs
            packing = None
        if packing is None and preparation.tokenised and "attention_mask" in tokenization.first_row(dataset):
            of_transformers = isinstance(preparation.label_mask, OF_TRANSFORMERS)
            came = isinstance(preparation.label_mask, OwnLabels) and not self._release.reads_labels  # beside the labels
            keeps = self._release.masks_padding_token or of_transformers or came  # TRL's own collator lets all be seen
            preparation = replace(preparation, attends=keeps, sees_hidden=trains and bool(self._release.unsloth))
        if rows.is_stream(dataset):
            if max_steps <= 0:
                raise ValueError("a streamed dataset has no length: set max_steps")
            if self._shuffle_seed is not None:
                raise ValueError("shuffle_dataset=True on a streamed dataset: call dataset.shuffle(seed=...) instead")
            made = rows.stream(
                dataset,
                preparation,
                packing=packing,
                max_length=self._max_length,
                steps=max_steps,
                step_rows=step_rows,
                steps_of=steps_of,
            )
        else:
            made = rows.prepare(
                dataset,
                preparation,
                packing=packing,
                max_length=self._max_length,
                skip_prepare=self._skip_prepare,
                shuffle_seed=self._shuffle_seed,
                num_proc=self._num_proc,
                buffered=buffered,
                masks_first=self._release.masks_first_packed,
                flattens=self.flattens,
            )
        sees_all = self._joins if self.flattens else packing in (*APART, "bfd-requeue")
        return rows.joined(made) if sees_all else made

    @property
    def masks_first(self) -> bool:
        """Whether the first label of every document is masked, as it is where documents run together."""
        return self.flattens and self._release.masks_first_packed and not self._joins
