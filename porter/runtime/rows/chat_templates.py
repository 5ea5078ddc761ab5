"""Which tokens of a rendered conversation the assistant wrote.

A chat template with `{% generation %}` marks them itself. For templates without, TRL keeps a marked copy of each that
it knows; here a row of `KNOWN` says which text opens and closes an assistant turn, and the spans are
found in what the model's own template renders. A template is known by its SHA-256, as TRL knows it
by equality: for another one TRL refuses, and so does this module.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Turns:
    """How a chat template renders an assistant turn.

    `opening` is the part of the header that the model doesn't write, `closing` ends the turn and is trained, `start` is
    what every turn starts with. `edits` are replacements that TRL's training copy makes in what is
    rendered, as (piece of the template, piece instead).
    """

    name: str
    sha256: str
    start: str
    opening: str
    closing: str
    edits: tuple[tuple[str, str], ...] = ()


_CHATML = ("<|im_start|>", "<|im_start|>assistant\n", "<|im_end|>\n")
_GEMMA = ("<start_of_turn>", "<start_of_turn>model\n", "<end_of_turn>\n")
_LLAMA3 = ("<|start_header_id|>", "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>")

KNOWN = (
    Turns("gemma", "ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6", *_GEMMA),
    Turns("gemma3", "7de1c58e208eda46e9c7f86397df37ec49883aeece39fb961e0a6b24088dd3c4", *_GEMMA),
    Turns("llama3", "ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122", *_LLAMA3),
    # TRL counts the line break after Qwen2.5's header as written by the assistant
    Turns(
        "qwen2_5",
        "cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f",
        "<|im_start|>",
        "<|im_start|>assistant",
        "<|im_end|>\n",
    ),
    # TRL renders the thinking block in every assistant turn, not only after the last question
    Turns(
        "qwen3",
        "a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8",
        *_CHATML,
        edits=(
            ("loop.index0 > ns.last_query_index", "true"),
            ("loop.last or (not loop.last and reasoning_content)", "true"),
        ),
    ),
    Turns("qwen3_instruct_2507", "64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326", *_CHATML),
)


def default_template(tokenizer: Any) -> str:
    """The tokenizer's chat template; of several named ones, the default. ValueError when there is none."""
    template = tokenizer.chat_template
    if isinstance(template, Mapping):
        template = template.get("default")
    if not template:
        raise ValueError(
            "the dataset holds conversations, but the tokenizer has no chat template: set tokenizer.chat_template or "
            "pass chat_template_path"
        )
    return template


def has_generation_markers(template: str) -> bool:
    """Whether the template itself marks what the assistant wrote (`{% generation %}`)."""
    return re.search(r"\{%-?\s*generation\s*-?%\}", template) is not None


def assistant_turns(tokenizer: Any) -> Turns | None:
    """The assistant turns of this tokenizer's template; None when the template marks them itself.

    ValueError for a template that is neither marked nor known.
    """
    template = default_template(tokenizer)
    if has_generation_markers(template):
        return None
    digest = hashlib.sha256(template.encode()).hexdigest()
    for turns in KNOWN:
        if turns.sha256 == digest:
            return turns
    raise ValueError(
        "assistant_only_loss=True needs to know which tokens the assistant wrote, and this tokenizer's chat template "
        "doesn't mark them ({% generation %} ... {% endgeneration %}) and is none of "
        f"{', '.join(turns.name for turns in KNOWN)}, unchanged. TRL refuses it too. Put the markers around the "
        "assistant's part of the template, or train on the whole conversation with assistant_only_loss=False"
    )


def training_template(tokenizer: Any, turns: Turns) -> str:
    """The tokenizer's template with the edits that TRL makes for training."""
    template = default_template(tokenizer)
    for piece, instead in turns.edits:
        if piece not in template:
            raise ValueError(f"the {turns.name} chat template has no {piece!r}")
        template = template.replace(piece, instead)
    return template


def assistant_spans(text: str, turns: Turns, count: int) -> list[tuple[int, int]]:
    """Character spans of the `count` assistant turns in a rendered conversation, closing included.

    ValueError when the turns can't be told apart, because a message contains the template's own markers.
    """
    spans: list[tuple[int, int]] = []
    at = text.find(turns.opening)
    while at >= 0:
        begin = at + len(turns.opening)
        close = text.find(turns.closing, begin)
        end = close + len(turns.closing)
        if close < 0 or not (end == len(text) or text.startswith(turns.start, end)):
            break
        spans.append((begin, end))
        at = text.find(turns.opening, end)
    if at >= 0 or len(spans) != count:
        raise ValueError(
            f"found {len(spans)} assistant turns in a conversation of {count}: a message contains "
            f"{turns.start!r} or {turns.closing!r} itself. Clean that row; it starts {text[:80]!r}"
        )
    return spans


def tokenize_with_mask(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], turns: Turns | None, **template_arguments: Any
) -> tuple[list[int], list[int]]:
    """Token ids of a conversation, and 1 for each that the assistant wrote.

    Spans become tokens as in transformers' `apply_chat_template(return_assistant_tokens_mask=True)`, with its rule
    for a span whose last character belongs to no token.
    """
    if turns is None:
        marked = tokenizer.apply_chat_template(
            messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True, **template_arguments
        )
        return list(marked["input_ids"]), list(marked["assistant_masks"])
    text = tokenizer.apply_chat_template(messages, tokenize=False, **template_arguments)
    encoded = tokenizer(text, add_special_tokens=False)
    ids = list(encoded["input_ids"])
    mask = [0] * len(ids)
    written = sum(message["role"] == "assistant" for message in messages)
    for begin, end in assistant_spans(text, turns, written):
        first, last = encoded.char_to_token(0, begin), encoded.char_to_token(0, end - 1)
        if first is None:
            break
        stop = last + 1 if last else len(ids)
        mask[first:stop] = [1] * (stop - first)
    return ids, mask
