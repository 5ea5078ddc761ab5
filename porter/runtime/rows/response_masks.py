"""Training on the answers of a text alone, found by the text that stands before them.

`CompletionOnly` is TRL's DataCollatorForCompletionOnlyLM (0.4 to 0.19), `ResponsesOnly` the mask of Unsloth's
train_on_responses_only: rt.SFTBatches takes them as `label_mask`, of one row without padding. The masks of collators
are collators, too, for rt.TrainerBatches and wherever a script calls its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .collation import without_torch
from .unsloth_data import turn_marks

IGNORED = -100

LabelMask = Callable[[list[int]], list[int]]
"""From the labels of one row, -100 where padding stands, to those that count."""


class _MaskingCollator:
    """transformers' DataCollatorForLanguageModeling(mlm=False), in NumPy, whose labels go through a mask.

    Called with the labels of one row it gives those that count; with rows, of a dataset or token ids alone, a batch.
    """

    def __init__(self, tokenizer: Any, mlm: bool, settings: Mapping[str, Any]) -> None:
        if mlm:
            raise ValueError("mlm=True trains a masked language model; a causal one takes mlm=False")
        self.tokenizer = tokenizer
        self._padding = {**settings, "return_tensors": "np"}

    def __call__(self, rows: Any) -> Any:
        if len(rows) and not isinstance(rows[0], int | np.integer):
            return self.torch_call(rows)
        if self.tokenizer is not None and self.tokenizer.pad_token is None:
            raise ValueError(
                "the tokenizer has no padding token, and the collator pads with it: the source ends here, too. Set "
                "tokenizer.pad_token before the trainer is made"
            )
        return self.masked(rows)

    def masked(self, labels: list[int]) -> list[int]:
        """The labels of one row that count, -100 in place of the others."""
        raise NotImplementedError

    def torch_call(self, examples: Sequence[Any]) -> dict[str, Any]:
        """Rows as one batch, by the name that classes which extend the library's override: NumPy arrays (rows, L)."""
        from transformers import DataCollatorForLanguageModeling

        padded = DataCollatorForLanguageModeling(self.tokenizer, mlm=False, **self._padding)
        batch = dict(without_torch(padded)(list(examples)))
        labels = [self.masked(row) for row in np.asarray(batch["labels"]).tolist()]
        return batch | {"labels": np.array(labels, np.int64)}


class CompletionOnly(_MaskingCollator):
    """Masks everything up to the answer: `response_template` is what stands before it, as text or token ids.

    Without `instruction_template` the answer is what follows the *last* place where the template stands. With it, every
    stretch from a question to the next answer is masked, so that all answers of a conversation are trained. A row where
    a template isn't found is not trained at all, with a warning. Text is tokenised by `tokenizer` without special
    tokens and alone, which may give other tokens than in the middle of a text: pass token ids then. `padding_free`
    batches are one row, documents of which none sees another. `padding`: the other keywords of transformers' collator.
    """

    def __init__(
        self,
        response_template: str | Sequence[int],
        instruction_template: str | Sequence[int] | None = None,
        tokenizer: Any = None,
        *,
        mlm: bool = False,
        ignore_index: int = IGNORED,
        padding_free: bool = False,
        **padding: Any,
    ) -> None:
        super().__init__(tokenizer, mlm, padding)
        if ignore_index != IGNORED:
            raise ValueError(f"ignore_index={ignore_index}: the model's loss leaves out {IGNORED}, and trains the rest")
        self.response_template, self.instruction_template = response_template, instruction_template
        self.response_token_ids = _ids(response_template, tokenizer)
        self.instruction_token_ids = None if not instruction_template else _ids(instruction_template, tokenizer)
        self.ignore_index, self.padding_free = ignore_index, padding_free

    def torch_call(self, examples: Sequence[Any]) -> dict[str, Any]:
        batch = super().torch_call(examples)
        if not self.padding_free:
            return batch
        seen = np.asarray(batch.pop("attention_mask")).astype(bool)
        positions = np.cumsum(seen, axis=1)[seen][None] - 1
        labels = np.where(positions == 0, IGNORED, batch["labels"][seen][None])
        return batch | {"input_ids": batch["input_ids"][seen][None], "labels": labels, "position_ids": positions}

    def masked(self, labels: list[int]) -> list[int]:
        answers = [at + len(self.response_token_ids) for at in _places(labels, self.response_token_ids)]
        if not answers:
            return self._ignored(labels, "response_template", self.response_template)
        masked = list(labels)
        if self.instruction_token_ids is None:
            masked[: answers[-1]] = [IGNORED] * answers[-1]
            return masked
        questions = _places(labels, self.instruction_token_ids)
        if not questions:
            return self._ignored(labels, "instruction_template", self.instruction_template)
        if questions[0] > answers[0]:
            questions = [0, *questions]
        for number, (question, answer) in enumerate(zip(questions, answers, strict=False)):
            start = question if number else 0
            masked[start:answer] = [IGNORED] * (answer - start)
        if len(answers) < len(questions):
            masked[questions[-1] :] = [IGNORED] * (len(masked) - questions[-1])
        return masked

    def _ignored(self, labels: list[int], name: str, template: Any) -> list[int]:
        warnings.warn(f"a row without {name}={template!r} is not trained; is it cut off by max_length?", stacklevel=2)
        return [IGNORED] * len(labels)


def mask_of_rows(mask: LabelMask) -> bool:
    """Whether a mask goes over whole rows, packed ones too, and not over each document."""
    return getattr(mask, "of_rows", False)


