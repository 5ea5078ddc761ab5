"""`TextGenerationPipeline`: transformers' pipeline("text-generation") over a model that a script trains.

pipe = rt.TextGenerationPipeline(model, tokenizer)
pipe("The capital of France is", max_new_tokens=20)[0]["generated_text"]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import GeneratorType
from typing import Any

import numpy as np

from ..facts.generation_settings import PIPELINE_SETTINGS, Settings, checkpoint_settings, is_older, settle
from .completions import mesh_of, sample

# What the pipeline of transformers samples with since 4.52, whatever the checkpoint says.
DEFAULTS: dict[str, Any] = {"max_new_tokens": 256, "do_sample": True, "temperature": 0.7}
HAS_DEFAULTS = (4, 52, 0)
CUTS_PROMPTS = (4, 37, 0)  # since then a call's max_length is the tokenizer's, too
KEEPS_TOKENIZING = (4, 41, 0)  # before, a call forgot what the pipeline was to tokenise with
MARKS_START = (4, 43, 0)  # since then a text gets the tokenizer's special tokens, such as its start token
ENDS_AT_EACH = (4, 48, 0)  # since then each token of stop_sequence ends a completion; before, its first one alone
GOES_ON = (4, 45, 0)  # since then an assistant's last message is continued unless the call says otherwise
CLEANS = (5, 7, 0)  # since then clean_up_tokenization_spaces changes no text of a BPE tokenizer
DECODES_ALONE = (5, 9, 0)  # since then a completion is decoded without its prompt
TOKENIZING = ("add_special_tokens", "padding", "truncation")


class TextGenerationPipeline:
    """Continues texts and chats: the prompts, the defaults and the records of transformers 5.12.

    A text or a chat (messages with role and content) gives a list of records, `{"generated_text": ...}`, one for each
    of `num_return_sequences`; a list of them gives a list of such lists. The generated text is the prompt with its
    continuation, of a chat the messages with the assistant's; `return_full_text=False` leaves the prompt out, and
    `return_tensors=True` gives `{"generated_token_ids": ...}`. `settings`, here and at a call, are the pipeline's own
    and those of `rt.generate`; without any, 256 tokens are sampled at a temperature of 0.7. A `streamer` gets each
    prompt and its tokens when they are all there.

    `tokenizer` may be a name or a folder, from which it is loaded.
    `transformers`: the release whose defaults and text hold, the newest where it is None. Before 4.52 the checkpoint's
    generation_config.json decided, without one greedy decoding to 20 tokens. Before 5.9 prompt and completion were
    decoded in one, and as many characters cut off as the prompt's text has: the space with which a completion of
    SentencePiece's tokens begins (Llama 2, Mistral) stayed. Before 5.7 spaces in front of punctuation went
    (`clean_up_tokenization_spaces`) whatever the tokenizer. Before 4.43 a text was tokenised without special tokens: no
    start token stood in front of it unless `add_special_tokens=True` asked for one, from 4.41 on also once for all.
    """

    def __init__(self, model: Any, tokenizer: Any, *, transformers: str | None = None, **settings: Any) -> None:
        if isinstance(tokenizer, str | PathLike):
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(tokenizer)
        self.model, self.tokenizer, self._transformers = model, tokenizer, transformers
        self._streamer = settings.pop("streamer", None)
        if tokenizer.padding_side == "right":
            tokenizer.padding_side = "left"  # as transformers does for a decoder
        self._own, self._given = _parted(settings)
        if is_older(transformers, GOES_ON):
            self._own = {"continue_final_message": False, **self._own}
        lengths = {**checkpoint_settings(getattr(model, "unmerged", model)), **self._given}
        self._base = {} if is_older(transformers, HAS_DEFAULTS) else dict(DEFAULTS)
        if self._base and lengths.get("max_length") not in (None, 20):
            self._base["max_new_tokens"] = None

    def __call__(self, text_inputs: Any, **settings: Any) -> Any:
        """Records for a text or a chat; for a list (or an iterator) of them a list of such lists."""
        streamer = settings.pop("streamer", self._streamer)
        called, given = _parted(settings)
        own, given = {**self._own, **called}, {**self._given, **given}
        if own.get("stop_sequence") is not None:
            stops = self.tokenizer.encode(own["stop_sequence"], add_special_tokens=False)
            given["eos_token_id"] = stops[0] if is_older(self._transformers, ENDS_AT_EACH) else stops
        config = given.pop("generation_config", None)
        tokenizing = self._tokenizing(settings if is_older(self._transformers, KEEPS_TOKENIZING) else {**own, **given})
        if isinstance(text_inputs, GeneratorType):
            text_inputs = list(text_inputs)
        single = isinstance(text_inputs, str) or _is_chat(text_inputs)
        prompts = [text_inputs] if single else list(text_inputs)
        model = getattr(self.model, "unmerged", self.model)
        base = {} if config is not None else self._base
        asked = settle(model, self.tokenizer, config, given, base, self._transformers)
        found = list(self._records(model, prompts, asked, own, tokenizing, streamer))
        return found[0] if single else found

    def _tokenizing(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """What a text is tokenised with where the settings `said` hold."""
        cuts = () if is_older(self._transformers, CUTS_PROMPTS) else ("max_length",)
        found = {name: said[name] for name in (*TOKENIZING, *cuts) if said.get(name) is not None}
        return {"add_special_tokens": False, **found} if is_older(self._transformers, MARKS_START) else found

    def _records(
        self,
        model: Any,
        prompts: Sequence[Any],
        asked: Settings,
        own: Mapping[str, Any],
        tokenizing: Mapping[str, Any],
        streamer: Any,
    ) -> Iterator[list[dict[str, Any]]]:
        """The records of each prompt, in turn."""
        encoded = [self._encode(prompt, own, tokenizing) for prompt in prompts]
        counts = asked.repetition_penalty != 1.0 or asked.no_repeat_ngram_size > 0  # padding, too
        alone = asked.lengths["max_new_tokens"] is None or counts
        size = 1 if alone else max(own.get("batch_size") or 1, int(dict(mesh_of(model).shape).get("fsdp", 1)))
        for first in range(0, len(prompts), size):
            some = encoded[first : first + size]
            width = max(map(len, some))
            ids = np.full((len(some), width), asked.pad, np.int64)
            real = np.zeros((len(some), width), np.int64)
            for place, tokens in enumerate(some):
                ids[place, width - len(tokens) :], real[place, width - len(tokens) :] = tokens, 1
            rows = sample(model, ids, real, asked, streamer)[:, width:].reshape(
                len(some), asked.num_return_sequences, -1
            )
            for prompt, tokens, completions in zip(prompts[first : first + size], some, rows, strict=True):
                longest = max(_length(row, asked.ends) for row in completions)
                yield [self._record(prompt, tokens, row[:longest].tolist(), own) for row in completions]

    def _encode(self, prompt: Any, own: Mapping[str, Any], tokenizing: Mapping[str, Any]) -> list[int]:
        """A prompt's token ids: a text's, or those of a chat with the generation prompt."""
        given = {**tokenizing, **(own.get("tokenizer_encode_kwargs") or {})}
        if not isinstance(prompt, str):
            given.pop("add_special_tokens", None)
            goes_on = _goes_on(prompt, own)
            encoded = self.tokenizer.apply_chat_template(
                list(prompt),
                add_generation_prompt=not goes_on,
                continue_final_message=goes_on,
                return_dict=True,
                tools=own.get("tools"),
                documents=own.get("documents"),
                **given,
            )
        else:
            encoded = self.tokenizer((own.get("prefix") or "") + prompt, **given)
        ids = list(encoded["input_ids"])
        if not ids:
            raise ValueError("a prompt has no token")
        return ids

    def _record(self, prompt: Any, tokens: list[int], completion: list[int], own: Mapping[str, Any]) -> dict[str, Any]:
        if own.get("return_tensors"):
            return {"generated_token_ids": tokens + completion}
        if is_older(self._transformers, DECODES_ALONE):
            text = self._text(tokens + completion, own)[len(self._text(tokens, own)) :]
        else:
            text = self._text(completion, own)
        if own.get("return_full_text") is False:
            return {"generated_text": text}
        if isinstance(prompt, str):
            return {"generated_text": prompt + text}
        messages = list(prompt)
        if _goes_on(prompt, own):
            last = {"role": messages[-1]["role"], "content": messages[-1]["content"] + text}
            return {"generated_text": [*messages[:-1], last]}
        return {"generated_text": [*messages, {"role": "assistant", "content": text}]}

    def _text(self, tokens: list[int], own: Mapping[str, Any]) -> str:
        """The text of tokens as the release decodes it."""
        skips, cleans = own.get("skip_special_tokens"), own.get("clean_up_tokenization_spaces")
        skips, cleans = skips is None or skips, cleans is None or cleans
        own_cleaning = is_older(self._transformers, CLEANS)
        text = self.tokenizer.decode(
            tokens, skip_special_tokens=skips, clean_up_tokenization_spaces=cleans and not own_cleaning
        )
        return str(self.tokenizer.clean_up_tokenization(text) if cleans and own_cleaning else text)


def _parted(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pipeline's own settings, and those of generate."""
    if settings.get("handle_long_generation") is not None:
        raise ValueError("handle_long_generation: prompts are taken whole; cut them with truncation and max_length")
    rest = {
        name: value for name, value in settings.items() if name not in (*PIPELINE_SETTINGS, "handle_long_generation")
    }
    return {name: settings[name] for name in PIPELINE_SETTINGS if name in settings}, rest


def _is_chat(given: Any) -> bool:
    """Whether this is one conversation: messages that each have a role and a content."""
    listed = isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 0
    return listed and all(isinstance(row, Mapping) and {"role", "content"} <= set(row) for row in given)


def _goes_on(chat: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> bool:
    """Whether the last message is continued, by default the assistant's, rather than answered."""
    asked = own.get("continue_final_message")
    return bool(chat[-1]["role"] == "assistant" if asked is None else asked)


def _length(row: np.ndarray, ends: Iterable[int]) -> int:
    """How many of a row's tokens belong to its completion, the end token included."""
    found = np.flatnonzero(np.isin(row, list(ends)))
    return int(found[0]) + 1 if len(found) else len(row)
