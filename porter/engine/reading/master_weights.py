"""Whether DeepSpeed or FSDP trains float32 weights, whatever type a script loads them in.

Both do in mixed precision: DeepSpeed holds float32 weights beside its bfloat16 ones, accelerate casts those that FSDP
trains. Who shards, and whether in mixed precision, the launch config says, or the arguments, or a file that these name.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace

import libcst as cst

from ...recipe import Value, read_literal
from ...source.calls import set_by_name
from ...source.launch.launch_config import Setting
from ...text.expressions import atom, choice, names_in
from ..packs.said_by_packs import type_keywords
from ..script.fill_from_tables import argument_at, config_table, plain_versions, short_name, table_of
from ..script.sites import Argument, Site, facts_of
from ..script.training import Training
from ..script.uses_of_training import uses
from .precision import shards_as_launched

RULE = "TP302"
MASTERS = "model.masters"
SHARDS = ("mesh.zero", "mesh.fsdp")
HALVES = {"precision.bf16": "bf16", "precision.fp16": "fp16"}
SAID = "DeepSpeed and FSDP train float32 weights in mixed precision"
# Known, or the code that tells when the script runs.
Term = bool | str


def each_load(porting: Training) -> Iterator[Training]:
    """The training itself, or for each branch that loads its model a copy with the branch's values in the recipe."""
    if not porting.loads:
        yield porting
        return
    values = porting.recipe.values
    shared = {place: value for place, value in values.items() if not place.startswith("model.")}
    for site in [site for site in porting.sites if site.node in porting.loads]:
        own = {place: value for place, value in porting.loads[site.node].items() if place.startswith("model.")}
        view = copy(porting)
        view.model, view.recipe = site, replace(porting.recipe, values={**shared, **own})
        yield view
        porting.loads[site.node], porting.fields = view.recipe.values, view.fields
    if porting.model is not None:
        chosen = porting.loads[porting.model.node]
        porting.fill({place: chosen[place] for place in ("model.weights", "model.compute") if place in chosen})


def settle_masters(porting: Training, settings: Sequence[Setting]) -> None:
    """float32 weights where they are surely trained so, a condition where the arguments say; a warning where neither
    can be written at the model's line."""
    site = porting.model
    if porting.foreign_model or porting.value("model.quantization") is not None:
        return
    if porting.loop is not None:
        _settle_products(porting, settings)
        return
    if site is not None and site.qualified in facts_of(porting.module).loads_pair:
        return
    shards, frozen = _is_sharded(porting), _is_frozen(porting)
    if site is None and porting.arguments_object:  # rt.load_arguments decides by the object
        told = {"model.sharded": shards is True, "model.frozen": frozen}
        for place, term in told.items():
            if term is not False:
                porting.fill({place: Value("literal", "True") if term is True else Value("expression", str(term))})
        return
    masters = _are_float32(porting, settings)
    if masters is False:
        _settle_products(porting, settings)
        return
    target = "rt.load_model(dtype=, compute_dtype=)"
    if masters is True:
        reason = f"float32 weights and bfloat16 products: {SAID}"
        porting.fill({"model.weights": Value("literal", "'float32'"), "model.compute": Value("literal", "'bfloat16'")})
        _change_types(porting, target, reason)
        return
    weights = porting.value("model.weights")
    if weights is not None and weights.is_literal("float32"):
        _settle_products(porting, settings)
        return
    if site is not None and not _is_read_at(porting, site, masters):
        masters = _are_float32(porting, settings, by_config=True)
    assert isinstance(masters, str)
    if site is None or _is_read_at(porting, site, masters):
        porting.fill({MASTERS: Value("expression", masters)})
        _change_types(porting, "rt.load_model(**rt.weight_types())", f"float32 where {masters}: {SAID}")
        return
    code = "dtype=jnp.float32, compute_dtype=jnp.bfloat16"
    message = f"{SAID}, and these are loaded in another type: whether so is decided behind this line ({masters})."
    fix = f"Give rt.load_model {code} if that holds, or decide it before the model is loaded."
    porting.find(RULE, "warning", message, fix, site.line, site.column)
    _change_types(porting, target, f"as it is loaded, also where {masters}: {SAID}; give it {code} there")


def _settle_products(porting: Training, settings: Sequence[Setting]) -> None:
    """bfloat16 products of float32 weights where a kept config surely asks for them, or the run decides that:
    `bf16=args.bf16`."""
    site, weights = porting.model, porting.value("model.weights")
    if site is None or weights is None or not weights.is_literal("float32") or _is_frozen(porting) is not False:
        return
    halved = _is_halved(porting, settings, by_config=False)
    if halved is True and porting.value("model.compute") is None:
        porting.fill({"model.compute": Value("literal", "'bfloat16'")})
        reason = "float32 weights, bfloat16 products, as autocast computes"
        for name in (".bf16", ".fp16"):
            porting.change_fate(name, fate="changed", target="rt.load_model(compute_dtype=)", reason=reason)
        return
    if isinstance(halved, str) and not _is_read_at(porting, site, halved):
        halved = _is_halved(porting, settings, by_config=True)
    if not isinstance(halved, str):
        return
    reason = f"float32 weights, and bfloat16 products where {halved}, as autocast computes"
    if _is_read_at(porting, site, halved):
        porting.imports.add("import jax.numpy as jnp")
        porting.fill({"model.compute": Value("expression", choice(halved, "jnp.bfloat16", "None"))})
    else:
        message = f"Autocast multiplies in bfloat16 where {halved}, which is decided behind this line."
        fix = (
            f"Give rt.load_model compute_dtype=jnp.bfloat16 if {halved} holds, or decide it before the model is loaded."
        )
        porting.find(RULE, "warning", message, fix, site.line, site.column)
        reason = f"float32 products, also where {halved}; give rt.load_model compute_dtype=jnp.bfloat16 there"
    for name in (".bf16", ".fp16", ".autocast"):
        porting.change_fate(name, fate="changed", target="rt.load_model(compute_dtype=)", reason=reason)


