"""The padding token of a tokenizer that Unsloth loads.

Written apart from the port's `runtime.rows.unsloth_padding`, which it is to be compared with.
"""

from __future__ import annotations

import re
from typing import Any

from .....runtime.facts.field_tables import version_key

FIRST = "<|finetune_right_pad_id|> <pad>"
IMAGES = "<|vision_pad|> <|image_pad|> <|video_pad|>"
THEN = "<|reserved <|placeholder [control"
OPEN = "|<EXTRA_TOKENS_ <SPECIAL_ <unused"
SINCE_2026_7 = (
    "<|finetune_right_pad_id|> <|finetune_right_pad|> <pad> [PAD] <PAD> <|endoftext|> <fim_pad> <｜▁pad▁｜> [MASK] "
    f"<|reserved <|placeholder <|dummy_ [control {OPEN} <|EOT|> <|reject-unknown|> {IMAGES}"
)
PADDING = re.compile(r"[<\[].*pad.*[>\])]", re.IGNORECASE | re.DOTALL)


def set_padding(tokenizer: Any, model: Any, release: str) -> None:
    """Give the tokenizer that token where it has none, or one that ends texts too: such places train nothing."""
    day, rows = version_key(release), model.config.vocab_size
    pads, ends = tokenizer.pad_token, tokenizer.eos_token
    good = pads is not None and pads != ends
    if (2026, 3) <= day < (2026, 7) and pads in IMAGES.split():
        good = False
    if day >= (2026, 7) and good and tokenizer.pad_token_id >= rows:
        good = False
    if good:
        if model.config.pad_token_id is None:
            _declare(model, tokenizer.pad_token_id, day)
        return
    decoder = tokenizer.added_tokens_decoder
    tokens = [decoder[number].content for number in sorted(decoder)][::-1]
    chosen = _newer(tokenizer, tokens, model.config) if day >= (2026, 7) else _older(tokenizer, tokens, day, rows)
    if chosen is None:
        if len(tokenizer) >= rows:
            raise IndexError("Unsloth adds a padding token that the embedding has no row for")
        chosen = "<｜PAD▁TOKEN｜>" if day >= (2026, 7) else "<|PAD_TOKEN|>"
        while chosen in tokenizer.get_vocab():
            chosen = "<" + chosen + ">"
    tokenizer.add_special_tokens({"pad_token": chosen})
    _declare(model, tokenizer.pad_token_id, day)


def _declare(model: Any, number: int, day: tuple[int, ...]) -> None:
    """Tell the model's own settings of the token."""
    model.config.pad_token_id = number
    if day >= (2024, 9) and getattr(model, "generation_config", None) is not None:
        model.generation_config.pad_token_id = number


def _fits(tokenizer: Any, token: str, rows: int) -> bool:
    found = tokenizer.encode(token, add_special_tokens=False)
    return len(found) == 1 and found[0] < rows


def _older(tokenizer: Any, tokens: list[str], day: tuple[int, ...], rows: int) -> str | None:
    images = "" if day < (2024, 11, 8) or day >= (2026, 3) else IMAGES
    chosen: str | None = None
    if day < (2024, 9):
        beginnings = tuple(f"{FIRST} {THEN}".split())
        those = [token for token in tokens if token.startswith(beginnings)]
        chosen = those[0] if len(those) > 2 else None
    else:
        text = "\n".join(tokens) + "\n"
        for beginning in f"{FIRST} {images} {THEN} {OPEN if day >= (2024, 11, 8) else ''}".split():
            match = re.search(re.escape(beginning) + ".*", text)
            if match:
                chosen = match.group()
                if beginning[-1] in ">])":
                    break
    chosen = tokenizer.unk_token if chosen is None else chosen
    return chosen if chosen is not None and _fits(tokenizer, chosen, rows) else None


def _newer(tokenizer: Any, tokens: list[str], config: Any) -> str | None:
    own = config.eos_token_id
    ends = {tokenizer.eos_token_id, *(own if isinstance(own, list) else [own])}

    def usable(token: str) -> bool:
        number = tokenizer.convert_tokens_to_ids(token)
        return number not in ends and _fits(tokenizer, token, config.vocab_size)

    for beginning in SINCE_2026_7.split():
        for closed in (True, False):
            for token in tokens:
                if token.startswith(beginning) and (token[-1] in ">])") is closed and usable(token):
                    return token
    for token in [*filter(PADDING.fullmatch, tokens), tokenizer.unk_token]:
        if token and usable(token):
            return str(token)
    number = config.pad_token_id
    if isinstance(number, int) and 0 <= number < config.vocab_size:
        token = tokenizer.convert_ids_to_tokens(number)
        return token if token and usable(token) else None
    return None
