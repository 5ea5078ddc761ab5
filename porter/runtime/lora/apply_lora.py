"""LoRA as PEFT trains it, in a Tunix model: the rules, the injection, and what is asserted of it.

Qwix injects adapters wherever a rule's pattern matches, and says nothing when one matches nothing. Here the adapters
are compared with what PEFT would adapt, layer by layer, made float32, placed on the mesh, and kept apart where a Tunix
weight holds several of PEFT's linears (`separate_kv`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import qwix
from flax import nnx

from ..facts import sidecar
from ..facts.family import Family
from ..facts.lora_targets import Site, resolve, resolve_ranks, rules, with_ranks
from ..facts.peft_format import block_mask
from ..facts.peft_targets import LoraSpec, beyond_text
from .lora_provider import PEFT_INIT, LoraProvider, gaussian, random_b
from .train_step import return_only_changes

TWICE = "adapters are put into a model that has some"


@dataclass(frozen=True, eq=False)
class LoraInfo:
    """What `apply_lora` put into a model: PEFT's settings and the adapted Tunix weights. Stands at `model.lora`."""

    spec: LoraSpec
    sites: tuple[Site, ...]


def lora_rules(model: nnx.Module, **lora_config: Any) -> list[qwix.LoraRule]:
    """The rules of peft.LoraConfig(**lora_config) for this model; ValueError names what has no counterpart.

    r=8, lora_alpha=8, target_modules=None, exclude_modules=None, lora_dropout=0.0, use_rslora=False,
    init_lora_weights=True, layers_to_transform=None, layers_pattern=None, rank_pattern={}, alpha_pattern={}: PEFT's
    names, defaults and meaning. Other fields are accepted at values that change nothing.
    """
    family, config = _described(model)
    spec = LoraSpec.read(lora_config)
    return _qwix_rules(family, config, spec, resolve(family, config, spec))


def apply_lora(
    model: nnx.Module,
    provider: qwix.LoraProvider,
    mesh: jax.sharding.Mesh,
    *,
    seed: int,
    targets: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    layers: Sequence[int] | int | None = None,
    layers_pattern: Sequence[str] | str | None = None,
    use_rslora: bool = False,
) -> nnx.Module:
    """A copy of `model` with the adapters of `provider`'s rules: float32, on the mesh, ready to train.

    `targets`, `exclude`, `layers` and `layers_pattern` are the PEFT config's target_modules, exclude_modules,
    layers_to_transform and layers_pattern. Every linear that PEFT would adapt for them must have got its adapter, and
    no other: ValueError names those that differ, layer by layer. `use_rslora` says that the rules' alphas are
    lora_alpha × √r, which only matters to the adapter_config.json written later. Call it before `rt.remat`.
    """
    if not isinstance(provider, LoraProvider):
        raise ValueError("use rt.LoraProvider: qwix's own keeps adapters in the base's dtype and dropout in evaluation")
    family, config = _described(model)
    spec = LoraSpec(
        target_modules=targets,
        exclude_modules=exclude,
        layers_to_transform=layers,
        layers_pattern=layers_pattern,
        use_rslora=use_rslora,
    )
    resolve(family, config, spec)  # targets that match nothing are an error before any work
    has_some = getattr(model, "lora", None) is not None
    adapted = model if has_some else _inject(model, provider, mesh, seed)
    found = {}
    for path, _, a, _ in adapters(adapted):
        if not any(re.fullmatch(rule.module_path, path) for rule in provider._rules):
            raise ValueError(f"{TWICE}, of other settings: leave out one of the two")
        rule = _rule_of(provider, path)
        found[path] = (rule.rank if has_some else a.get_value().shape[-1], float(rule.alpha))
    sites = resolve_ranks(family, config, spec, found)
    _check(adapted, sites, family, config)
    _check_shares(provider, sites)
    dropout = max(rule.dropout for rule in provider._rules if isinstance(rule, qwix.LoraRule))
    spec = with_ranks(spec, sites, dropout)
    if has_some:
        _draw_again(model, provider, spec, sites, mesh, seed)
    return _finish(adapted, spec, sites, mesh, seed, beyond_text(family, config, spec))


