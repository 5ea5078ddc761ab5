"""Which linears a LoraConfig adapts, under torch's names: PEFT's fields, its defaults, and its matching of names.

PEFT 0.21 matches `target_modules` against the torch module names of the whole model. No JAX here: it runs when a script
is ported, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from .family import Family

# LoraConfig's fields that have no counterpart, each with the values that change nothing and the reason. The runtime
# refuses any other value by name. (peft/tuners/lora/config.py, 0.21.2.)
UNSUPPORTED: dict[str, tuple[tuple[Any, ...], str]] = {
    "alora_invocation_tokens": ((None,), "activated LoRA switches the adapter on inside a sequence"),
    "arrow_config": ((None,), "arrow routing needs several adapters in one model"),
    "bias": (("none",), "PeftTrainer trains adapters only, no biases"),
    "corda_config": ((None,), "CorDA changes the base weights"),
    "eva_config": ((None,), "EVA initialises from activations of the training data"),
    "kasa_config": ((None,), "KaSA changes the base weights"),
    "layer_replication": ((None,), "it changes the number of layers"),
    "loftq_config": ((None, {}), "LoftQ changes the base weights"),
    "lora_bias": ((False, None), "Qwix's adapters have no bias"),
    "lora_ga_config": ((None,), "LoRA-GA initialises from gradients and changes the base weights"),
    "megatron_config": ((None,), "Megatron's parallel layers have no counterpart"),
    "modules_to_save": ((None, [], ()), "PeftTrainer trains adapters only, no whole modules"),
    "monteclora_config": ((None,), "Monte Carlo sampling of adapters has no counterpart"),
    "target_parameters": ((None, [], ()), "Qwix adapts linears, not bare parameters such as experts"),
    "trainable_token_indices": ((None, [], ()), "PeftTrainer trains adapters only, no embedding rows"),
    "use_bdlora": ((None, False), "block-diagonal LoRA has no counterpart"),
    "use_dora": ((False, None), "DoRA's magnitude vector has no counterpart in Qwix"),
    "use_qalora": ((False, None), "QA-LoRA pools the inputs of quantised layers"),
    "velora_config": ((None,), "VeLoRA replaces the backward pass"),
}
# The initialisations that leave the base weights alone; all others (pissa, olora, loftq, ...) change them.
INITIALISATIONS: tuple[Any, ...] = (True, False, "gaussian")


@dataclass(frozen=True)
class LoraSpec:
    """The fields of peft.LoraConfig that decide which linears get which rank and scale, under PEFT's names.

    Defaults are PEFT 0.21's. `target_modules` None is PEFT's choice for the model's `model_type`.
    """

    r: int = 8
    lora_alpha: float = 8
    target_modules: Sequence[str] | str | None = None
    exclude_modules: Sequence[str] | str | None = None
    lora_dropout: float = 0.0
    use_rslora: bool = False
    init_lora_weights: bool | str = True
    layers_to_transform: Sequence[int] | int | None = None
    layers_pattern: Sequence[str] | str | None = None
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.init_lora_weights not in INITIALISATIONS:
            raise ValueError(
                f"init_lora_weights={self.init_lora_weights!r} has no counterpart: it derives the adapter from base "
                "weights or the data, and most such methods change the base weights; use True or 'gaussian'"
            )
        if isinstance(self.target_modules, str) and (self.layers_to_transform is not None or self.layers_pattern):
            raise ValueError(
                "layers_to_transform and layers_pattern need a list of target_modules, not a string (as in PEFT)"
            )
        if self.layers_pattern and self.layers_to_transform is None:
            raise ValueError("layers_pattern needs layers_to_transform (as in PEFT)")
        object.__setattr__(self, "rank_pattern", dict(self.rank_pattern or {}))
        object.__setattr__(self, "alpha_pattern", dict(self.alpha_pattern or {}))

    @classmethod
    def read(cls, config: Any) -> LoraSpec:
        """The spec of a LoraConfig-like object or mapping; ValueError names a field that cannot be ported."""
        values = dict(config) if isinstance(config, Mapping) else dict(vars(config))
        for name, (harmless, reason) in UNSUPPORTED.items():
            value = values.get(name)
            if value is not None and not any(type(value) is type(ok) and value == ok for ok in harmless):
                raise ValueError(f"LoraConfig({name}={value!r}) has no counterpart: {reason}")
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known and value is not None})

    def rank_and_scale(self, name: str) -> tuple[int, float]:
        """PEFT's rank and scale (alpha/r, or alpha/√r) of the adapter of the linear called `name`."""
        given = _by_pattern(self.rank_pattern, name, self.r)
        if not isinstance(given, int | float) or not float(given).is_integer():
            raise ValueError(f"r={given!r} for {name}: a LoRA rank is a whole number")
        rank = int(given)
        if rank < 1:
            raise ValueError(f"r={rank} for {name}: a LoRA rank is at least 1")
        alpha = float(_by_pattern(self.alpha_pattern, name, self.lora_alpha))
        return rank, alpha / (math.sqrt(rank) if self.use_rslora else rank)


