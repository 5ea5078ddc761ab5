"""Unsloth's helpers for chats: templates, ShareGPT's rows, and training on the answers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....runtime.rows.unsloth_data import standardize_data_formats, turn_marks
from ....runtime.rows.unsloth_templates import get_chat_template
from .unknown import Unknown

IGNORED = -100


def names() -> dict[str, Any]:
    """What `unsloth.chat_templates` has; a template or a function that isn't here says so when it is called."""
    return {
        "get_chat_template": chat_template,
        "standardize_sharegpt": standardize_data_formats,
        "standardize_data_formats": standardize_data_formats,
        "train_on_responses_only": train_on_responses_only,
        "to_sharegpt": Unknown("unsloth.to_sharegpt"),
        "apply_chat_template": Unknown("unsloth.apply_chat_template"),
    }


def chat_template(
    tokenizer: Any,
    chat_template: Any = "chatml",
    mapping: Any = None,
    map_eos_token: bool = True,
    system_message: str | None = None,
) -> Any:
    """The tokenizer with Unsloth's template of that name. ValueError for one that isn't here, or for other columns."""
    plain = {"role": "role", "content": "content", "user": "user", "assistant": "assistant"}
    if mapping is not None and any(plain.get(key, value) != value for key, value in mapping.items()):
        raise ValueError("get_chat_template(mapping=...) for other names than role and content is not compared")
    return get_chat_template(tokenizer, chat_template, map_eos_token=map_eos_token, system_message=system_message)


def train_on_responses_only(
    trainer: Any,
    instruction_part: str | None = None,
    response_part: str | None = None,
    force_match: bool = True,
    tokenizer: Any = None,
    return_function: bool = False,
    num_proc: int | None = None,
    **kwargs: Any,
) -> Any:
    """Labels for what stands between a `response_part` and the next `instruction_part`; -100 elsewhere.

    With `force_match` all tokens of a part have to stand there, else those that stay whatever stands around them.
    """
    import transformers

    words = tokenizer or getattr(trainer, "processing_class", None) or trainer.tokenizer
    if instruction_part is None or response_part is None:
        instruction_part, response_part = turn_marks(words)
    tokens = whole_tokens if force_match else core_tokens
    question, answer = (tokens(words, part) for part in (instruction_part, response_part))

    def masked(rows: Any) -> dict[str, Any]:
        given = rows.get("labels", rows["input_ids"])
        return {
            "labels": [
                answers(ids, labels, question, answer) for ids, labels in zip(rows["input_ids"], given, strict=True)
            ]
        }

    if return_function:
        return masked
    for name in ("train_dataset", "eval_dataset"):
        rows = getattr(trainer, name, None)
        if isinstance(rows, dict):
            setattr(trainer, name, {key: part.map(masked, batched=True) for key, part in rows.items()})
        elif rows is not None:
            setattr(trainer, name, rows.map(masked, batched=True))
    trainer.data_collator = transformers.DataCollatorForSeq2Seq(tokenizer=words)
    return trainer


def whole_tokens(tokenizer: Any, part: str) -> list[int]:
    """All tokens of `part`, as Unsloth looks for it by default: a line break at its end is no answer's."""
    return list(tokenizer(part, add_special_tokens=False)["input_ids"])


def core_tokens(tokenizer: Any, part: str) -> list[int]:
    """The tokens of `part` that stay whatever stands around it: line breaks at its ends may melt into a neighbour."""
    around = [part, part.strip(), f"\n{part}", f"{part}\n", f"\n{part}\n", f" {part}", f"{part} "]
    variants = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in around if text]
    shortest = min(variants, key=len)
    for size in range(len(shortest), 0, -1):
        for start in range(len(shortest) - size + 1):
            piece = shortest[start : start + size]
            if all(places(ids, piece) for ids in variants):
                return list(piece)
    return list(shortest)


def places(ids: Sequence[int], piece: Sequence[int]) -> list[int]:
    """Where `piece` stands in `ids`."""
    size = len(piece)
    return [at for at in range(len(ids) - size + 1) if list(ids[at : at + size]) == list(piece)]


def answers(ids: Sequence[int], labels: Sequence[int], question: Sequence[int], answer: Sequence[int]) -> list[int]:
    """The labels of the answers alone: from after `answer` up to the next `question`, or to the end."""
    found = [IGNORED] * len(ids)
    asked = places(ids, question)
    at = 0
    for place in places(ids, answer):
        if place < at:
            continue
        start = place + len(answer)
        end = next((stop for stop in asked if stop >= start), len(ids))
        found[start:end] = list(labels[start:end])
        at = end
    return found
