"""A model's config.json without its weights: local, in the Hub's cache, or from its family's table of known sizes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...runtime.facts.family import SIZES


def read_config(model_id: str, substitute: str | None, families: Any, extra: Iterable[Any] = ()) -> dict[str, Any]:
    """The config.json of `model_id`, or of `substitute` (a file or a folder) where that is given.

    `families`: the module porter.runtime.facts.families in use. Nothing is downloaded: FileNotFoundError says what to
    give.
    """
    place = Path(substitute or model_id).expanduser()
    file = place if place.is_file() else place / "config.json"
    if file.is_file():
        return dict(json.loads(file.read_text(encoding="utf-8")))
    cached = _cached(str(substitute or model_id))
    if cached is not None:
        return dict(json.loads(cached.read_text(encoding="utf-8")))
    family = families.find_family(hub_id=model_id, extra=extra)
    sizes = family.known_sizes(model_id) if family is not None else None
    if sizes is None:
        raise FileNotFoundError(
            f"the sizes of {model_id} are not known without its config.json: give --model FOLDER (or the file)"
        )
    return config_of(family, sizes)


def config_of(family: Any, sizes: dict[str, Any]) -> dict[str, Any]:
    """A config.json that `family` reads as `sizes`; settings that no size depends on are the family's defaults."""
    config = {key: sizes[name] for name, key in SIZES.items() if name in sizes and name != "tied"}
    kinds = {"local": "sliding_attention", "global": "full_attention"}
    multimodal = sizes.get("multimodal") and family.table.get("multimodal")
    config |= {
        "architectures": [family.table["multimodal"][0] if multimodal else family.architectures[0]],
        "tie_word_embeddings": sizes["tied"],
        "dtype": "bfloat16",
    }
    if len(set(sizes["kinds"])) > 1 or family.table.get("pattern", 1) > 1:
        config["layer_types"] = [kinds[kind] for kind in sizes["kinds"]]
    defaults = family.table["defaults"]
    if "query_pre_attn_scalar" in defaults:
        config["query_pre_attn_scalar"] = sizes.get("query_pre_attn_scalar", sizes["head_dim"])
    for key, allowed in family.table.get("must_be", {}).items():
        if key in ("rope_type",) or key in config:
            continue
        if defaults.get(key) is None and "null" not in allowed and allowed and allowed[0] not in sizes:
            config[key] = (
                json.loads(allowed[0]) if allowed[0] in ("true", "false") or _number(allowed[0]) else allowed[0]
            )
    model_types = family.model_types
    text = [name for name in model_types if name.endswith("_text")]
    config["model_type"] = (text or list(model_types) or [family.name])[0]
    return config


def cut_layers(config: dict[str, Any], layers: int) -> dict[str, Any]:
    """The same model with its first `layers` decoder layers."""
    cut = copy.deepcopy(config)
    text = cut.get("text_config") or cut
    text["num_hidden_layers"] = layers
    if text.get("layer_types"):
        text["layer_types"] = text["layer_types"][:layers]
    return cut


def period(sizes: dict[str, Any]) -> int:
    """Layers after which the attention kinds repeat: what a cut model must be a multiple of."""
    kinds = list(sizes["kinds"])
    for length in range(1, len(kinds) + 1):
        if all(kind == kinds[i % length] for i, kind in enumerate(kinds)):
            return length
    return len(kinds)


def one_period(sizes: dict[str, Any]) -> int:
    """The fewest layers whose step is like the whole model's: two, or a period of the attention kinds.

    All of them where some layers use others' keys and values (Gemma 4's small models), which can't be cut apart.
    """
    return int(sizes["layers"]) if sizes.get("kv_shared") else min(int(sizes["layers"]), max(2, period(sizes)))


def _cached(model_id: str) -> Path | None:
    if model_id.count("/") != 1 or model_id.startswith((".", "/", "~")):
        return None
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.utils import HFValidationError
    except ImportError:
        return None
    try:
        found = try_to_load_from_cache(model_id, "config.json")
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