def peft_adapts(name: str, spec: LoraSpec, targets: Sequence[str] | str) -> bool:
    """Whether PEFT 0.21 adapts the module called `name` (check_target_module_exists in peft/tuners/tuners_utils.py).

    `targets` is `spec.target_modules` with None and "all-linear" already replaced (`targets_of`).
    """
    if spec.exclude_modules and _listed(name, spec.exclude_modules):
        return False
    if isinstance(targets, str) or name in targets:
        return _listed(name, targets)  # a full name or a pattern: layers_to_transform doesn't apply
    if not _listed(name, targets):
        return False
    layers = spec.layers_to_transform
    if layers is None or layers == [] or layers == ():
        return True
    index = _layer_index(name, spec.layers_pattern)
    return index is not None and index in ([layers] if isinstance(layers, int) else layers)


def targets_of(family: Family, model: Mapping[str, Any], spec: LoraSpec) -> Sequence[str] | str:
    """`target_modules` as PEFT completes it: its default for the model_type, or every linear but the output head."""
    targets = spec.target_modules
    if targets is None:
        default = family.default_targets(model_type := _model_type(family, model))
        if default is None:
            raise ValueError(
                f"PEFT has no default target_modules for model_type {model_type!r}: name them in the LoraConfig"
            )
        return default
    if isinstance(targets, str):
        if targets.lower() == "all-linear":
            return [linear.hf for linear in family.linears(model) if linear.hf != "lm_head"]
        return targets
    if not isinstance(targets, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in targets):
        raise ValueError(f"target_modules={targets!r}: PEFT takes names of layers, or a regular expression")
    return list(targets)


def beyond_text(family: Family, model: Mapping[str, Any], spec: LoraSpec) -> bool:
    """Whether PEFT would adapt linears of the vision tower, too, which Tunix's text models don't have.

    Training on text never reaches them, so nothing is lost.
    """
    if not (model.get("multimodal") or "text_config" in model):
        return False
    if isinstance(spec.target_modules, str) and spec.target_modules.lower() == "all-linear":
        return True
    targets = targets_of(family, model, spec)
    return any(
        peft_adapts(f"model.vision_tower.vision_model.encoder.layers.0.self_attn.{x}_proj", spec, targets)
        for x in "qkv"
    )


def _model_type(family: Family, model: Mapping[str, Any]) -> str:
    """config.json's model_type, or the one that models of these sizes have."""
    if "model_type" in model:
        return str(model["model_type"])
    return next(
        (t for t in family.model_types if t.endswith("_text") != bool(model.get("multimodal"))), family.model_types[0]
    )


def _listed(name: str, names: Sequence[str] | str) -> bool:
    """PEFT's two ways to name modules: one regular expression for the whole name, or names and endings of names."""
    if isinstance(names, str):
        return _match(names, names, name, re.fullmatch) is not None
    parts = name.split(".")
    return not {".".join(parts[place:]) for place in range(len(parts))}.isdisjoint(names)


def _match(
    given: str, pattern: str, name: str, match: Callable[[str, str], re.Match[str] | None] = re.match
) -> re.Match[str] | None:
    """A match of `pattern`, which is made of `given`; ValueError where that is no regular expression."""
    try:
        return match(pattern, name)
    except re.error as error:
        raise ValueError(
            f"{given!r} is no regular expression ({error}), as a name of modules in a LoraConfig is"
        ) from None


def _layer_index(name: str, patterns: Sequence[str] | str | None) -> int | None:
    """The first number that follows a name of `patterns` (any name when there are none)."""
    for pattern in ([patterns] if isinstance(patterns, str) else patterns) or [r"[^.]*"]:
        prefix = r".*?\." if not patterns else r"(?:^|.*?\.)"
        if match := _match(pattern, rf"{prefix}{pattern}\.(?P<index>\d+)\.", name):
            return int(match["index"])
    return None


def _by_pattern(patterns: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    """PEFT's get_pattern_key: the first pattern that matches the end of `name` from a dot on."""
    for pattern, value in patterns.items():
        if _match(pattern, rf"(.*\.)?({pattern})$", name):
            return value
    return otherwise
