"""What a checkpoint trained: which linear each adapter pair belongs to, with rank and scale, or the whole model.

Every pair is consumed exactly once, and every linear that should have one has it: anything else is an error here,
before a byte is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..runtime.facts.family import Family, Linear
from ..runtime.facts.lora_targets import Block, Site, resolve, with_ranks
from ..runtime.facts.peft_format import mixes, peft_tensors
from ..runtime.facts.peft_targets import LoraSpec
from ..runtime.facts.sidecar import read_lora
from .checkpoint import Checkpoint

_SHOWN = 8


@dataclass(frozen=True)
class Told:
    """What the user says of a run: `--rank`, `--alpha`, `--targets`. None where the sidecar is to say it."""

    rank: int | None = None
    alpha: float | None = None
    targets: tuple[str, ...] | str | None = None


@dataclass(frozen=True)
class Adapters:
    """The adapters of a checkpoint. A fused weight that was trained as one has a site for each of its linears."""

    checkpoint: Checkpoint
    spec: LoraSpec
    sites: tuple[Site, ...]
    notes: tuple[str, ...]

    @property
    def linears(self) -> dict[str, Site]:
        """Hugging Face module name → its site."""
        return {block.hf: site for site in self.sites for block in site.blocks}

    def tensors(self, site: Site) -> dict[str, np.ndarray]:
        """PEFT's tensors of a site, float32."""
        a, b = (_read(self.checkpoint, f"{site.path}/{site.weight}_lora_{x}") for x in "ab")
        return peft_tensors(site, a, b)

    def delta(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(B · alpha/r (out, r), A (r, in)), float32: what the linear called `name` gains is their product."""
        site = self.linears[name]
        found = self.tensors(site)
        a, b = (found[f"base_model.model.{name}.lora_{x}.weight"] for x in "AB")
        return np.ascontiguousarray(b * np.float32(site.alpha / site.rank)), a


def has_adapters(checkpoint: Checkpoint) -> bool:
    """Whether the checkpoint holds LoRA tensors (else it is a whole model)."""
    return any(name.endswith(("_lora_a", "_lora_b")) for name in checkpoint.names)


def read_adapters(
    checkpoint: Checkpoint, family: Family, config: Mapping[str, Any], told: Told, *, allow_nan: bool = False
) -> Adapters:
    """The adapters of `checkpoint`, each with its linear in the model of `config`.

    InputError: pairs that are incomplete or fit no linear, linears without their pair, a rank, scale or targets other
    than told, a transposed factor, NaN or infinity in one (unless `allow_nan`).
    """
    pairs = _pairs(checkpoint)
    linears: dict[tuple[str, str], list[Linear]] = {}
    for linear in family.linears(config):
        linears.setdefault((linear.tunix, linear.weight), []).append(linear)
    strangers = sorted(set(pairs) - set(linears))
    if strangers:
        raise InputError(
            f"{_named(['/'.join(pair) for pair in strangers])}: no such linear in the --base model ({family.name})",
            checkpoint.path,
            fix="give the model that was trained as --base",
        )
    _check_shapes(checkpoint, pairs, linears)
    lora = (checkpoint.described or {}).get("lora")
    wanted: dict[tuple[str, str], tuple[Site, ...]]
    if lora is not None:
        spec, sites = read_lora(lora)
        _check_told(checkpoint, spec, told)
        for site in sites:
            _check_site(site, linears.get((site.path, site.weight), []))
        wanted = {(site.path, site.weight): (site,) for site in sites}
        _compare(checkpoint, {b.hf for s in sites for b in s.blocks}, wanted.keys(), pairs.keys(), linears)
        for site in sites:
            if site.rank != pairs[site.path, site.weight]:
                raise InputError(
                    f"{site.path} has rank {pairs[site.path, site.weight]}, the run's tpu_port.json says {site.rank}",
                    checkpoint.path,
                    fix="is it the file of another run?",
                )
    else:
        wanted = _told_sites(checkpoint, pairs, linears, told)
        spec = LoraSpec(target_modules=_targets(family, config, [s for group in wanted.values() for s in group], told))
    notes: list[str] = []
    final: list[Site] = []
    for (path, weight), group in wanted.items():
        a, b = (_read(checkpoint, f"{path}/{weight}_lora_{x}") for x in "ab")
        if not allow_nan and not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise InputError(
                f"the adapter of {path} holds NaN or infinity", checkpoint.path,
                fix="the run diverged: export an earlier step, or --allow-nan exports it as it is",
            )  # fmt: skip
        if len(group) == 1 and mixes(group[0], b):
            group = _together(group[0])
        final += group
    if len(final) > len(wanted):
        notes.append(
            "K and V share one lora_A, as Qwix trained them together: the PEFT adapter repeats it for each, with the "
            "same result"
        )
    others = [name for name in checkpoint.names if not name.endswith(("_lora_a", "_lora_b"))]
    if others:
        notes.append(f"{len(others)} other arrays of the checkpoint are left out: the base comes from --base")
    if lora is None or len(final) > len(wanted):
        spec = with_ranks(spec, final, spec.lora_dropout)
    return Adapters(checkpoint, spec, tuple(final), tuple(notes))


def _check_site(site: Site, linears: Sequence[Linear]) -> None:
    """ValueError for a site whose parts aren't its linears', one behind the other: it would be written wrong."""
    slots = {linear.hf: linear.slot for linear in linears}
    at = 0
    for block in sorted(site.blocks, key=lambda block: block.start):
        numbers = (block.start, block.rank, block.slot, site.slots)
        if any(type(number) is not int for number in numbers) or block.start != at or block.rank < 1:
            raise ValueError(f"the parts of {site.path} don't follow one another")
        if slots.get(block.hf, block.slot) != block.slot or not 0 <= block.slot < site.slots:
            raise ValueError(f"{block.hf} has another place in {site.path}")
        at += block.rank
    if type(site.alpha) not in (int, float) or not math.isfinite(site.alpha) or not site.blocks:
        raise ValueError(f"{site.path} has the scale {site.alpha}")


def _pairs(checkpoint: Checkpoint) -> dict[tuple[str, str], int]:
    """(Tunix path, weight) → rank of every pair."""
    halves: dict[tuple[str, str], set[str]] = {}
    for name in checkpoint.names:
        if name.endswith(("_lora_a", "_lora_b")):
            path, _, leaf = name.rpartition("/")
            halves.setdefault((path, leaf[: -len("_lora_a")]), set()).add(leaf[-1])
    alone = ["/".join(key) for key, found in halves.items() if len(found) == 1]
    if alone:
        raise InputError(f"{_named(alone)}: one half of the adapter is missing", checkpoint.path, fix="another step?")
    return {(p, w): checkpoint.shape(f"{p}/{w}_lora_a")[-1] for p, w in sorted(halves, key=_natural)}


def _check_shapes(
    checkpoint: Checkpoint, pairs: Mapping[tuple[str, str], int], linears: Mapping[tuple[str, str], list[Linear]]
) -> None:
    for (path, weight), rank in pairs.items():
        linear = linears[path, weight][0]
        inner, outer = _factors(linear)
        slots = (linear.slots,) if linear.slots > 1 else ()
        wanted = (*inner, rank), (rank, *slots, *outer)
        found = tuple(checkpoint.shape(f"{path}/{weight}_lora_{x}") for x in "ab")
        if found != wanted:
            turned = found[0][0] == found[1][-1] and math.prod(found[0][1:]) == math.prod(inner)
            raise InputError(
                f"{path}/{weight} has A {found[0]} and B {found[1]}, the base model wants {wanted[0]} and {wanted[1]}",
                checkpoint.path,
                fix="they are transposed" if turned else "give the model that was trained as --base",
            )


def _factors(linear: Linear) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of the linear's inputs and outputs in Tunix, from the split of its (out, in) shape."""
    split = linear.tensor.split
    at = next(i for i in range(1, len(split)) if math.prod(split[:i]) == linear.shape_hf[0])
    while math.prod(split[at:]) != linear.shape_hf[1]:
        at += 1
    return split[at:], split[:at]


def _check_told(checkpoint: Checkpoint, spec: LoraSpec, told: Told) -> None:
    """What the user says must be what the run's sidecar says."""
    for flag, said, written in (("--rank", told.rank, spec.r), ("--alpha", told.alpha, spec.lora_alpha)):
        if said is not None and said != written:
            raise InputError(
                f"{flag} {said:g}: the run was trained with {written:g}", checkpoint.path, fix="leave it out"
            )
    if told.targets is not None and told.targets != spec.target_modules:
        names = spec.target_modules
        if isinstance(names, str) or names is None or set(told.targets) != set(names):
            raise InputError(f"--targets: the run was trained with {names}", checkpoint.path, fix="leave it out")


def _told_sites(
    checkpoint: Checkpoint,
    pairs: Mapping[tuple[str, str], int],
    linears: Mapping[tuple[str, str], list[Linear]],
    told: Told,
) -> dict[tuple[str, str], tuple[Site, ...]]:
    """Sites of a run without a sidecar: ranks from the shapes, the scale from what the user says."""
    if told.alpha is None:
        raise InputError(
            "this run has no tpu_port.json, so nobody knows the scale of its adapters", checkpoint.path,
            fix="give --alpha and --rank as its qwix.LoraProvider had them",
        )  # fmt: skip
    if told.rank is None and len(set(pairs.values())) > 1:
        raise InputError(
            f"its adapters have the ranks {', '.join(map(str, sorted(set(pairs.values()))))}", checkpoint.path,
            fix="give --rank; a fused K and V may have twice of it",
        )  # fmt: skip
    sites: dict[tuple[str, str], tuple[Site, ...]] = {}
    for key, rank in pairs.items():
        members = sorted(linears[key], key=lambda linear: linear.slot)
        count, said, slots = len(members), told.rank or rank, members[0].slots
        if rank == said:
            sites[key] = tuple(Site(*key, slots, (Block(m.hf, m.slot, 0, rank),), told.alpha) for m in members)
        elif rank == count * said:
            blocks = tuple(Block(m.hf, m.slot, i * said, said) for i, m in enumerate(members))
            sites[key] = (Site(*key, slots, blocks, told.alpha * count),)
        else:
            raise InputError(f"{key[0]} has rank {rank}, not {said}", checkpoint.path, fix="mend --rank")
    return sites


def _together(site: Site) -> tuple[Site, ...]:
    """A fused weight whose linears share A: each gets the whole of it."""
    return tuple(
        Site(site.path, site.weight, site.slots, (Block(block.hf, block.slot, 0, site.rank),), site.alpha)
        for block in site.blocks
    )


def _targets(family: Family, config: Mapping[str, Any], sites: Sequence[Site], told: Told) -> Any:
    """PEFT's target_modules for these sites: what the user says, if it is right, else what can be read off them."""
    found = {block.hf for site in sites for block in site.blocks}

    def matched(targets: Any) -> set[str]:
        try:
            chosen = resolve(family, config, LoraSpec(target_modules=targets))
        except ValueError as error:
            raise InputError(f"--targets: {error}") from error
        return {block.hf for site in chosen for block in site.blocks}

    if told.targets is not None:
        wanted = matched(told.targets)
        if wanted != found:
            missing, extra = sorted(wanted - found), sorted(found - wanted)
            said = [f"no adapter for {_named(missing)}"] if missing else []
            said += [f"{_named(extra)} has one and isn't among them"] if extra else []
            raise InputError(f"--targets and the checkpoint disagree: {'; '.join(said)}", fix="mend --targets")
        return told.targets
    leaves = sorted({name.rpartition(".")[2] for name in found})
    return leaves if matched(leaves) == found else sorted(found)


def _compare(
    checkpoint: Checkpoint, names: set[str], wanted: Any, found: Any, linears: Mapping[Any, list[Linear]]
) -> None:
    """InputError unless the run's linears are the base's, and each has its pair in the checkpoint."""
    known = {linear.hf for members in linears.values() for linear in members}
    if strangers := sorted(names - known):
        raise InputError(
            f"the run adapted {_named(strangers)}, which the --base model doesn't have", checkpoint.path,
            fix="give the model that was trained as --base",
        )  # fmt: skip
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or extra:
        said = [f"{_named(['/'.join(k) for k in missing])} has no adapter in it"] if missing else []
        said += [f"it has one for {_named(['/'.join(k) for k in extra])}, which the run didn't adapt"] if extra else []
        raise InputError("; ".join(said), checkpoint.path, fix="is tpu_port.json the file of another run?")


def _read(checkpoint: Checkpoint, name: str) -> np.ndarray:
    return np.asarray(checkpoint.read(name), np.float32)


def _natural(key: tuple[str, str]) -> tuple[Any, ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in f"{key[0]}/{key[1]}".split("/"))


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
