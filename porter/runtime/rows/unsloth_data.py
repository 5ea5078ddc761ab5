"""Unsloth's helpers for conversations, without Unsloth: `standardize_data_formats`, and what marks the turns of a chat.

They work on datasets and tokenizers alone, so that a port needs neither torch nor a GPU for them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

ROLES = ("system", "user", "assistant")
USER, ASSISTANT = "\u2060ask\u2060", "\u2060reply\u2060"  # no tokenizer's template holds these


def standardize_data_formats(
    dataset: Any,
    tokenizer: Any = None,
    aliases_for_system: Sequence[str] = ("system",),
    aliases_for_user: Sequence[str] = ("user", "human", "input"),
    aliases_for_assistant: Sequence[str] = ("gpt", "assistant", "output"),
    batch_size: int = 1000,
    num_proc: int | None = None,
) -> Any:
    """ShareGPT's `conversations` as role and content: what Unsloth's function of this name gives for text models.

    Which of the two keys of a message holds the role is read off the first ten rows: the one with fewer values. A
    dataset without `conversations` is given back as it is. ValueError for roles without an alias and for other keys.
    It works in this process alone, whatever `num_proc` says: JAX runs threads by now, and a fork may never return.
    """
    first = list(itertools.islice(dataset, 10))
    if not first or "conversations" not in first[0]:
        return dataset
    seen: dict[str, set[str]] = {}
    for message in itertools.chain.from_iterable(row["conversations"] for row in first):
        for key, value in message.items():
            if not isinstance(value, str):
                raise ValueError(f"conversations: {key!r} holds {type(value).__name__}, not text")
            seen.setdefault(key, set()).add(value)
    if len(seen) != 2:
        raise ValueError(f"conversations: a message has a role and a text, but these have {sorted(seen)}")
    one, other = seen
    role, content = (one, other) if len(seen[one]) < len(seen[other]) else (other, one)
    aliases = (aliases_for_system, aliases_for_user, aliases_for_assistant)
    names = {alias: name for name, group in zip(ROLES, aliases, strict=True) for alias in group}
    if unknown := sorted(seen[role] - set(names)):
        raise ValueError(
            f"conversations: the roles {unknown} have no alias; name them in aliases_for_user= or its like"
        )

    def renamed(rows: Any) -> dict[str, Any]:
        made = [
            [{"role": names[turn[role]], "content": turn[content]} for turn in turns] for turns in rows["conversations"]
        ]
        return {"conversations": made}

    return dataset.map(renamed, batched=True, batch_size=batch_size)


def turn_marks(tokenizer: Any) -> tuple[str, str]:
    """What the chat template writes before a user's turn and before an assistant's, as Unsloth reads it off it.

    A conversation of three turns each is rendered; the assistant's mark is what a generation prompt adds, the user's is
    what stands between an answer and the next question without the end of the answer. ValueError for a template
    without a header before answers: such parts have to be given.
    """

    def render(turns: list[dict[str, str]], *, asks: bool = False) -> str:
        return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=asks))

    if not getattr(tokenizer, "chat_template", None):
        raise ValueError("the tokenizer has no chat template: give instruction_part and response_part")
    turns = [{"role": "user", "content": USER}, {"role": "assistant", "content": ASSISTANT}] * 3
    text = render(turns)
    asked, plain = render(turns[:-1], asks=True), render(turns[:-1])
    header = asked[len(plain) :] if asked.startswith(plain) else ""
    before_answer, before_question = _between(text, USER, ASSISTANT), _between(text, ASSISTANT, USER)
    ends = before_answer.removesuffix(header)
    if not header or ends == before_answer or not ends:
        raise ValueError(
            "the chat template has no header before answers to tell them by: give instruction_part and response_part"
        )
    question = before_question
    while question.startswith(ends):
        question = question.removeprefix(ends)
    return question.strip(" \t"), header.strip(" \t")


def _between(text: str, one: str, other: str) -> str:
    """The text that most often stands between a turn and the next one."""
    parts = [part.split(other, 1)[0] for part in text.split(one)[1:] if other in part]
    found = Counter(parts).most_common(1)
    return found[0][0] if found else ""
