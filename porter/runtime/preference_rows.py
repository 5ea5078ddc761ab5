"""TRL's preparation of preference data: from prompts, chosen and rejected answers to token ids and labels.

Follows DPOTrainer and KTOTrainer of TRL 1.16, or of an older release (see `older_preferences`), and its experimental
ORPOTrainer and CPOTrainer, which tokenise in a way of their own. A row becomes one or two documents: chosen and
rejected, or a completion and the mismatched one that KTO's KL term is estimated from.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from . import chat_templates, releases
from .older_preferences import LENGTH, PROMPT_LENGTH, ApartTokens, JoinedTokens
from .packing import MAP_BATCH, map_batches
from .releases import Release
from .rows import is_stream
from .tokenization import IGNORED, first_row, is_conversational

TRUNCATIONS = ("keep_start", "keep_end")
# Part of what `datasets` caches by: it sees the class by its name only, and would reuse what older code tokenised
_CODE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
_IDS = datasets.List(datasets.Value("int32"))
_FEATURES = {
    "first": _IDS,
    "second": _IDS,
    "first_start": datasets.Value("int32"),
    "second_start": datasets.Value("int32"),
}


@dataclass(frozen=True)
class Documents:
    """Tokenised rows of a run.

    `ids` and `labels`: for every row its documents' token ids and labels (-100 = prompt), int32 each. `desirable`: bool
    (rows,), KTO's label; all true for pairs.
    """

    ids: list[tuple[np.ndarray, ...]]
    labels: list[tuple[np.ndarray, ...]]
    desirable: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def longest(self) -> int:
        """Tokens of the longest document."""
        return max(len(ids) for row in self.ids for ids in row)


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
        start = min(_shared(prompt, chosen), _shared(prompt, rejected)) if self.common else len(prompt)
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
        start = _shared(prompt, whole) if self.common else len(prompt)
        return {"first": whole, "second": [], "first_start": start, "second_start": 0}


@dataclass(frozen=True)
class TextPairTokens:
    """How ORPOTrainer and CPOTrainer tokenise a row: the chat template's text, then BOS, prompt, answer and EOS.

    Only the answer is cut to `max_length`.
    """

    tokenizer: Any
    max_length: int
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
        found: dict[str, Any] = {}
        for name, (prompt, answer) in zip(("first", "second"), parts, strict=True):
            prompt, answer = self._with_special_tokens(prompt, answer)
            if len(prompt) + len(answer) > self.max_length:
                answer = answer[: max(0, self.max_length - len(prompt))]
            if not answer:
                raise ValueError(
                    f"a prompt of {len(prompt)} tokens leaves nothing of the answer within max_length="
                    f"{self.max_length}, so that TRL's loss is not a number: raise max_length or drop such rows"
                )
            found |= {name: prompt + answer, f"{name}_start": len(prompt)}
        return found

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
    if not any(_is_messages(example.get(key)) for key in ("prompt", *answers)):
        return example
    beside = {"completion", "messages", "label"} & set(example) if "chosen" in answers else set()
    if beside:
        raise ValueError(f"TRL's chat template takes prompt, chosen and rejected alone: remove {_list(beside)} first")
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
        prompt = prompt[: _shared(prompt, whole)]
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


def pairs(
    dataset: Any,
    tokenizer: Any,
    *,
    max_length: int | None,
    truncation_mode: str,
    max_prompt_length: int | None = None,
    max_completion_length: int | None = None,
    release: Release | None = None,
) -> Documents:
    """Chosen and rejected of every row as DPOTrainer feeds them, cut to `max_length`.

    With "keep_start" rows whose prompt alone fills `max_length` are dropped, from TRL 0.29 on. `max_prompt_length` (its
    end is kept) and `max_completion_length` are those of TRL before 0.29.
    """
    release = release or releases.release(None)
    first = _first(dataset)
    _need(first, "chosen", "rejected")
    if truncation_mode not in TRUNCATIONS:
        raise ValueError(f"truncation_mode={truncation_mode!r}: expected one of {', '.join(map(repr, TRUNCATIONS))}")
    implicit = "prompt" not in first
    example = extract_prompt(first) if implicit else maybe_extract_prompt(first) if release.pairs_apart else first
    append_eos = not _checked_conversational(example, ("prompt", "chosen", "rejected"), tokenizer)
    older: ApartTokens | JoinedTokens | None = None
    if release.pairs_joined:
        lengths = max_length or LENGTH, max_prompt_length or PROMPT_LENGTH
        older = JoinedTokens(tokenizer, release, *lengths, truncation_mode)
        max_length = None  # cut already, the prompt first
    elif release.pairs_apart:
        older = ApartTokens(tokenizer, max_prompt_length, max_completion_length, append_eos or release.ends_chat_pairs)
        truncation_mode = "keep_start" if release.cuts_pairs_start else truncation_mode
    if older is not None:
        tokens = OlderTokens(tokenizer, older, ("chosen", "rejected"), chats=release.pairs_apart)
        return _documents(_tokenised(dataset, tokens), _kept(max_length, truncation_mode), two=True)
    common = release.masks_common_prefix
    made = PairTokens(tokenizer, implicit, append_eos, max_prompt_length, max_completion_length, common)
    rows = _tokenised(dataset, made)
    if max_length is not None and truncation_mode == "keep_start":
        rows = [row for row in rows if row["first_start"] < max_length]
    return _documents(rows, _kept(max_length, truncation_mode), two=True)


def _kept(max_length: int | None, truncation_mode: str) -> slice:
    if max_length is None:
        return slice(None)
    return slice(None, max_length) if truncation_mode == "keep_start" else slice(-max_length, None)


def text_pairs(
    dataset: Any,
    tokenizer: Any,
    *,
    max_length: int | None,
    max_prompt_length: int | None = None,
    truncation_mode: str = "keep_end",
    release: Release | None = None,
) -> Documents:
    """Chosen and rejected of every row as ORPOTrainer and CPOTrainer feed them; `max_length` None is 512 there.

    `max_prompt_length` (None is 128) and `truncation_mode` are those of TRL before 0.28, which cut the prompt first.
    """
    release = release or releases.release(None)
    first = _first(dataset)
    _need(first, "chosen", "rejected")
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer has no end-of-sequence token to end each answer with: set tokenizer.eos_token")
    if is_pair_conversational(maybe_extract_prompt(first)):
        chat_templates.default_template(tokenizer)
    tokens: Any = TextPairTokens(tokenizer, max_length or LENGTH)
    if release.cuts_text_prompts:
        lengths = max_length or LENGTH, max_prompt_length or PROMPT_LENGTH
        joined = JoinedTokens(tokenizer, release, *lengths, truncation_mode)
        tokens = OlderTokens(tokenizer, joined, ("chosen", "rejected"), chats=release.since(0, 12), whole=True)
    return _documents(_tokenised(dataset, tokens), slice(None), two=True)


def completions(
    dataset: Any,
    tokenizer: Any,
    *,
    max_length: int | None,
    rotate: int | None,
    num_proc: int | None,
    max_prompt_length: int | None = None,
    truncation_mode: str = "keep_end",
    release: Release | None = None,
) -> Documents:
    """Completions and their labels as KTOTrainer feeds them; pairs become two rows.

    `rotate`: rows (per_device_train_batch_size) within which the completions move on by one, to be the second document
    of each row; None gives rows of one document. `max_prompt_length` and `truncation_mode` are those of TRL before 1.3.
    """
    release = release or releases.release(None)
    first = _first(dataset)
    if not isinstance(dataset, datasets.Dataset):
        dataset = datasets.Dataset.from_list(list(dataset))
    if "chosen" in first and "rejected" in first:
        dataset = _unpaired(dataset, "prompt" not in first, num_proc)
        first = _first(dataset)
    _need(first, "prompt", "completion", "label")
    append_eos = not _checked_conversational(first, ("prompt", "completion"), tokenizer)
    desirable = np.asarray(dataset["label"], bool)
    older = None
    if release.completions_joined:
        lengths = max_length or LENGTH, None if release.since(0, 29) else max_prompt_length or PROMPT_LENGTH
        older = JoinedTokens(tokenizer, release, *lengths, truncation_mode)
        tokens: Any = OlderTokens(tokenizer, older, ("completion",), chats=release.since(0, 12))
        max_length = None  # cut when the start and end tokens are known
    else:
        tokens = CompletionTokens(tokenizer, append_eos, release.masks_common_prefix)
    rows = _tokenised(dataset, tokens)
    if max_length is not None:
        fits = [row["first_start"] < max_length for row in rows]
        rows, desirable = [row for row, fit in zip(rows, fits, strict=True) if fit], desirable[np.asarray(fits, bool)]
    if rotate is not None:
        for chunk in map_batches(len(rows), rotate, num_proc):
            answers = [rows[i]["first"][rows[i]["first_start"] :] for i in chunk]
            for place, i in enumerate(chunk):
                start = rows[i]["first_start"]
                rows[i] |= {"second": [*rows[i]["first"][:start], *answers[place - 1]], "second_start": start}
    if older is not None:
        for row in rows:
            for name in ("first", "second")[: 1 if rotate is None else 2]:
                start = row[f"{name}_start"]
                row[name], row[f"{name}_start"] = older.ended(row[name][:start], row[name][start:])
    return replace(_documents(rows, slice(None, max_length), two=rotate is not None), desirable=desirable)


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
    if "prompt" in row and _is_messages(row["prompt"]) == _is_messages(row["chosen"]):
        return dict(row)
    return extract_prompt(row)


def is_pair_conversational(example: Mapping[str, Any]) -> bool:
    """Whether prompt, chosen or rejected hold messages with roles."""
    return any(_is_messages(example.get(key)) for key in ("prompt", "chosen", "rejected"))


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


def _tokenised(dataset: Any, tokens: Any) -> list[dict[str, Any]]:
    if not isinstance(dataset, datasets.Dataset):
        dataset = datasets.Dataset.from_list(list(dataset))
    mapped = dataset.map(
        tokens, remove_columns=dataset.column_names, features=datasets.Features(_FEATURES), desc="Tokenizing"
    )
    return list(mapped)


def _documents(rows: list[dict[str, Any]], keep: slice, *, two: bool) -> Documents:
    if not rows:
        raise ValueError(
            "no row is left: every prompt alone fills max_length. Raise max_length, or shorten the prompts"
        )
    names = ("first", "second") if two else ("first",)
    ids, labels = [], []
    for row in rows:
        tokens = [np.asarray(row[name], np.int32) for name in names]
        starts = [row[f"{name}_start"] for name in names]
        wanted = [np.where(np.arange(len(t)) < start, IGNORED, t) for t, start in zip(tokens, starts, strict=True)]
        ids.append(tuple(t[keep] for t in tokens))
        labels.append(tuple(t[keep].astype(np.int32) for t in wanted))
    return Documents(ids, labels, np.ones(len(rows), bool))


def _unpaired(dataset: Any, implicit: bool, num_proc: int | None) -> Any:
    """Pairs as rows of their own: in each batch of `datasets.map` all chosen, then all rejected."""
    found = []
    for chunk in map_batches(len(dataset), MAP_BATCH, num_proc):
        rows = [extract_prompt(dataset[i]) if implicit else dict(dataset[i]) for i in chunk]
        for key, label in (("chosen", True), ("rejected", False)):
            rest = ({name: row[name] for name in row if name not in ("chosen", "rejected")} for row in rows)
            found += [{**kept, "completion": row[key], "label": label} for kept, row in zip(rest, rows, strict=True)]
    return datasets.Dataset.from_list(found)


def _first(dataset: Any) -> Mapping[str, Any]:
    if is_stream(dataset):
        raise ValueError("a streamed preference dataset can't be read: load it whole, without streaming=True")
    first = first_row(dataset)
    if "image" in first or "images" in first:
        raise ValueError("the dataset holds images; tpu-port trains language models on text only")
    return first


def _need(first: Mapping[str, Any], *columns: str) -> None:
    missing = [name for name in columns if name not in first]
    if missing:
        wanted = "'prompt', 'chosen' and 'rejected' (the prompt may be their common start)"
        if "completion" in columns:
            wanted = "'prompt', 'completion' and 'label', or 'prompt', 'chosen' and 'rejected'"
        raise ValueError(
            f"the dataset has no {_list(missing)} column; its columns are {_list(first)}, expected are {wanted}"
        )


def _checked_conversational(example: Mapping[str, Any], keys: Sequence[str], tokenizer: Any) -> bool:
    """Whether the row holds messages; ValueError when only some of its columns do, which TRL can't join."""
    forms = {key: _is_messages(example[key]) for key in keys}
    if any(forms.values()) and not all(forms[key] for key in keys if example[key]):
        said = ", ".join(f"{key!r} holds {'messages' if form else 'text'}" for key, form in forms.items())
        raise ValueError(
            f"{said}: TRL needs all of them in one form. Remove the prompt column if the answers repeat it"
        )
    conversational = any(forms.values())
    if conversational:
        chat_templates.default_template(tokenizer)
    elif tokenizer.eos_token is None:
        raise ValueError("the tokenizer has no end-of-sequence token to end each answer with: set tokenizer.eos_token")
    return conversational


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "role" in value[0]


def _ended(text: str, eos: str) -> str:
    return text if text.endswith(eos) else text + eos


def _shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many items both start with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _list(names: Any) -> str:
    return ", ".join(map(repr, names)) or "none"