def apply_peft(
    model: nnx.Module, lora_config: Any, mesh: jax.sharding.Mesh, *, seed: int, dropout: bool = True
) -> nnx.Module:
    """`lora_rules` and `apply_lora` in one, for a LoraConfig-like object (peft's own, the runtime's, or a mapping).

    `dropout` False leaves its lora_dropout out, as trainers do that disable dropout. Of a model that has adapters of
    the same settings, which nothing has trained, these are drawn anew, in the model itself, as PEFT does; ValueError
    for others.
    """
    family, config = _described(model)
    spec = LoraSpec.read(lora_config)
    if not dropout:
        spec = replace(spec, lora_dropout=0.0)
    sites = resolve(family, config, spec)
    provider = LoraProvider(_qwix_rules(family, config, spec, sites))
    if getattr(model, "lora", None) is not None:
        _draw_again(model, provider, spec, sites, mesh, seed)
        return _finish(model, spec, sites, mesh, seed, beyond_text(family, config, spec))
    adapted = _inject(model, provider, mesh, seed)
    _check(adapted, sites, family, config)
    return _finish(adapted, spec, sites, mesh, seed, beyond_text(family, config, spec))


def _draw_again(
    model: nnx.Module, provider: LoraProvider, spec: LoraSpec, sites: Sequence[Site], mesh: jax.sharding.Mesh, seed: int
) -> None:
    """The values that `_inject` draws, in a model that has the adapters: of these settings, and still as they began."""
    held = model.lora
    if tuple(held.sites) != tuple(sites) or held.spec.lora_dropout != spec.lora_dropout:
        raise ValueError(f"{TWICE}, of other settings: leave out one of the two")
    if held.spec.init_lora_weights and any(_is_trained(b.get_value()) for _, _, _, b in adapters(model)):
        raise ValueError(f"{TWICE}, and the first are trained: merge them before, or leave the second out")
    for path, weight, a, b in adapters(model):
        for name, adapter in ((f"{weight}_lora_a", a), (f"{weight}_lora_b", b)):
            adapter.set_value(_drawn(provider, path, name, adapter, mesh, seed))


def _is_trained(b: jax.Array) -> bool:
    return not isinstance(b, jax.core.Tracer) and bool(jnp.any(b))


def renew_adapters(model: nnx.Module, *, seed: int) -> nnx.Module:
    """New adapters in the place of the model's, in the model itself: A drawn from `seed` as PEFT draws it, B zero.

    What PEFT's get_peft_model does to a model that has adapters. Returns the model, which computes what its base does.
    """
    key = jax.random.key(seed)
    for place, (_, _, a, b) in enumerate(adapters(model)):
        old = a.get_value()
        drawn = PEFT_INIT(jax.random.fold_in(key, place), old.shape)
        a.set_value(jax.device_put(drawn, old.sharding))
        b.set_value(b.get_value() * 0)
    return model


