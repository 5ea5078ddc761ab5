"""Checkpoints that hold quantised weights, by their names on the Hub.

Unsloth's mirrors in bitsandbytes' 4 bits (`unsloth/mistral-7b-bnb-4bit`) lie beside the 16-bit weights that they were
made from. Of other quantised checkpoints nobody can tell by the name where those are.
"""

from __future__ import annotations

import re

MIRROR = re.compile(r"(?:-unsloth)?-bnb-4bit$", re.IGNORECASE)
FORMATS = {
    "bitsandbytes": r"bnb[-_]?(?:[48]bit|int8|nf4|fp4)",
    "GPTQ": r"gptq(?:model)?",
    "AWQ": r"awq",
    "GGUF": r"gguf|ggml",
    "FP8": r"fp8",
    "FP4": r"(?:mx|nv)?fp4",
    "EXL2": r"exl[23]",
    "AQLM": r"aqlm",
    "HQQ": r"hqq",
    "compressed": r"w[48]a(?:8|16)",
}
NAMED = {held: re.compile(rf"(?:^|[-_.])(?:{words})(?:$|[-_.])", re.IGNORECASE) for held, words in FORMATS.items()}
OF_OWN = ("mlx-community/",)  # of models for Apple's MLX


def base_name(identifier: str) -> str:
    """The name of a model's 16-bit weights: `unsloth/Qwen3-4B` of `unsloth/Qwen3-4B-unsloth-bnb-4bit`.

    Unsloth keeps both, with its tokenizer's padding token and chat template. Any other name is its own.
    """
    return MIRROR.sub("", identifier) if identifier.lower().startswith("unsloth/") else identifier


def unread_format(identifier: str) -> str:
    """In which format a Hub id's or a folder's weights are held, where its name says one that the runtime doesn't read.

    An empty text for weights of 16 and 32 bits, and for a mirror of Unsloth's.
    """
    name = identifier.rstrip("/").rsplit("/", 1)[-1]
    if identifier.lower().startswith(OF_OWN):
        return "MLX"
    found = next((held for held, words in NAMED.items() if words.search(name)), "")
    return found if base_name(identifier) == identifier else ""
