"""How a preference trainer of TRL tokenises one row: prompt and answers as token ids, and where the answers start.

Follows DPOTrainer and KTOTrainer of TRL 1.16, or of an older release (see `older_preferences`), and its experimental
ORPOTrainer and CPOTrainer, which tokenise in a way of their own. What becomes of the rows is in `preference_rows`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..rows.tokenization import columns, common_prefix, is_conversational
from .older_preferences import ApartTokens, JoinedTokens

# Part of what `datasets` caches by: it sees the class by its name only, and would reuse what older code tokenised
_CODE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


@dataclass(frozen=True)
class PairTokens:
    """How DPOTrainer tokenises a row: prompt and answer together, apart where the tokens of both answers part."""

    tokenizer: Any
    implicit: bool
    append_eos: bool
    max_prompt_length: int | None = None
    max_completion_length: int | None = None
    common: bool = True  # before TRL 1.14.2 the answer began where the prompt alone ended
    code: str = _CODE

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Token ids of prompt + chosen and prompt + rejected, and where the answers start."""
        example = extract_prompt(row) if self.implicit else dict(row)
        if self.append_eos:
            example |= {key: _ended(example[key], self.tokenizer.eos_token) for key in ("chosen", "rejected")}
        prompt, (chosen, rejected) = _together(self.tokenizer, example, ("chosen", "rejected"))
        start = min(common_prefix(prompt, chosen), common_prefix(prompt, rejected)) if self.common else len(prompt)
        prompt = prompt[max(0, start - (self.max_prompt_length or start)) : start]
        found: dict[str, Any] = {"first_start": len(prompt), "second_start": len(prompt)}
        for name, whole in (("first", chosen), ("second", rejected)):
            found[name] = [*prompt, *whole[start:][: self.max_completion_length]]
        return found


@dataclass(frozen=True)
class CompletionTokens:
    """How KTOTrainer tokenises a row: as DPOTrainer, with one completion and a label."""

    tokenizer: Any
    append_eos: bool
    common: bool = True
    code: str = _CODE

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Token ids of prompt + completion, and where the completion starts."""
        example = dict(row)
        if self.append_eos:
            example["completion"] = _ended(example["completion"], self.tokenizer.eos_token)
        prompt, (whole,) = _together(self.tokenizer, example, ("completion",))
        start = common_prefix(prompt, whole) if self.common else len(prompt)
        return {"first": whole, "second": [], "first_start": start, "second_start": 0}


@dataclass(frozen=True)
class TextPairTokens:
    """How ORPOTrainer and CPOTrainer tokenise a row: the chat template's text, then BOS, prompt, answer and EOS.

    Only the answer is cut, to what its prompt leaves of `max_length`. `by_longer`: TRL 0.28 to 1.14, which cut both
    answers to `max_length` less the longer one where that one doesn't fit behind the prompt.
    """

    tokenizer: Any
    max_length: int
    by_longer: bool = False
    code: str = _CODE

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Token ids of prompt + chosen and prompt + rejected, and where each answer starts."""
        example = as_text(self.tokenizer, maybe_extract_prompt(row))
        for key in ("prompt", "chosen", "rejected"):
            if not isinstance(example[key], str):
                raise ValueError(f"{key!r} should be text or messages, not {type(example[key]).__name__}")
        parts = [self._answer(example["prompt"], example[key]) for key in ("chosen", "rejected")]
        (chosen_prompt, _), (rejected_prompt, _) = parts
        differing = sum(a != b for a, b in zip(chosen_prompt, rejected_prompt, strict=False))
        if differing > 1 or abs(len(chosen_prompt) - len(rejected_prompt)) > 1:
            raise ValueError("the prompt's tokens before chosen and rejected may differ in the last one only")
        parts = [self._with_special_tokens(prompt, answer) for prompt, answer in parts]
        longer = max(len(answer) for _, answer in parts)
        found: dict[str, Any] = {}
        for name, (prompt, answer) in zip(("first", "second"), parts, strict=True):
            cut = self._cut(prompt, answer, longer)
            if not cut:
                raise ValueError(self._nothing_left(prompt, answer, longer))
            found |= {name: prompt + cut, f"{name}_start": len(prompt)}
        return found

    def _cut(self, prompt: list[int], answer: list[int], longer: int) -> list[int]:
        if len(prompt) + (longer if self.by_longer else len(answer)) <= self.max_length:
            return answer
        if self.by_longer:  # a negative end, too, where the longer answer alone is above max_length
            return answer[: self.max_length - longer]
        return answer[: max(0, self.max_length - len(prompt))]

    def _nothing_left(self, prompt: list[int], answer: list[int], longer: int) -> str:
        if self.by_longer:
            return (
                f"TRL 0.28 to 1.14 cut both answers to max_length={self.max_length} less the longer one's {longer} "
                f"tokens, which leaves nothing of one of {len(answer)}, so that their loss is not a number: raise "
                'max_length, drop such rows, or write trl="1.15.0", which cuts each to what its prompt leaves'
            )
        return (
            f"a prompt of {len(prompt)} tokens leaves nothing of the answer within max_length={self.max_length}, so "
            "that TRL's loss is not a number: raise max_length or drop such rows"
        )

    def _answer(self, prompt: str, answer: str) -> tuple[list[int], list[int]]:
        whole = self.tokenizer(prompt + answer, add_special_tokens=False)["input_ids"]
        alone = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        if len(alone) > len(whole):
            raise ValueError("prompt and answer have fewer tokens together than the prompt alone")
        start = len(alone)
        if alone != whole[:start]:  # the last token of the prompt merged with the answer's first
            start -= 1
        return whole[:start], whole[start:]

    def _with_special_tokens(self, prompt: list[int], answer: list[int]) -> tuple[list[int], list[int]]:
        bos, eos = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        if bos is not None and prompt[:1] != [bos]:
            prompt = [bos, *prompt]
        return prompt, answer if answer[-1:] == [eos] else [*answer, eos]


