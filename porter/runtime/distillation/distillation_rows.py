"""TRL's preparation of conversations for distillation: the last message is the answer, the rest its prompt.

Follows the collator of TRL 1.16's GKDTrainer, DataCollatorForChatML: the chat template's text without further special
tokens, cut from the front.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..rows import chat_templates, tokenization
from ..rows.rows import Rows, is_stream, prepare
from ..rows.tokenization import IGNORED, Preparation, columns

# Part of what `datasets` caches by: it sees the class by its name only, and would reuse what older code tokenised
_CODE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


@dataclass(frozen=True)
class ChatPreparation(Preparation):
    """What to do with every row: `longest` tokens of it are kept, its last ones."""

    longest: int = 1024
    code: str = _CODE

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Token ids, and labels that are those of the last message. ValueError for a row without a token before it."""
        messages, prompt = row["messages"], row.get("prompt")
        if prompt is None:
            prompt = self._text(messages[:-1], add_generation_prompt=True)
        ids, start = self._split(self._text(messages, add_generation_prompt=False), prompt)
        left = max(0, len(ids) - self.longest)
        ids, start = ids[left:], max(0, start - left)
        if not start:
            raise ValueError(
                f"a row has no token of its prompt within max_length={self.longest}, of which the last are kept: raise "
                "max_length, or drop such rows first"
            )
        return {"input_ids": ids, "labels": [IGNORED] * start + ids[start:]}

    def _text(self, messages: Any, *, add_generation_prompt: bool) -> str:
        text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=add_generation_prompt, tokenize=False)
        return str(text)

    def _split(self, text: str, prompt: str) -> tuple[list[int], int]:
        """Token ids of `text`, and the first that begins behind `prompt`."""
        backend = self.tokenizer.backend_tokenizer
        if "ByteLevel" not in repr(backend.pre_tokenizer) and "ByteLevel" not in repr(backend.decoder):
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            return list(ids), len(self.tokenizer(prompt, add_special_tokens=False)["input_ids"])
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        begins = [begin for begin, _ in found["offset_mapping"]]
        start = next((place for place, begin in enumerate(begins) if begin >= len(prompt)), len(begins))
        return list(found["input_ids"]), start


def conversations(dataset: Any, tokenizer: Any, *, max_length: int | None) -> Rows:
    """The rows of a dataset of `messages` as GKDTrainer feeds them; `max_length` None is the tokenizer's, at most 1024.

    ValueError for other columns, and for a stream.
    """
    if is_stream(dataset):
        raise ValueError("distillation from a streamed dataset is not supported: load it whole (streaming=False)")
    first = tokenization.first_row(dataset)
    if not tokenization.is_conversational({"messages": first.get("messages")}):
        raise ValueError(
            f"the dataset has the columns {columns(first)}; GKDTrainer needs 'messages', a list of messages with role "
            "and content of which the last is the answer"
        )
    if "input_ids" in first:
        raise ValueError("the dataset has 'input_ids' beside 'messages', which GKDTrainer would take: remove them")
    if not isinstance(first.get("prompt", ""), str):
        raise ValueError("'prompt' beside 'messages' has to be text, as GKDTrainer takes it: remove the column")
    chat_templates.default_template(tokenizer)
    preparation = ChatPreparation(tokenizer=tokenizer, longest=max_length or min(tokenizer.model_max_length, 1024))
    return prepare(
        dataset, preparation, packing=None, max_length=None, skip_prepare=False, shuffle_seed=None, num_proc=None
    )


def prompt_of(ids: np.ndarray, labels: np.ndarray) -> list[int]:
    """Token ids before the first that is trained."""
    trained = np.flatnonzero(labels != IGNORED)
    return [int(token) for token in (ids[: trained[0]] if len(trained) else ids)]
