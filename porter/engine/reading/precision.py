"""In which types a model is held and multiplied: what the source loads, and what autocast and FSDP make of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import libcst as cst

from ...recipe import Value
from ...runtime.facts.argument_fields import of_its_day
from ...runtime.facts.field_tables import at_version
from ...source.machine.library_constants import constants
from ...source.project.usual.model_names import usual_value
from ...text.expressions import choice, operand, type_name
from ..packs.said_by_packs import dated_library, loader, type_keywords, type_row
from ..script.fill_from_tables import argument_at, follow, plain_version, short_name, table_of
from ..script.following.base_casts import cast_at_load
from ..script.following.may_be_none import is_something
from ..script.sites import Site, facts_of
from ..script.training import Training
from ..steps.step import Phase, step
from .kbit_preparation import preparations_of, runs_with, say_float32_between
from .quantization import quantises_when_run

BASE = "a base that isn't quantised"
CODES = "the codes are those of bfloat16 weights, 0.4 % of which are others than those of float16 ones"
PREPARED = f"PEFT makes {BASE} float32, all of it"
TYPE_NAME = r"b?float(16|32)?|half"

NARROWED = "autocast multiplies the frozen weights in bfloat16: they are kept so, the adapters in float32"


def read_precision(porting: Training) -> None:
    """Weights and compute type of the model: what the source loads, and what autocast multiplies in."""
    _read_types(porting)
    held, sites = porting.value("model.quantization"), preparations_of(porting, porting.model)
    if held is None or held.is_literal(None) or not sites:
        return
    if not held.known and (when := quantises_when_run(porting, held)):
        _prepare_when_run(porting, when, sites)
    if _is_unmixed(porting):
        say_float32_between(porting, sites[0].rule, sites[0].line, sites[0].column)


def _read_types(porting: Training) -> None:
    _read_cast(porting)
    dtype = porting.value("model.dtype")
    weights = _dtype_name(dtype)
    half = porting.known("precision.bf16", "?"), porting.known("precision.fp16", "?")
    if dtype is not None and dtype.is_literal(None) and _none_is_float32(porting):
        weights = "float32"
    autocast = under_autocast(porting)
    held = porting.value("model.quantization")
    config = argument_at(porting, porting.trainer, "lora.config") if porting.trainer is not None else None
    lora = porting.inject is not None or follow(porting, config, "lora") is not None
    lora = lora and not porting.full_elsewhere
    if lora and held is None and _is_prepared(porting, autocast) and _is_unmixed(porting):
        porting.fill({"model.weights": Value("literal", "'float32'")})
        if weights != "float32":
            for keyword in type_keywords(porting.packs):
                target = "rt.load_model(dtype=jnp.float32)"
                porting.change_fate(f".{keyword}", fate="changed", target=target, reason=PREPARED)
        return
    if dtype is not None and weights is None and not dtype.is_literal(None, "auto"):
        dtype = _unless_quantised(porting, dtype, held)
        chosen = chosen_type(porting, porting.model, dtype)
        porting.fill({"model.weights": Value("expression", chosen, dtype.origin)})
        return
    of_library = porting.model is not None and table_of(porting, porting.model).library != loader(porting.packs).library
    if dtype is not None and dtype.kind == "default" and weights == "bfloat16" and held is not None and not of_library:
        _say_codes(porting, f"{CODES}, which transformers 4 makes of a checkpoint where no type is said")
        when = quantises_when_run(porting, held) if not held.known and not (autocast and lora) else ""
        if when:  # float32 where the run quantises nothing
            porting.imports.add("import jax.numpy as jnp")
            chosen = choice(when, "jnp.bfloat16", "jnp.float32")
            porting.fill({"model.weights": Value("expression", chosen, dtype.origin)})
            if autocast:
                porting.fill({"model.compute": Value("literal", "'bfloat16'")})
            return
    if weights is None and dtype is not None and dtype.is_literal("auto") and autocast and _is_quantised(held):
        weights = "bfloat16"  # what isn't quantised computes so under autocast, whatever the checkpoint's type
    if weights == "float16":
        source = f"{short_name(porting.model)}." if porting.model is not None else ""
        reason = "a TPU computes in bfloat16, which needs no loss scaling"
        for keyword in type_keywords(porting.packs):
            porting.change_fate(
                f"{source}{keyword}", fate="changed", target="rt.load_model(dtype=jnp.bfloat16)", reason=reason
            )
        if held is not None:
            _say_codes(porting, CODES)
        weights = "bfloat16"
    full = not lora and (config is None or config.value.is_literal(None))
    if full and weights in (None, "bfloat16") and autocast and under_fsdp(porting):
        # accelerate makes trained parameters float32 when FSDP runs in mixed precision.
        reason = "float32 weights and bfloat16 products, as accelerate prepares a trained model under FSDP"
        porting.fill({"model.weights": Value("literal", "'float32'"), "model.compute": Value("literal", "'bfloat16'")})
        target = "rt.load_model(dtype=, compute_dtype=)"
        for keyword in type_keywords(porting.packs):
            porting.change_fate(f".{keyword}", fate="changed", target=target, reason=reason)
        return
    if weights is None:
        return
    name = _name_of_type(porting) if weights == _dtype_name(dtype) else ""
    values = {"model.weights": Value("literal", repr(weights), dtype.origin if dtype else None, name)}
    if weights == "float32" and autocast and "?" not in half:
        if lora:
            values["model.weights"] = Value("literal", "'bfloat16'")
            values["model.merged"] = Value("literal", "'float32'")  # in which adapters are added to it
            _say_narrowed(porting)
        else:
            values["model.compute"] = Value("literal", "'bfloat16'")
            reason = "float32 weights, bfloat16 products, as autocast computes"
            porting.change_fate(".bf16", fate="changed", target="rt.load_model(dtype=, compute_dtype=)", reason=reason)
    porting.fill(values)


def _unless_quantised(porting: Training, dtype: Value, held: Value | None) -> Value:
    """The type of a dictionary that may lack it: what transformers 4 loads without one depends on whether it quantises.

    `kw.get("torch_dtype", "float32")` → `kw.get("torch_dtype", "bfloat16")`
    """
    site, lacking = porting.model, "'float32')"
    argument = site.argument(*type_keywords(porting.packs)) if site is not None else None
    code = (dtype.text or dtype.code).replace('"float32")', lacking)
    if held is None or held.is_literal(None) or argument is None or argument.certain or unsaid_type(porting, site):
        return dtype
    if not code.endswith(lacking) or not _none_is_float32(porting):
        return dtype
    when = quantises_when_run(porting, held) if not held.known else ""
    other = choice(when, '"bfloat16"', '"float32"') if when else '"bfloat16"'
    _say_codes(porting, f"{CODES}, which transformers 4 makes of a checkpoint where no type is said")
    code = f"{code.removesuffix(lacking)}{other})"
    return replace(dtype, code=code, text=code)


def _read_cast(porting: Training) -> None:
    """A base that is cast where it is loaded is loaded in that type, where the load doesn't round it before."""
    held, dtype = porting.value("model.quantization"), porting.value("model.dtype")
    cast = cast_at_load(porting) if held is None or held.is_literal(None) else None
    if cast is None or dtype is None or not (dtype.kind == "default" or _dtype_name(dtype) == "float32"):
        return
    porting.fill({"model.dtype": cast})
    if cast.is_literal("float16") and cast.origin is not None and porting.model is not None:
        message = (
            "The GPU run's model is float16 here, the port's bfloat16: a TPU computes in that, without loss scaling."
        )
        porting.find("TP310", "info", message, "", cast.origin.line, cast.origin.column, key="float16 by a cast")


