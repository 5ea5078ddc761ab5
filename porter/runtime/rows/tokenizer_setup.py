"""The tokens and the chat template that a trainer gives its tokenizer, in place; the special tokens that one has."""

from __future__ import annotations

import os
from typing import Any

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
ADDITIONAL = "additional_special_tokens"


def set_up_tokenizer(
    tokenizer: Any,
    *,
    chat_template_path: str | None = None,
    eos_token: str | None = None,
    pad_token: str | None = None,
    gives_padding: str = "asked",
    takes_unknown: bool = False,
) -> int:
    """Give the tokenizer the source's tokens and chat template, in place, as SFTTrainer does; the padding token's id.

    `gives_padding`: which padding token the trainer of the source's release gives the tokenizer itself, which is saved
    with it: the one `asked` for, or the end token where it has none; that alone (`missing`); or `none`, where only
    the batches are padded with it.
    `takes_unknown`: a padding token outside the vocabulary is what the tokenizer makes of it, the unknown one, as
    before TRL 1.1.
    ValueError for tokens outside the vocabulary else, and for a template whose tokens would need larger embeddings.
    """
    vocabulary = tokenizer.get_vocab()
    if eos_token is not None:
        if eos_token not in vocabulary:
            raise ValueError(f"eos_token={eos_token!r} is not in the tokenizer's vocabulary")
        tokenizer.eos_token = eos_token
    if chat_template_path is not None:
        _clone_template(tokenizer, chat_template_path)
    if gives_padding == "missing" and tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    padding = pad_token or tokenizer.pad_token or tokenizer.eos_token
    found = tokenizer.convert_tokens_to_ids(padding)
    if found is None or (padding not in vocabulary and not takes_unknown):
        raise ValueError(f"pad_token={padding!r} is not in the tokenizer's vocabulary: pass pad_token")
    if gives_padding == "asked":
        tokenizer.pad_token = padding
    return int(found)


def _clone_template(tokenizer: Any, path: str) -> None:
    if os.path.isfile(path) and path.endswith((".jinja", ".j2")):
        with open(path, encoding="utf-8") as file:
            tokenizer.chat_template = file.read()
        return
    from transformers import AutoTokenizer

    donor = AutoTokenizer.from_pretrained(path)
    vocabulary = tokenizer.get_vocab()
    missing = [token.content for token in donor.added_tokens_decoder.values() if token.content not in vocabulary]
    if missing:
        raise ValueError(
            f"chat_template_path={path!r} brings tokens that the model has no embedding for "
            f"({', '.join(missing[:5])}): TRL would add them and resize the model, which the port can't"
        )
    tokenizer.chat_template = donor.get_chat_template()
    tokenizer.eos_token = donor.eos_token


def special_tokens_map(tokenizer: Any) -> dict[str, str | list[str]]:
    """The tokenizer's special tokens by their names, as transformers 4 gives them: with its further ones as
    `additional_special_tokens`, if there are any, behind those that all tokenizers may have.
    """
    tokens = {name: token for name, token in tokenizer.special_tokens_map.items() if token}
    further = [str(token) for token in tokenizer.extra_special_tokens]
    found: dict[str, str | list[str]] = {name: tokens.pop(name) for name in NAMED if name in tokens}
    return found | ({ADDITIONAL: further} if further else {}) | tokens
