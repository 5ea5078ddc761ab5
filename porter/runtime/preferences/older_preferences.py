"""How the preference trainers tokenised their rows before they took prompt and answer together.

From TRL 0.7.5 to 0.11 DPOTrainer tokenised prompt and answer as one text, put the start token before it and the end
token behind, and cut the prompt first, then the answer; KTOTrainer did so until 1.2, ORPOTrainer and CPOTrainer until
0.27. Before 0.7.5 it tokenised prompt and answers apart, without a start token, and cut them in the same way.
From 0.12 to 0.28 DPOTrainer tokenised prompt and answers apart, without special tokens but the end token's id behind
each answer (until 0.27.1 behind a conversation's, too). From 0.29 on it does as `preference_tokens.PairTokens`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..facts.releases import Release

LENGTH, PROMPT_LENGTH = 512, 128  # what those trainers took where no length was given
# Part of what `datasets` caches by, as in preference_tokens
_CODE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


@dataclass(frozen=True)
class ApartTokens:
    """Prompt and answers of TRL 0.12 to 0.28: tokenised apart; `ends`: the end token's id goes behind each answer."""

    tokenizer: Any
    max_prompt_length: int | None
    max_completion_length: int | None
    ends: bool
    code: str = _CODE

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Token ids of prompt + chosen and prompt + rejected, and where the answers start."""
        prompt = self._ids(row["prompt"])
        prompt = prompt[max(0, len(prompt) - (self.max_prompt_length or len(prompt))) :]
        found: dict[str, Any] = {"first_start": len(prompt), "second_start": len(prompt)}
        for name, key in (("first", "chosen"), ("second", "rejected")):
            answer = [*self._ids(row[key]), *([self.tokenizer.eos_token_id] if self.ends else [])]
            found[name] = [*prompt, *answer[: self.max_completion_length]]
        return found

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def lost_ends(sizes: Sequence[tuple[int, int, int]], max_length: int | None) -> list[tuple[bool, bool]]:
    """Whether chosen and rejected of each pair of a process's micro-batch lost their last token under TRL 0.12.

    It put prompts and answers side by side, each padded to the longest, moved the tokens to the left, and took the
    columns before the last that any row filled, where padding was left behind it: the longest documents lost their
    end. `sizes`: tokens of each pair's prompt, and of prompt and answer of chosen and rejected, before `max_length`.
    """
    longest = max(max(pair[1:]) for pair in sizes)
    columns = max(prompt for prompt, _, _ in sizes) + max(max(pair[1:]) - pair[0] for pair in sizes)
    loses = longest < columns and (max_length is None or longest <= max_length)
    return [(loses and chosen == longest, loses and rejected == longest) for _, chosen, rejected in sizes]


def lost_starts(lengths: Sequence[tuple[int, ...]], columns: int) -> int:
    """The tokens that each document of a process's micro-batch lost at its start under TRL 0.14 to 0.17.

    It padded behind all documents and kept the last `columns` of the batch: the shorter ones lost as many tokens as the
    longest, also where they would have fitted. `lengths`: tokens of each pair's documents.
    """
    return max(0, max(length for pair in lengths for length in pair) - columns)


def see_from_last_column(batch: dict[str, np.ndarray], row: int, length: int, columns: int) -> None:
    """Put the last of a batch's `columns` behind the `length` tokens of a row: padding, which sees them, and is seen by
    nobody. In a circle it predicts the first of them."""
    batch["segment_ids"][row, length] = 1
    batch["positions"][row, length] = columns - 1
    batch["attended"][row, length] = False


@dataclass(frozen=True)
class JoinedTokens:
    """Prompt and answer as one text with the start token before and the end token behind; the prompt is cut first.

    Before 0.7.5 as two, without the start token.
    """

    tokenizer: Any
    release: Release
    max_length: int
    max_prompt_length: int | None
    truncation_mode: str
    code: str = _CODE

    def pair(self, row: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
        """DPOTrainer's documents: the longer answer decides what is cut off both.

        `whole`: ORPOTrainer's and CPOTrainer's, which never lost a token that had merged.
        """
        answers = (row["chosen"], row["rejected"])
        parts = [self._with_ends(*self._parts(row["prompt"], answer, whole=whole)) for answer in answers]
        longer = max(len(answer) for _, answer in parts)
        found: dict[str, Any] = {}
        for name, (prompt, answer) in zip(("first", "second"), parts, strict=True):
            prompt, answer = self._cut(prompt, answer, longer, self.max_length)
            found |= {name: prompt + answer, f"{name}_start": len(prompt)}
        return found

    def completion(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """KTOTrainer's parts, without what `ended` adds: prompt + completion, and where the completion starts."""
        prompt, answer = self._parts(row["prompt"], row["completion"], whole=True)
        return {"first": prompt + answer, "second": [], "first_start": len(prompt), "second_start": 0}

    def ended(self, prompt: list[int], answer: list[int]) -> tuple[list[int], int]:
        """A document of KTOTrainer: cut so that the tokens which are put around it fit, too."""
        eos = self.tokenizer.eos_token_id
        always = not self.release.since(0, 9)
        room = self.max_length - (always or bool(prompt and self._starts(prompt)))
        room -= always or bool(answer and answer[-1] != eos)
        prompt, answer = self._with_ends(*self._cut(prompt, answer, len(answer), room))
        return prompt + answer, len(prompt)

    def _parts(self, prompt: Any, answer: Any, *, whole: bool = False) -> tuple[list[int], list[int]]:
        """The tokens of both, parted where the prompt's own end, or one token before it, merged with the answer."""
        if not isinstance(prompt, str) or not isinstance(answer, str):
            raise ValueError(f"TRL {self.release.trl} takes text here: apply the chat template to the messages first")
        together = list(self.tokenizer(prompt + answer, add_special_tokens=False)["input_ids"])
        alone = list(self.tokenizer(prompt, add_special_tokens=False)["input_ids"])
        if self.release.pairs_split:
            return alone, list(self.tokenizer(answer, add_special_tokens=False)["input_ids"])
        start = len(alone)
        rest = together[start:]
        if alone != together[:start]:
            start -= 1
            # DPOTrainer of 0.10 and 0.11 lost the token that had merged.
            rest = rest if self.release.since(0, 10) and not whole else together[start:]
        return together[:start], rest

    def _starts(self, prompt: list[int]) -> bool:
        """Whether the start token is put before the prompt; before 0.9 it was, also where it stood there already."""
        bos = None if self.release.pairs_split else self.tokenizer.bos_token_id
        return bos is not None and (prompt[:1] != [bos] or not self.release.since(0, 9))

    def _with_ends(self, prompt: list[int], answer: list[int]) -> tuple[list[int], list[int]]:
        prompt = [self.tokenizer.bos_token_id, *prompt] if self._starts(prompt) else prompt
        eos = self.tokenizer.eos_token_id
        return prompt, answer if answer[-1:] == [eos] and self.release.since(0, 9) else [*answer, eos]

    def _cut(self, prompt: list[int], answer: list[int], longer: int, room: int) -> tuple[list[int], list[int]]:
        keep = self.max_prompt_length
        if keep is None:  # KTOTrainer from 0.29 on cut the completion alone
            return prompt, answer[: max(0, room - len(prompt))]
        if len(prompt) + longer > room:
            prompt = prompt[:keep] if self.truncation_mode == "keep_start" else prompt[-keep:]
        if len(prompt) + longer > room:
            answer = answer[: room - keep]
        return prompt, answer