def separate_kv(model: nnx.Module) -> optax.GradientTransformation:
    """Keeps linears apart that PEFT adapts separately and a Tunix weight holds together (K and V of the Gemmas).

    Their adapter is A = [A_k | A_v] and a B of blocks; the products of A_k with V's slice of B belong to no PEFT
    adapter. Zeroing their gradient, first in the chain, keeps those blocks of B at the zero they start from. Identity
    for models without fused weights or without LoRA.
    """
    info = getattr(model, "lora", None)
    masks = {}
    for site in info.sites if info is not None else ():
        if site.fused:
            masks[(*site.path.split("/"), f"{site.weight}_lora_b")] = block_mask(site)
    if not masks:
        return optax.identity()

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        def masked(path: Any, leaf: jax.Array) -> jax.Array:
            names = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
            mask = masks.get(tuple(name for name in names if name != "value"))
            return leaf if mask is None else leaf * mask.reshape(mask.shape + (1,) * (leaf.ndim - 2)).astype(leaf.dtype)

        return jax.tree_util.tree_map_with_path(masked, updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def print_trainable_parameters(model: nnx.Module) -> None:
    """PEFT's line: trainable params, all params, their ratio. Blocks that stay zero in fused weights don't count."""
    trained, total = count_parameters(model, trainable=True), count_parameters(model)
    if jax.process_index() == 0:
        print(f"trainable params: {trained:,d} || all params: {total:,d} || trainable%: {100 * trained / total:.4f}")


def count_parameters(model: nnx.Module, *, trainable: bool = False, lora: bool = False) -> int:
    """How many numbers the model holds, or trains: its adapters where it has some, else all.

    `lora`: its adapters alone, none of a model without.
    Blocks that stay zero in fused weights don't count: PEFT has none there.
    """
    parameters = nnx.to_flat_state(nnx.state(model, nnx.Param))
    held = sum(leaf.get_value().size for path, leaf in parameters if path[-2:] != ("array", "scale"))
    info = getattr(model, "lora", None)
    zeros = 0
    pairs = list(adapters(model))
    for path, weight, _, b in pairs:
        for site in info.sites if info is not None else ():
            if (site.path, site.weight) == (path, weight) and site.fused:
                zeros += int((1 - block_mask(site)).sum()) * int(np.prod(b.get_value().shape[2:]))
    if lora or (trainable and info is not None):
        return sum(a.get_value().size + b.get_value().size for _, _, a, b in pairs) - zeros
    return held - zeros


def memory_footprint(model: nnx.Module) -> int:
    """transformers' get_memory_footprint: bytes of all parameters on all devices, 4-bit codes two to a byte.

    The scales of quantised weights don't count, which are no parameters of bitsandbytes' layers.
    """
    parameters = nnx.to_flat_state(nnx.state(model, nnx.Param))
    held = [leaf.get_value() for path, leaf in parameters if path[-2:] != ("array", "scale")]
    return sum(leaf.size * leaf.dtype.itemsize // (2 if leaf.dtype == jnp.uint4 else 1) for leaf in held)


def adapters(model: nnx.Module) -> Iterator[tuple[str, str, nnx.LoRAParam, nnx.LoRAParam]]:
    """(Tunix path, weight name, A, B) of every adapter in the model: A (in..., rank), B (rank, out...)."""
    for path, module in model.iter_modules():
        for name in [name for name, value in vars(module).items() if isinstance(value, nnx.LoRAParam)]:
            if name.endswith("_lora_a"):
                weight = name.removesuffix("_lora_a")
                yield "/".join(map(str, path)), weight, getattr(module, name), getattr(module, f"{weight}_lora_b")


def _described(model: nnx.Module) -> tuple[Family, Mapping[str, Any]]:
    """The family table of a loaded model and its config.json."""
    info = getattr(model, "porter", None)
    if info is None:
        raise ValueError("this model doesn't say what it is: load it with rt.load_model, whose result carries .porter")
    return info.family, info.config


def _qwix_rules(
    family: Family, config: Mapping[str, Any], spec: LoraSpec, sites: Sequence[Site]
) -> list[qwix.LoraRule]:
    return [
        qwix.LoraRule(
            module_path=rule.module_path,
            rank=rule.rank,
            alpha=rule.alpha,
            dropout=spec.lora_dropout,
            lora_a_initializer=gaussian(rule.ranks) if spec.init_lora_weights == "gaussian" else PEFT_INIT,
            lora_b_initializer=jax.nn.initializers.zeros if spec.init_lora_weights else random_b(rule.ranks),
        )
        for rule in rules(family, config, sites)
    ]


def _inject(model: nnx.Module, provider: qwix.LoraProvider, mesh: jax.sharding.Mesh, seed: int) -> nnx.Module:
    """A copy of `model` with the provider's adapters, float32 and on the mesh.

    Qwix makes adapters in a call of the model. Here that call is only traced, and the adapters' values are drawn
    afterwards, each from its own path's key: they don't depend on the mesh or on the other adapters.
    """
    remat = getattr(getattr(model, "config", None), "remat_config", None)
    if getattr(remat, "name", "NONE") != "NONE":
        # google-tunix 0.1.7: gemma4's nnx.remat(graph_updates=False) discards parameters made inside it.
        raise ValueError(
            "apply LoRA before rt.remat: adapters made inside a rematerialised layer are lost or misplaced"
        )
    inputs = model.get_model_input()

    def adapt(model: nnx.Module) -> nnx.Module:
        return qwix.apply_lora_to_model(model, provider, rngs=nnx.Rngs(params=0, dropout=0), **inputs)

    with mesh:
        graph, shapes = nnx.split(nnx.eval_shape(adapt, model))
    state = dict(nnx.to_flat_state(nnx.state(model)))
    for path, adapter in nnx.to_flat_state(shapes):
        if path in state:
            continue
        module = "/".join(map(str, path[:-1]))
        state[path] = adapter.replace(_drawn(provider, module, path[-1], adapter, mesh, seed))
    return nnx.merge(graph, nnx.from_flat_state(state))


def _drawn(
    provider: qwix.LoraProvider, path: str, name: str, adapter: Any, mesh: jax.sharding.Mesh, seed: int
) -> jax.Array:
    """The first values of the adapter `name`, `w_lora_a`, of the module at `path`: by a key of its own."""
    rule = _rule_of(provider, path)
    initial = rule.lora_a_initializer if name.endswith("_lora_a") else rule.lora_b_initializer
    key = jax.random.fold_in(jax.random.key(seed), zlib.crc32(f"{path}/{name}".encode()))
    return jax.device_put(initial(key, adapter.get_value().shape, jnp.float32), _sharding(adapter, mesh))


def _rule_of(provider: qwix.LoraProvider, path: str) -> qwix.LoraRule:
    return next(rule for rule in provider._rules if re.fullmatch(rule.module_path, path))


def _check(model: nnx.Module, sites: Sequence[Site], family: Family, config: Mapping[str, Any]) -> None:
    """ValueError that names every linear whose adapter is missing, and every adapter that PEFT wouldn't make."""
    found = {(path, weight) for path, weight, _, _ in adapters(model)}
    wanted = {(site.path, site.weight): site for site in sites}
    layer = {linear.hf: linear.layer for linear in family.linears(config)}
    problems = [
        f"{_where(layer[block.hf])}{block.hf.rpartition('.')[2]} has no adapter (no rule matched {site.path})"
        for key, site in wanted.items()
        if key not in found
        for block in site.blocks
    ]
    problems += [f"{path} has an adapter, PEFT makes none there" for path, _ in sorted(found - set(wanted))]
    if problems:
        more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise ValueError("the LoRA rules and PEFT's targets disagree:\n  " + "\n  ".join(problems[:20]) + more)


def _check_shares(provider: LoraProvider, sites: Sequence[Site]) -> None:
    """ValueError when one rule gives linears of a fused weight a smaller rank than others: they share its rank."""
    ranks: dict[str, dict[int, Site]] = {}
    for site in sites:
        ranks.setdefault(_rule_of(provider, site.path).module_path, {})[site.blocks[0].rank] = site
    for pattern, found in ranks.items():
        if len(found) > 1:
            fused = found[min(found)]
            names, count = " and ".join(block.hf.rpartition(".")[2] for block in fused.blocks), len(fused.blocks)
            raise ValueError(
                f"the rule {pattern!r} gives {names} rank {fused.blocks[0].rank} each, as {fused.path} holds them: "
                f"give it a rule of its own, with {count} × the rank and {count} × alpha"
            )


def _where(layer: int | None) -> str:
    return "" if layer is None else f"layer {layer}: "


def _finish(
    model: nnx.Module, spec: LoraSpec, sites: tuple[Site, ...], mesh: jax.sharding.Mesh, seed: int, beyond: bool
) -> nnx.Module:
    """Zeroes B outside its blocks, gives dropout its random stream, and notes in the model what it holds."""
    masks = {site.path: block_mask(site) for site in sites if site.fused}
    for path, _, _, b in adapters(model):
        if path in masks:
            value = b.get_value()
            inside = value * masks[path].reshape(masks[path].shape + (1,) * (value.ndim - 2))
            b.set_value(jax.device_put(inside, _sharding(b, mesh)))
    model.lora = LoraInfo(spec, sites)
    sidecar.describe(model)
    return_only_changes()
    if spec.lora_dropout:
        rngs = nnx.Rngs(dropout=seed)
        # On the mesh, where the step gives them back: its second micro-batch would have it compiled once more. JAX puts
        # no keys on a mesh of several processes.
        if jax.process_count() == 1:
            everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
            nnx.update(rngs, jax.device_put(nnx.state(rngs), everywhere))
        paths = {site.path for site in sites}
        for path, module in model.iter_modules():
            if "/".join(map(str, path)) in paths:
                module.qwix_rngs = rngs
    _summary(spec, sites, beyond)
    return model


def _sharding(adapter: nnx.LoRAParam, mesh: jax.sharding.Mesh) -> jax.sharding.NamedSharding:
    """Where Qwix's annotation puts an adapter: like its base weight, with the rank whole. Optimizer state follows."""
    metadata = adapter.get_metadata()
    axes = next((metadata[key] for key in ("out_sharding", "sharding_names", "sharding") if metadata.get(key)), ())
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))


def _summary(spec: LoraSpec, sites: Sequence[Site], beyond: bool) -> None:
    """One line: how many of PEFT's linears are adapted, which, and what PEFT would adapt besides."""
    if jax.process_index() != 0:
        return
    names = dict.fromkeys(block.hf.rpartition(".")[2] for site in sites for block in site.blocks)
    count = sum(len(site.blocks) for site in sites)
    ranks = sorted({block.rank for site in sites for block in site.blocks})
    line = f"LoRA: {count} linears ({', '.join(names)}), rank {', '.join(map(str, ranks))}, alpha {spec.lora_alpha:g}"
    if beyond:
        line += "; the vision tower's, which PEFT adapts too and text never reaches, are left out"
    print(line)