class IgnorePadding(_MaskingCollator):
    """Masks tokens that equal the tokenizer's padding token, as transformers' DataCollatorForLanguageModeling does.

    Where the end token pads, no row trains its end. `padding`: the other keywords of that collator, which a mask of one
    row doesn't need.
    """

    def __init__(self, tokenizer: Any, mlm: bool = True, **padding: Any) -> None:
        super().__init__(tokenizer, mlm, padding)

    def masked(self, labels: list[int]) -> list[int]:
        padding = self.tokenizer.pad_token_id
        return [IGNORED if label == padding else label for label in labels]


class OwnLabels:
    """The rows' own `labels` are trained, as collators of transformers that make none pad or stack them.

    Those are DataCollatorForSeq2Seq, DataCollatorWithPadding and default_data_collator; TRL's own, before 0.19, put the
    tokens in their place. Rows without labels are a ValueError: the model that the Trainer gives them makes no loss.
    """

    def __call__(self, labels: list[int]) -> list[int]:
        return labels

    @staticmethod
    def check(first: Mapping[str, Any], *, packing: bool) -> None:
        """ValueError for rows whose labels such a collator wouldn't see."""
        if "labels" not in first or "input_ids" not in first or packing:
            raise ValueError(
                "the script's collator makes no labels, and the rows have none: the Trainer ends there, as the model "
                f"returns no loss; the columns are {', '.join(first)}"
            )


class ResponsesOnly:
    """Trains what follows each `response_part`, up to the next `instruction_part` or the end of the row.

    The parts are text or token ids. Text is tokenised alone and without special tokens, and all its tokens are looked
    for. With `force_match=False`, as Unsloth did before 2025.3.9, those alone that stay whatever blanks and line ends
    stand around the text: the line end behind "<|im_start|>assistant" is trained then. Without parts they are read off
    the tokenizer's chat template, see `turn_marks`. A row without `response_part` trains nothing and is taken out of
    the data, as by Unsloth since 2026.2. `last_response_only` trains the last answer of a row alone. Rows that are
    packed are masked as they are packed: what stands in front of a document's first `instruction_part` goes on with the
    response before it.
    """

    drops_rows = True
    of_rows = True

    def __init__(
        self,
        instruction_part: str | Sequence[int] | None = None,
        response_part: str | Sequence[int] | None = None,
        tokenizer: Any = None,
        *,
        force_match: bool = True,
        last_response_only: bool = False,
    ) -> None:
        if instruction_part is None and response_part is None:
            instruction_part, response_part = turn_marks(tokenizer)
        if instruction_part is None or response_part is None:
            raise ValueError("give both instruction_part and response_part, or neither")
        self.before, self.instruction, _ = _parted(instruction_part, tokenizer, force_match)
        _, self.response, self.behind = _parted(response_part, tokenizer, force_match)
        self._first = -1 if last_response_only else 0

    def __call__(self, labels: list[int]) -> list[int]:
        masked = [IGNORED] * len(labels)
        for begin, end in list(self._answers(labels))[self._first :]:
            masked[begin:end] = labels[begin:end]
        return masked

    def _answers(self, labels: list[int]) -> Iterator[tuple[int, int]]:
        """From where to where each answer goes."""
        questions, answers = _places(labels, self.instruction), _places(labels, self.response)
        at = 0
        while (start := next((place for place in answers if place >= at), None)) is not None:
            begin = start + len(self.response)
            # Unsloth looks one place too far: the part's own line end is trained, a further one isn't.
            begin += _run(self.behind, labels[begin + 1 :])
            question = next((place for place in questions if place >= begin), None)
            yield begin, self._end(labels, question)
            at = len(labels) if question is None else question + len(self.instruction)

    def _end(self, labels: list[int], question: int | None) -> int:
        """Where an answer ends: before the tokens that may lead in the next question, which Unsloth also looks for
        before a row's last token."""
        stop = len(labels) - 1 if question is None else question
        back = _run(self.before[::-1], labels[:stop][::-1])
        return len(labels) if question is None and not back else stop - back


def _parted(part: str | Sequence[int], tokenizer: Any, force_match: bool) -> tuple[list[int], list[int], list[int]]:
    """The tokens of a part that have to be there, between those that may be before and behind them."""
    ids = _ids(part, tokenizer)
    if force_match or not isinstance(part, str):
        return [], ids, []
    core = part.strip()
    before, behind = (end if end in (" ", "\n") else "" for end in (part[:1], part[-1:]))
    around = [(before, behind), ("\n", "\n")]
    texts = [first * left + core + last * right for left in range(3) for right in range(3) for first, last in around]
    common = _common([_ids(text, tokenizer) for text in texts])
    at = next(iter(_places(ids, common)), None) if common else None
    return ([], ids, []) if at is None else (ids[:at], common, ids[at + len(common) :])


def _common(rows: list[list[int]]) -> list[int]:
    """The longest run of tokens that all rows have, of several the first; empty for none."""
    first = rows[0]
    for size in range(min(map(len, rows)), 0, -1):
        for at in range(len(first) - size + 1):
            run = first[at : at + size]
            if all(_places(row, run) for row in rows):
                return run
    return []


def _run(wanted: Sequence[int], found: Sequence[int]) -> int:
    """How many tokens are the same from the first on."""
    pairs = zip(wanted, found, strict=False)
    return next((number for number, (left, right) in enumerate(pairs) if left != right), min(len(wanted), len(found)))


def _ids(template: str | Sequence[int], tokenizer: Any) -> list[int]:
    if not isinstance(template, str):
        return [int(token) for token in template]
    return list(tokenizer.encode(template, add_special_tokens=False))


def _places(labels: Sequence[int], template: Sequence[int]) -> list[int]:
    """Where `template` stands in `labels`."""
    size = len(template)
    return [
        at for at, label in enumerate(labels) if label == template[0] and list(labels[at : at + size]) == list(template)
    ]
