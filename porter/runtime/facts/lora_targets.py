"""Which linears a LoraConfig adapts: PEFT's matching of module names, and the same linears under Tunix's names.

PEFT 0.21 matches `target_modules` against the torch module names of the whole model; Qwix matches regular
expressions against Tunix's module paths and says nothing when one matches no module. `resolve` does the first on a
family's table (see families.py), `rules` writes the second. No JAX here: it runs when a script is ported, too.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from .family import Family, Linear

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


@dataclass(frozen=True)
class Block:
    """One adapted HF linear inside a Tunix weight: rows `start : start + rank` of the adapter, output slice `slot`."""

    hf: str
    slot: int
    start: int
    rank: int


@dataclass(frozen=True)
class Site:
    """One Tunix weight with an adapter. `rank` is the sum over its blocks; the scale of each is `alpha / rank`."""

    path: str
    weight: str
    slots: int
    blocks: tuple[Block, ...]
    alpha: float

    @property
    def rank(self) -> int:
        return sum(block.rank for block in self.blocks)

    @property
    def fused(self) -> bool:
        """Whether some products of its A and B belong to no PEFT adapter, and must stay zero."""
        return self.slots > 1

    def __str__(self) -> str:
        return f"{', '.join(block.hf for block in self.blocks)} ({self.path})"


@dataclass(frozen=True)
class Rule:
    """A qwix.LoraRule in the making.

    `ranks`: PEFT's rank of each linear that shares one Tunix weight, a single one where none is shared. `hf`: the
    linears it covers, by their last name ("q_proj"), in the table's order.
    """

    module_path: str
    ranks: tuple[int, ...]
    alpha: float
    hf: tuple[str, ...]

    @property
    def rank(self) -> int:
        """The Qwix rule's rank."""
        return sum(self.ranks)


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


def resolve(family: Family, model: Mapping[str, Any], spec: LoraSpec) -> tuple[Site, ...]:
    """The Tunix weights that get adapters when PEFT applies `spec` to this model, in layer order.

    `model`: config.json's contents or sizes, as in families.py. ValueError when nothing matches, when the embedding
    or a tied head does (Qwix cannot adapt them), or when linears of one fused weight get different scales.
    """
    return _sites(family, model, spec, lambda members: _site(members, spec))


def resolve_ranks(
    family: Family, model: Mapping[str, Any], spec: LoraSpec, found: Mapping[str, tuple[int, float]]
) -> tuple[Site, ...]:
    """`resolve`, with (rank, alpha) of each Tunix path as `found` has it instead of what `spec` says.

    The linears of a fused weight share its rank equally; ValueError when they cannot. Rank 0 where `found` has none.
    """

    def site(members: list[Linear]) -> Site:
        first, count = members[0], len(members)
        rank, alpha = found.get(first.tunix, (0, 0.0))
        if rank % count:
            names = ", ".join(linear.hf for linear in members)
            raise ValueError(
                f"{first.tunix}: rank {rank} does not divide among {names}: give its rule rank {count} × r"
            )
        each = rank // count
        blocks = tuple(Block(m.hf, m.slot, i * each, each) for i, m in enumerate(members))
        return Site(first.tunix, first.weight, first.slots, blocks, alpha)

    return _sites(family, model, spec, site)


def with_ranks(spec: LoraSpec, sites: Sequence[Site], dropout: float) -> LoraSpec:
    """`spec` with the ranks and scales of `sites`: the commonest as r and lora_alpha, the others as patterns."""
    settings = {
        block.hf: (block.rank, site.alpha / site.rank * (math.sqrt(block.rank) if spec.use_rslora else block.rank))
        for site in sites
        for block in site.blocks
    }
    (r, alpha), _ = Counter(settings.values()).most_common(1)[0]
    return replace(
        spec,
        r=r,
        lora_alpha=alpha,
        lora_dropout=dropout,
        rank_pattern={re.escape(name): rank for name, (rank, _) in settings.items() if rank != r},
        alpha_pattern={re.escape(name): a for name, (_, a) in settings.items() if a != alpha},
    )


