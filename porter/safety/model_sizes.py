"""The sizes that a config.json says are those of some model, before anything is computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..runtime.facts.family import SIZES, Family

# Far more than any model has, and few enough to go through.
MOST_LAYERS, LARGEST_SIZE = 10_000, 10_000_000
# What may be nothing at all; of anything else a model has at least one.
MAY_BE_ZERO = ("num_kv_shared_layers", "hidden_size_per_layer_input", "sliding_window")
FIX = "download it again"


def check_sizes(config: Mapping[str, Any], file: Path) -> None:
    """InputError for sizes that no model has: lists, texts, nothing, or so many layers that nobody gets through."""
    text = config.get("text_config") or config
    names = config.get("architectures") or []
    kinds = text.get("layer_types") or [] if isinstance(text, dict) else []
    lists = isinstance(names, list) and isinstance(kinds, list)
    if not isinstance(text, dict) or not lists or not all(isinstance(name, str) for name in [*names, *kinds]):
        raise InputError("is no model's: text_config, architectures or layer_types are something else", file, fix=FIX)
    if len(kinds) > MOST_LAYERS:
        raise InputError(f"says layer_types of {len(kinds)} layers, which no model has", file, fix=FIX)
    for key in SIZES.values():
        value = text.get(key)
        if value is None or isinstance(value, bool):
            continue
        most = MOST_LAYERS if "layers" in key else LARGEST_SIZE
        if not isinstance(value, int) or not (key not in MAY_BE_ZERO) <= value <= most:
            raise InputError(f"says {key}={str(value)[:40]}, which no model has", file, fix=FIX)


def sizes_in(config: Mapping[str, Any], family: Family, file: Path) -> dict[str, Any]:
    """The model's sizes; InputError where a config.json lies or leaves some out."""
    check_sizes(config, file)
    try:
        return dict(family.sizes(config))
    except KeyError as error:
        named = SIZES.get(str(error.args[0]), error.args[0])
        raise InputError(f"is no model config: it lacks {named}", file, fix=FIX) from None
