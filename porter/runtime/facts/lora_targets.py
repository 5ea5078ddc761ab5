"""Where Tunix's model has the linears that a LoraConfig adapts: its weights, and the Qwix rules that name them.

Qwix matches regular expressions against Tunix's module paths and says nothing when one matches no module. `resolve`
says on a family's table (see families.py) which weights get adapters as PEFT has them (see peft_targets.py), `rules`
writes the rules. No JAX here: it runs when a script is ported, too.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .family import Family, Linear
from .peft_targets import LoraSpec, peft_adapts, targets_of


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


def _kind(path: str) -> str:
    """A Tunix path without its layer: "layers/*/attn/q_einsum"."""
    return re.sub(r"/\d+/", "/*/", path)


def _either(names: Sequence[str]) -> str:
    return f"({'|'.join(names)})" if len(names) > 1 else names[0]


def _below(path: str, names: Sequence[str]) -> str:
    return f"{path}/{_either(names)}" if names else ""


def _shown(targets: Sequence[str] | str | None) -> str:
    return repr(targets) if targets is None or isinstance(targets, str) else repr(sorted(targets))