def _say_codes(porting: Training, reason: str) -> None:
    """A reason at the keyword that asks for the format, or at the config that the script doesn't make."""
    flags = [row for row in porting.fields if row.source.endswith((".load_in_4bit", ".load_in_8bit"))]
    for name in [row.source for row in flags if row.value != "False"] or [".quantization_config"]:
        porting.add_reason(name, reason)


def _say_narrowed(porting: Training) -> None:
    """That float32 weights below adapters are kept in bfloat16: at `bf16` and at their type, or at the trainer's model
    where the script writes neither and a library chose both."""
    named = f"{short_name(porting.model)}." if porting.model is not None else "."
    said = [f"{named}{keyword}" for keyword in type_keywords(porting.packs)]
    rows = [row.source for row in porting.fields if row.source.endswith(".bf16") or row.source in said]
    for source in rows:
        porting.change_fate(source, fate="changed", target="rt.load_model(dtype=, compute_dtype=)", reason=NARROWED)
    if not rows and porting.trainer is not None:
        porting.add_reason(f"{short_name(porting.trainer)}.model", NARROWED)


def _is_quantised(held: Value | None) -> bool:
    return held is not None and held.known and not held.is_literal(None)


def _is_prepared(porting: Training, autocast: bool) -> bool:
    """Whether PEFT's k-bit preparation is called, on a base that isn't quantised: all of it is float32 then."""
    sites = preparations_of(porting, porting.model)
    reason = f"{PREPARED}, and autocast multiplies it in bfloat16: it is kept so" if autocast else PREPARED
    for site in sites:
        porting.change_fate(f"{short_name(site)}.model", fate="changed", target="rt.load_model(dtype=)", reason=reason)
    if sites and autocast:
        porting.fill({"model.merged": Value("literal", "'float32'")})
    return bool(sites)