def rules(family: Family, model: Mapping[str, Any], sites: Sequence[Site]) -> tuple[Rule, ...]:
    """The Qwix rules that adapt `sites` and no other linear of the model.

    A kind of linear that is adapted in all its layers is named by the last part of its path (`.*/(q_proj|v_proj)`),
    others layer by layer (`layers/(0|1)/attn/q_proj`). Plain weights come first, then fused ones, whose rank is the
    sum over their adapted linears.
    """
    everywhere: dict[str, set[str]] = {}
    for linear in family.linears(model):
        everywhere.setdefault(_kind(linear.tunix), set()).add(linear.tunix)
    groups: dict[tuple[tuple[int, ...], float], list[Site]] = {}
    for site in sites:
        groups.setdefault((tuple(block.rank for block in site.blocks), site.alpha), []).append(site)
    out = []
    for (ranks, alpha), members in sorted(groups.items(), key=lambda item: len(item[0][0])):
        kinds: dict[str, list[str]] = {}
        for site in members:
            kinds.setdefault(_kind(site.path), []).append(site.path)
        whole = [kind for kind, paths in kinds.items() if set(paths) == everywhere[kind]]
        patterns = [_below(".*", [kind.rpartition("/")[2] for kind in whole if "/" in kind])]
        patterns += [kind for kind in whole if "/" not in kind]
        partial: dict[tuple[str, str], list[str]] = {}
        for kind, paths in kinds.items():
            if kind not in whole:
                above, _, below = kind.partition("/*/")
                layers = [path.removeprefix(f"{above}/").partition("/")[0] for path in paths]
                partial.setdefault((above, _either(layers)), []).append(below)
        patterns += [_below(f"{above}/{layers}", names) for (above, layers), names in partial.items()]
        leaves = dict.fromkeys(block.hf.rpartition(".")[2] for site in members for block in site.blocks)
        out.append(Rule("|".join(pattern for pattern in patterns if pattern), ranks, alpha, tuple(leaves)))
    return tuple(out)


def port_rules(family: Family, model: Mapping[str, Any] | None, spec: LoraSpec) -> tuple[Rule, ...] | None:
    """The Qwix rules to write into a port; `model` None (its size is unknown) tries every size in the family's table.

    None when those sizes disagree: then only the model itself can say, at run time (`rt.lora_rules`).
    """
    if model is not None:
        return rules(family, model, resolve(family, model, spec))
    answers = []
    for sizes in family.table.get("sizes", {}).values():
        full = family.complete({"tied": family.table["defaults"].get("tie_word_embeddings", False), **sizes})
        try:
            answers.append(rules(family, full, resolve(family, full, spec)))
        except ValueError:
            return None
    return answers[0] if answers and all(answer == answers[0] for answer in answers) else None


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


def _sites(
    family: Family, model: Mapping[str, Any], spec: LoraSpec, site: Callable[[list[Linear]], Site]
) -> tuple[Site, ...]:
    linears, targets = family.linears(model), targets_of(family, model, spec)
    names = {linear.hf for linear in linears}
    for tensor in family.tensors(model):
        name = tensor.hf.removesuffix(".weight")
        if "embed_tokens" in name and peft_adapts(name, spec, targets):
            raise ValueError(
                f"target_modules {_shown(spec.target_modules)} covers {name}: Qwix cannot adapt embeddings"
            )
    if "lm_head" not in names and peft_adapts("lm_head", spec, targets):
        raise ValueError(
            f"target_modules {_shown(spec.target_modules)} covers lm_head, which is the embedding in this model"
        )
    found: dict[str, list[Linear]] = {}
    for linear in linears:
        if peft_adapts(linear.hf, spec, targets):
            found.setdefault(linear.tunix, []).append(linear)
    if not found:
        leaves = dict.fromkeys(name.rpartition(".")[2] for name in names)
        raise ValueError(
            f"target_modules {_shown(spec.target_modules)} matches no linear of this model; it has "
            f"{', '.join(sorted(leaves))} (full names such as {linears[0].hf})"
        )
    return tuple(site(sorted(members, key=lambda linear: linear.slot)) for members in found.values())


def _model_type(family: Family, model: Mapping[str, Any]) -> str:
    """config.json's model_type, or the one that models of these sizes have."""
    if "model_type" in model:
        return str(model["model_type"])
    return next(
        (t for t in family.model_types if t.endswith("_text") != bool(model.get("multimodal"))), family.model_types[0]
    )


def _site(members: list[Linear], spec: LoraSpec) -> Site:
    """The adapter of one Tunix weight: a block for each of its `members`, ranks and scales as PEFT sets them."""
    blocks: list[Block] = []
    scales = {}
    for linear in members:
        rank, scales[linear.hf] = spec.rank_and_scale(linear.hf)
        blocks.append(Block(linear.hf, linear.slot, sum(block.rank for block in blocks), rank))
    if len(set(scales.values())) > 1:
        shown = ", ".join(f"{name}: {scale:g}" for name, scale in scales.items())
        raise ValueError(
            f"{members[0].tunix} is one weight in Tunix, so its linears need the same alpha/r; they have {shown}"
        )
    scale = scales[members[0].hf]
    return Site(
        members[0].tunix, members[0].weight, members[0].slots, tuple(blocks), scale * sum(b.rank for b in blocks)
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


def _kind(path: str) -> str:
    """A Tunix path without its layer: "layers/*/attn/q_einsum"."""
    return re.sub(r"/\d+/", "/*/", path)


def _either(names: Sequence[str]) -> str:
    return f"({'|'.join(names)})" if len(names) > 1 else names[0]


def _below(path: str, names: Sequence[str]) -> str:
    return f"{path}/{_either(names)}" if names else ""


def _shown(targets: Sequence[str] | str | None) -> str:
    return repr(targets) if targets is None or isinstance(targets, str) else repr(sorted(targets))