def _are_float32(porting: Training, settings: Sequence[Setting], *, by_config: bool = False) -> Term:
    """Whether trained weights are float32; `by_config`: in the words of the call that makes a kept config."""
    frozen = _is_frozen(porting)
    trained: Term = not frozen if isinstance(frozen, bool) else frozen.replace(" is not None", " is None")
    halved = _is_halved(porting, settings, by_config)
    return _both(_both(_is_sharded(porting, by_config), halved), trained)


def _is_sharded(porting: Training, by_config: bool = False) -> Term:
    """Whether the GPU run shards its weights: by the launch config, or by `deepspeed=` or `fsdp=`."""
    if shards_as_launched(porting):
        return True
    names = {row.place: name for name, row in config.table.rows().items()} if (config := config_table(porting)) else {}
    return _either([_term(porting, place, names.get(place, ""), by_config) for place in SHARDS])


def _is_frozen(porting: Training) -> Term:
    """Whether adapters are trained, and the weights below them are not."""
    config = argument_at(porting, porting.trainer, "lora.config") if porting.trainer is not None else None
    if porting.full_elsewhere:
        return False
    if porting.inject is not None or porting.lora is not None or porting.lora_certain:
        return True
    if config is None or config.value.known:
        return False
    return f"{atom(config.text)} is not None"


def _is_halved(porting: Training, settings: Sequence[Setting], by_config: bool) -> Term:
    """Whether training is in mixed precision: the launcher's, DeepSpeed's own, which has to equal the arguments',
    or theirs."""
    own = any(setting.name in ("bf16.enabled", "fp16.enabled") and setting.value is True for setting in settings)
    if own or porting.known("mesh.mixed_precision") in ("bf16", "fp16"):
        return True
    return _either([_term(porting, place, name, by_config) for place, name in HALVES.items()])


def _term(porting: Training, place: str, name: str, by_config: bool) -> Term:
    value = porting.value(place)
    if value is None:
        return False
    if porting.arguments_object and value.code == f"{porting.arguments_object}.{name}":
        written = _written(porting, name)
        if isinstance(written, Argument):
            simple = by_config and re.fullmatch(r"[\w.]+", written.text)
            return written.text if simple else value.code
        return value.code if written is None else written
    if value.known:
        return bool(value.literal) or (value.literal is None and name == "bf16")  # TRL's None: unless fp16
    return value.text or value.code


def _written(porting: Training, name: str) -> Argument | bool | None:
    """What the call that makes a kept config surely gives it, or the argument that says; None where others decide."""
    config = porting.config
    if config is None or config.unknown_keywords or not all(each.certain for each in config.arguments):
        return None
    if config.variable is not None:
        used = uses(porting, "arguments", config.variable, config.home)
        if any(use.kind == "assign" and use.chain == name for use in used) or _is_set_by_name(porting, name):
            return None
    argument = config.argument(name)
    if argument is not None:
        value = argument.value
        if not value.known:
            return argument
        return bool(value.literal) or (value.literal is None and name == "bf16")
    row = table_of(porting, config).table.rows(plain_versions(porting)).get(name)
    if row is None or row.default is None:
        return None
    default = read_literal(row.default)
    return bool(default) or (default is None and name == "bf16")


def _is_set_by_name(porting: Training, name: str) -> bool:
    """Whether `setattr(args, "bf16", False)` or an object's dictionary may set the attribute."""
    module = porting.module
    for call in module.calls:
        if given := set_by_name(module, call):
            if not isinstance(given[1], cst.SimpleString) or given[1].evaluated_value == name:
                return True
    return re.search(r"\bvars\(|__dict__", module.text) is not None


def _either(terms: list[Term]) -> Term:
    if True in terms:
        return True
    return " or ".join(str(term) for term in terms if term is not False) or False


def _both(one: Term, other: Term) -> Term:
    if one is False or other is False:
        return False
    if one is True or other is True:
        return other if one is True else one
    return " and ".join(f"({term})" if " or " in str(term) else str(term) for term in (one, other))


def _is_read_at(porting: Training, site: Site, code: str) -> bool:
    """Whether the names of `code` mean at `site` what they mean at the trainer, and are bound above it."""
    trainer = porting.trainer
    assert trainer is not None
    names = names_in(code)
    for name in names - set(dir(builtins)):
        here, there = site.scope.lookup(name), trainer.scope.lookup(name)
        if name == "self" or here is None or there is None or here[0] is not there[0]:
            return False
        if any(porting.module.span(binding.node)[0] > site.start for binding in here[1]):
            return False
    return True


def _change_types(porting: Training, target: str, reason: str) -> None:
    model = short_name(porting.model) if porting.model is not None else ""
    for name in (*(f"{model}.{keyword}" for keyword in type_keywords(porting.packs)), ".bf16", ".fp16"):
        porting.change_fate(name, fate="changed", target=target, reason=reason)