def _prepare_when_run(porting: Training, when: str, sites: list[Site]) -> None:
    """A base that only the run quantises, `when`, is float32 elsewhere, where PEFT prepares it all the same."""
    load = porting.model
    if load is None or not any(runs_with(porting.module, site, load) for site in sites):
        return
    reason = f"where the script doesn't quantise it {PREPARED.replace(BASE, 'it')}"
    weights = porting.value("model.weights")
    given = porting.value("model.dtype")
    is_chosen = weights is not None and weights.known is False and given is not None and given.kind == "default"
    if _is_unmixed(porting) and not is_chosen and not (weights is not None and weights.is_literal("float32")):
        porting.imports.add("import jax.numpy as jnp")
        own = '"auto"' if weights is None else f"jnp.{weights.literal}" if weights.known else operand(weights.code)
        chosen = choice(when, own, "jnp.float32")
        porting.fill({"model.weights": Value("expression", chosen, weights.origin if weights is not None else None)})
    elif under_autocast(porting):
        reason += ", and autocast multiplies it in bfloat16: it is kept so"
    elif not _is_unmixed(porting):  # only the run knows its bf16 and fp16
        reason += "; here it keeps the type that it is loaded in"
    for site in sites:
        porting.add_reason(f"{short_name(site)}.model", reason)


def _is_unmixed(porting: Training) -> bool:
    """Whether the script surely multiplies in the weights' own type, without autocast."""
    half = porting.known("precision.bf16", "?"), porting.known("precision.fp16", "?")
    return not under_autocast(porting) and "?" not in half


def under_autocast(porting: Training) -> bool:
    """Whether the source multiplies in half precision; where nothing is said TRL and Unsloth choose bfloat16."""
    bf16, fp16 = porting.known("precision.bf16", "?"), porting.known("precision.fp16", "?")
    return bf16 is True or fp16 is True or (bf16 is None and fp16 is not True)


def default_type(porting: Training, site: Site | None) -> str:
    """In what a call loads weights of which nothing is said, or None: as its library says (`unsaid_type` in the head
    of its table), else float32, "auto" from transformers 5 on."""
    own = unsaid_type(porting, site)
    return own or ("float32" if _none_is_float32(porting) else "auto")


def unsaid_type(porting: Training, site: Site | None) -> str:
    """The type that the library of a call loads weights in where it is given none; "" where transformers decides it."""
    return str(table_of(porting, site).head.get("unsaid_type", "")) if site is not None else ""


def read_unsaid_type(porting: Training, site: Site) -> None:
    """The type in which the library of a call loads weights where it is given none."""
    dtype, unsaid = porting.value("model.dtype"), unsaid_type(porting, site)
    if unsaid and (dtype is None or dtype.is_literal(None)):
        porting.fill({"model.dtype": Value("default", repr(unsaid), dtype.origin if dtype else None)})


def chosen_type(porting: Training, site: Site | None, dtype: Value) -> str:
    """The code of a type that is decided when the script runs; None is the type that the source's library loads it
    in: Unsloth bfloat16, transformers before 5 float32."""
    code = dtype.text or dtype.code
    argument = site.argument(*type_keywords(porting.packs)) if site is not None else None
    unsaid = default_type(porting, site)
    if unsaid == "auto" or (argument is not None and is_something(porting.module, argument.node)):
        return code
    if argument is not None and not argument.certain and not unsaid_type(porting, site):
        return code  # what a dictionary may lack has its default there
    if usual_value(code, porting.module.python, Path(porting.module.path)) is not None:
        return code  # the default of an argument or a field
    code = type_name(code, constants(porting.module))
    return f'{operand(code)} or "{unsaid}"'