def as_text(
    tokenizer: Any, example: dict[str, Any], answers: tuple[str, ...] = ("chosen", "rejected")
) -> dict[str, Any]:
    """The row with its prompt and `answers` as the chat template's text, where they are messages."""
    if not any(is_messages(example.get(key)) for key in ("prompt", *answers)):
        return example
    beside = {"completion", "messages", "label"} & set(example) if "chosen" in answers else set()
    if beside:
        raise ValueError(f"TRL's chat template takes prompt, chosen and rejected alone: remove {columns(beside)} first")
    messages = example["prompt"]
    role = messages[-1]["role"]
    if role not in ("user", "tool", "assistant"):
        raise ValueError(f"the prompt's last message has the role {role!r}; expected user, tool or assistant")
    kwargs = example.get("chat_template_kwargs") or {}

    def render(turns: Any, **more: Any) -> str:
        return str(tokenizer.apply_chat_template(turns, tools=None, tokenize=False, **kwargs, **more))

    last = role == "assistant"
    prompt = render(messages, continue_final_message=last, add_generation_prompt=not last)
    wholes = {key: render(messages + example[key]) for key in answers}
    for whole in wholes.values():
        prompt = prompt[: common_prefix(prompt, whole)]
    return {"prompt": prompt, **{key: whole[len(prompt) :] for key, whole in wholes.items()}}


@dataclass(frozen=True)
class OlderTokens:
    """How DPOTrainer (`answers` chosen and rejected) or KTOTrainer (completion) of an older release tokenised a row.

    `whole`: ORPOTrainer and CPOTrainer, see `JoinedTokens.pair`.
    """

    tokenizer: Any
    tokens: ApartTokens | JoinedTokens
    answers: tuple[str, ...]
    chats: bool
    whole: bool = False
    code: str = _CODE

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Token ids of prompt and answers, and where these start."""
        example = maybe_extract_prompt(row) if "chosen" in self.answers else dict(row)
        example = as_text(self.tokenizer, example, self.answers) if self.chats else example
        if isinstance(self.tokens, ApartTokens):
            return self.tokens(example)
        if "chosen" not in self.answers:
            return self.tokens.completion(example)
        return self.tokens.pair(example, whole=self.whole)


def extract_prompt(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with what chosen and rejected start with as its prompt: characters of text, or whole messages."""
    chosen, rejected = row["chosen"], row["rejected"]
    at = 0
    for at in range(min(len(chosen), len(rejected))):
        if chosen[at] != rejected[at]:
            if chosen[at - 1] == " ":  # the space belongs to the answer
                at -= 1
            break
    return {**row, "prompt": chosen[:at], "chosen": chosen[at:], "rejected": rejected[at:]}


def maybe_extract_prompt(row: Mapping[str, Any]) -> dict[str, Any]:
    """`extract_prompt`, unless the row has a prompt of the same form (text or messages) as its answers."""
    if "prompt" in row and is_messages(row["prompt"]) == is_messages(row["chosen"]):
        return dict(row)
    return extract_prompt(row)


def is_pair_conversational(example: Mapping[str, Any]) -> bool:
    """Whether prompt, chosen or rejected hold messages with roles."""
    return any(is_messages(example.get(key)) for key in ("prompt", "chosen", "rejected"))


def _together(tokenizer: Any, example: Mapping[str, Any], answers: Sequence[str]) -> tuple[list[int], list[list[int]]]:
    """Token ids of the prompt alone, and of the prompt with each answer."""
    prompt = example["prompt"]
    if not (is_conversational(example) or is_pair_conversational(example)):
        ids = [tokenizer(text=text)["input_ids"] for text in (prompt, *(prompt + example[key] for key in answers))]
        return ids[0], ids[1:]
    tools = example.get("tools")
    tools = json.loads(tools) if isinstance(tools, str) else tools
    arguments = {"tools": tools, **(example.get("chat_template_kwargs") or {})}

    def render(messages: Any, **more: Any) -> list[int]:
        found = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **arguments, **more)
        return list(found["input_ids"])

    return render(prompt, add_generation_prompt=True), [render(prompt + example[key]) for key in answers]


def is_messages(value: Any) -> bool:
    """Whether a column's value is a list of messages with roles."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "role" in value[0]


def _ended(text: str, eos: str) -> str:
    return text if text.endswith(eos) else text + eos
