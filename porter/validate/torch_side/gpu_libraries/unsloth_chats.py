"""Unsloth's helpers for chats: templates, ShareGPT's rows, and training on the answers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....runtime.facts.field_tables import version_key
from ....runtime.rows.unsloth_data import standardize_data_formats, turn_marks
from ....runtime.rows.unsloth_templates import get_chat_template
from .unknown import Unknown
from .unsloth_parts import trl as unsloth_trl

IGNORED = -100
BLANKS = (" ", "\n")
MATCHES_ALL = (2025, 3, 9)  # the first release that looks for all tokens of a part
Mark = tuple[list[int], list[int], list[int]]


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
    force_match: bool | None = None,
    tokenizer: Any = None,
    return_function: bool = False,
    num_proc: int | None = None,
    last_response_only: bool = False,
    mask_out_tokens: Sequence[str] | None = None,
) -> Any:
    """Labels for what stands between a `response_part` and the next `instruction_part`; -100 elsewhere.

    With `force_match` all tokens of a part have to stand there, else those that stay whatever stands around them: the
    only way before Unsloth 2025.3.9, the default since is the other.
    """
    import transformers

    if mask_out_tokens is not None:
        raise ValueError("train_on_responses_only(mask_out_tokens=...) is not compared")
    if force_match is None:
        force_match = version_key(unsloth_trl.release()) >= MATCHES_ALL

    words = tokenizer or getattr(trainer, "processing_class", None) or trainer.tokenizer
    if instruction_part is None or response_part is None:
        instruction_part, response_part = turn_marks(words)
    question, answer = (marks(words, part, all_of_it=force_match) for part in (instruction_part, response_part))

    def masked(rows: Any) -> dict[str, Any]:
        given = rows.get("labels", rows["input_ids"])
        return {
            "labels": [
                answers(ids, labels, question, answer, last_response_only)
                for ids, labels in zip(rows["input_ids"], given, strict=True)
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


def marks(tokenizer: Any, part: str, *, all_of_it: bool) -> Mark:
    """The tokens of `part` that are looked for, and those that may stand before and behind them.

    Not `all_of_it`: those that stay whatever stands around; line breaks at its ends may melt into a neighbour.
    """
    whole = tokenizer(part, add_special_tokens=False)["input_ids"]
    if all_of_it:
        return [], whole, []
    core, before, behind = part.strip(), part[:1], part[-1:]
    texts = []
    for left in range(3):
        for right in range(3):
            texts.append(left * before * (before in BLANKS) + core + right * behind * (behind in BLANKS))
            texts.append(left * "\n" + core + right * "\n")
    variants = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    for size in range(len(variants[0]), 0, -1):
        for start in range(len(variants[0]) - size + 1):
            piece = variants[0][start : start + size]
            if all(places(ids, piece) for ids in (*variants, whole)):
                at = places(whole, piece)[0]
                return whole[:at], piece, whole[at + size :]
    return [], whole, []


def places(ids: Sequence[int], piece: Sequence[int]) -> list[int]:
    """Where `piece` stands in `ids`."""
    size = len(piece)
    return [at for at in range(len(ids) - size + 1) if list(ids[at : at + size]) == list(piece)]


def answers(
    ids: Sequence[int], labels: Sequence[int], question: Mark, answer: Mark, last_alone: bool = False
) -> list[int]:
    """The labels of the answers alone, or of the last: from after `answer` up to the next `question`, or to the end."""
    found, last = [IGNORED] * len(ids), len(ids) - 1
    spans = []
    asked = places(ids, question[1])
    at = 0
    for place in places(ids, answer[1]):
        if place < at:
            continue
        start = place + len(answer[1])
        for token in answer[2]:  # Unsloth compares with the one after the next
            if start >= last or ids[start + 1] != token:
                break
            start += 1
        stop = end = next((stop for stop in asked if stop >= start), last)
        for token in reversed(question[0]):
            if end < 1 or ids[end - 1] != token:
                break
            end -= 1
        end = len(ids) if end == last else end
        spans.append((start, end))
        at = len(ids) if stop == last else stop + len(question[1])
    for start, end in spans[-1:] if last_alone else spans:
        found[start:end] = list(labels[start:end])
    return found
