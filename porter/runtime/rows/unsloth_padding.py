"""The padding token that Unsloth gives a tokenizer as it loads one: where it has none, or pads with its end token.

A trainer before TRL 0.16.1 trains nothing at padding tokens, so that a model padded with its end token never learns to
stop; Unsloth's loads therefore take another token. Which one follows `patch_tokenizer` of unsloth_zoo, and its
`fix_pad_token` since 2026.7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..facts.field_tables import version_key
from ..models.vocabulary import check_vocabulary

CLOSED = (">", "]", ")")
VISION = ("<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
# Release → the beginnings of tokens that it looks for among those added to the vocabulary, in this order.
BEGINNINGS: tuple[tuple[tuple[int, ...], tuple[str, ...]], ...] = (
    (
        (2026, 7),
        (
            *("<|finetune_right_pad_id|>", "<|finetune_right_pad|>", "<pad>", "[PAD]", "<PAD>", "<|endoftext|>"),
            *("<fim_pad>", "<｜▁pad▁｜>", "[MASK]", "<|reserved", "<|placeholder", "<|dummy_", "[control"),
            *("|<EXTRA_TOKENS_", "<SPECIAL_", "<unused", "<|EOT|>", "<|reject-unknown|>", *VISION),
        ),
    ),
    (
        (2024, 11, 8),
        (
            *("<|finetune_right_pad_id|>", "<pad>", *VISION, "<|reserved", "<|placeholder", "[control"),
            *("|<EXTRA_TOKENS_", "<SPECIAL_", "<unused"),
        ),
    ),
    ((), ("<|finetune_right_pad_id|>", "<pad>", "<|reserved", "<|placeholder", "[control")),
)
COUNTS_THREE = (2024, 9)  # before, the token added last of all those, if there are three
LEAVES_VISION = (2026, 3)  # to 2026.6: no token for images pads a text
HEALS = (2026, 7)  # no end token is taken
GENERATES = (2024, 9)  # generation_config.json is told, too


def pad_as_unsloth(tokenizer: Any, model: Any, release: str) -> Any:
    """The tokenizer, with the padding token that `release` ("2025.3.19") of Unsloth gives it, in place.

    One that pads with a token of its own stays as it is. The model's settings get the token, too, where it is new or
    they have none: they are saved with it. ValueError where none of its tokens will do and the model's embedding has
    no row for a new one: Unsloth's own run ends there, at the first padding or at once.
    """
    version = version_key(release)
    changed = _give_padding(tokenizer, model, version)
    if changed or model.porter.config.get("pad_token_id") is None:
        _declare(model, tokenizer.pad_token_id, in_generation=version >= GENERATES)
    return tokenizer


def _declare(model: Any, number: int, *, in_generation: bool) -> None:
    """Tell the model's own settings of the token."""
    info, told = model.porter, {"pad_token_id": number}
    generation = {**json.loads(info.generation_json), **(told if in_generation else {})}
    held = json.dumps({**info.config, **told})
    model.porter = replace(info, config_json=held, generation_json=json.dumps(generation))


def _give_padding(tokenizer: Any, model: Any, version: tuple[int, ...]) -> bool:
    """Give the tokenizer another padding token where it has none of its own; whether it got one."""
    rows = check_vocabulary(model)
    vision = VISION if LEAVES_VISION <= version < HEALS else ()
    outside = version >= HEALS and tokenizer.pad_token is not None and tokenizer.pad_token_id >= rows
    if tokenizer.pad_token not in (None, tokenizer.eos_token, *vision) and not outside:
        return False
    added = [str(token) for _, token in sorted(tokenizer.added_tokens_decoder.items(), reverse=True)]
    beginnings = [each for each in next(names for since, names in BEGINNINGS if version >= since) if each not in vision]
    if version >= HEALS:
        config = {**model.porter.config.get("text_config", {}), **model.porter.config}
        ends = {tokenizer.eos_token_id, *_several(config.get("eos_token_id"))}
        declared = tokenizer.convert_ids_to_tokens(config["pad_token_id"]) if _is_row(config, rows) else None
        candidates = [*_by_beginning(added, beginnings), tokenizer.unk_token, declared]
        candidates = [each for each in candidates if each and tokenizer.convert_tokens_to_ids(each) not in ends]
    else:
        choice = _last_of_three if version < COUNTS_THREE else _whole_or_last
        candidates = [choice(added, beginnings) or tokenizer.unk_token]
    found = next((each for each in candidates if each and _is_single(tokenizer, each, rows)), None)
    tokenizer.add_special_tokens({"pad_token": found or _new_name(tokenizer, rows, version)})
    return True


def _several(ids: Any) -> list[Any]:
    return ids if isinstance(ids, list) else [ids]


def _is_row(config: Mapping[str, Any], rows: int) -> bool:
    declared = config.get("pad_token_id")
    return isinstance(declared, int) and 0 <= declared < rows


def _is_single(tokenizer: Any, token: str, rows: int) -> bool:
    """Whether a text is one token that the embedding has a row for."""
    ids = tokenizer(token, add_special_tokens=False)["input_ids"]
    return len(ids) == 1 and ids[0] < rows


def _last_of_three(added: Sequence[str], beginnings: Sequence[str]) -> str | None:
    found = [token for token in added if token.startswith(tuple(beginnings))]
    return found[0] if len(found) >= 3 else None


def _whole_or_last(added: Sequence[str], beginnings: Sequence[str]) -> str | None:
    """The first that is a whole token's name; of those that only begin one, the last in the list."""
    found = None
    for beginning in beginnings:
        token = next((each[each.index(beginning) :] for each in added if beginning in each), None)
        if token is not None and beginning.endswith(CLOSED):
            return token
        found = found if token is None else token
    return found


def _by_beginning(added: Sequence[str], beginnings: Sequence[str]) -> list[str]:
    """The tokens in the list's order, closed ones first of each beginning; then those that are called padding."""
    found: list[str] = []
    for beginning in beginnings:
        matching = [each for each in added if each.startswith(beginning)]
        found += sorted(matching, key=lambda each: not each.endswith(CLOSED))
    named = [each for each in added if "pad" in each.lower() and each[0] in "<[" and each.endswith(CLOSED)]
    return found + named


def _new_name(tokenizer: Any, rows: int, version: tuple[int, ...]) -> str:
    if len(tokenizer) >= rows:
        raise ValueError(
            "the tokenizer has no token that Unsloth would pad with, and the model's embedding no row for a new one: "
            "set tokenizer.pad_token in place of rt.pad_as_unsloth"
        )
    name = "<｜PAD▁TOKEN｜>" if version >= HEALS else "<|PAD_TOKEN|>"
    while name in tokenizer.get_vocab():
        name = f"<{name}>"
    return name