def _none_is_float32(porting: Training) -> bool:
    """Whether `from_pretrained(dtype=None)` loads float32: transformers before 5, which takes the checkpoint's type."""
    release = porting.versions.get(loader(porting.packs).library)
    return release is not None and loads_float32(porting, plain_version(release))


def loads_float32(porting: Training, release: str) -> bool:
    """Whether a release of what loads models takes float32 where no type is said."""
    return at_version(type_row(porting.packs).defaults, release) == "'float32'"


def release_of_loading(porting: Training) -> str:
    """The source's transformers where the one of its TRL's day loads a model of no given type otherwise; else ""."""
    day = of_its_day(plain_version(porting.versions.get(dated_library(porting.packs), "")) or None)
    todays = day is None or not loads_float32(porting, day)
    own = plain_version(porting.versions[loader(porting.packs).library])
    return own if todays == _none_is_float32(porting) else ""


def under_fsdp(porting: Training) -> bool:
    """Whether the GPU run sharded its weights: by the launch config or by `fsdp=`."""
    return shards_as_launched(porting) or bool(porting.known("mesh.fsdp"))


def shards_as_launched(porting: Training) -> bool:
    """Whether the launch config names a way that shards weights."""
    return launched_as(porting) in facts_of(porting.module).shards_weights


def launched_as(porting: Training) -> str:
    """The launch config's way to use several devices, its `distributed_type` in small letters; "" for none."""
    return str(porting.known("mesh.distributed_type", "")).rpartition(".")[2].lower()


@step(Phase.READ, of="trainer", reads=("family", "model.weights"), settles=("model.compute",))
def settle_compute_type(porting: Training) -> None:
    """A family of Tunix that computes in its weights' type can't multiply float32 weights in bfloat16."""
    family = porting.family
    _say_products(porting)
    if family is None or family.compute_dtype or porting.value("model.compute") is None or porting.trainer is None:
        return
    porting.fill({"model.compute": Value("literal", "None")})
    reason = (
        f"Tunix's {family.model_class} computes in its weights' type: float32 as they are, where autocast took bfloat16"
    )
    porting.change_fate(".bf16", fate="changed", target="rt.load_model(dtype=jnp.float32)", reason=reason)
    fix = "Load the weights in bfloat16 for half the memory; the updates are rounded then."
    porting.find("TP302", "info", f"{reason}.", fix, porting.trainer.line, porting.trainer.column)


def _say_products(porting: Training) -> None:
    """A TPU multiplies float32 matrices in one pass of bfloat16, as JAX has it by default; a GPU in float32."""
    site = porting.trainer
    if site is None or porting.known("model.weights") != "float32" or porting.value("model.compute") is not None:
        return
    message = "Float32 weights: a TPU multiplies them in bfloat16 unless JAX is told otherwise, a GPU in float32."
    fix = 'jax.config.update("jax_default_matmul_precision", "highest") gives float32 products, in more time.'
    porting.find("TP302", "info", message, fix, site.line, site.column)


def _name_of_type(porting: Training) -> str:
    """The source's own name of the model's type, `DTYPE = torch.bfloat16`, which is JAX's type in the port."""
    argument = porting.model.argument(*type_keywords(porting.packs)) if porting.model is not None else None
    if argument is None or not isinstance(argument.node, cst.Name):
        return ""
    binding = porting.module.single_binding(argument.node)
    value = binding.value if binding is not None else None
    homes = {name.partition(".")[0] for name in constants(porting.module)}
    made = isinstance(value, cst.Attribute) and (porting.module.qualified(value) or "").partition(".")[0] in homes
    return argument.text if made else ""


def _dtype_name(value: Value | None) -> str | None:
    """`bfloat16` for `torch.bfloat16`, `"bfloat16"` and the like; None when the checkpoint or the script decides."""
    if value is None:
        return None
    name = str(value.literal).rpartition(".")[2] if value.known else ""
    return {"float": "float32", "half": "float16"}.get(name, name) if re.fullmatch(TYPE_NAME, name) else None
