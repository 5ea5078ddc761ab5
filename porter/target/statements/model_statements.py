"""The statements that make the model, its tokenizer and what stands before them in the trainer's place."""

from __future__ import annotations

import re

from ...engine.reading.checkpoints.stored_weights import check_stored_weights
from ...engine.reading.master_weights import MASTERS
from ...engine.reading.precision import chosen_type, default_type, release_of_loading, under_autocast
from ...engine.receipts.marking import given, mark, mark_keywords, mark_of, marked_code
from ...engine.script.fill_from_tables import argument_at, short_name
from ...engine.script.following.rebound import is_set_between
from ...engine.script.porting import Porting
from ...engine.script.sites import Argument, Site, facts_of, indentation
from ...engine.script.training import in_reach
from ...engine.script.uses_of_training import role_uses
from ...engine.tokens.tokenizers import tokenizer_load
from ...source.machine.library_constants import constants
from ...text.expressions import python, quoted, type_name
from ...text.layout import Arg, Call
from .common_statements import Writing, assign
from .remarks import argument_of, handed, marked, remarked, said_by

# The keywords of a BitsAndBytesConfig that say the format's name.
OF_FORMATS = ("bnb_4bit_", "llm_int8_")
OF_FAMILY = ("trust_remote_code", "pad_token_id")  # Tunix's own implementation, as config.json has it
FORMAT = ("load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type")


def moved(porting: Porting, argument: Argument, indent: str) -> str:
    """The code of an argument that stands in a statement of its own, its further lines indented as that needs."""
    text = argument.text
    text = marked_code(porting, argument.node, text)
    if argument.node is None or "\n" not in text or '"""' in text or "'''" in text:
        return text
    from_indent = indentation(porting.module.text, porting.module.span(argument.node)[0])
    first, *rest = text.split("\n")
    return "\n".join([first, *(indent + line.removeprefix(from_indent) if line.strip() else line for line in rest)])


def model_lines(porting: Porting, writing: Writing, indent: str, *, needs_tokenizer: bool = True) -> list[str]:
    """Mesh, config object, tokenizer and model, as far as the file doesn't make them before."""
    lines: list[str] = []
    if not writing.mesh_elsewhere:
        lines.append(f"{porting.names.mesh} = {writing.mesh_code}")
    site = porting.trainer
    assert site is not None
    config = site.argument("args")
    if porting.arguments_object and config is not None and config.text != porting.arguments_object:
        lines.append(f"{porting.arguments_object} = {moved(porting, config, indent)}")
    if site.argument("processing_class", "tokenizer") is None or porting.names.tokenizer == "":
        if needs_tokenizer:
            porting.names.tokenizer = own_tokenizer(porting, lines)
    elif not re.fullmatch(r"[\w.]+", porting.names.tokenizer):
        name = _tokenizer_name(porting)
        lines.append(f"{name} = {porting.names.tokenizer}")
        porting.names.tokenizer = name
    if side := porting.code.get("padding_side of the trainer"):
        lines.append(f"{porting.names.tokenizer}.padding_side = {quoted(side)}  # as the GPU run's trainer sets it")
    model = site.argument("model")
    made_here = porting.model is not None and site.start <= porting.model.start < site.end
    if made_here and porting.model is not None:
        call = load_call(porting, named_model(porting, porting.model))
        lines.append(assign(porting.names.model, call, indent))
    elif (porting.foreign_model or porting.model is not None) and model is not None and not model.reference:
        lines.append(f"{porting.names.model} = {model.text}")
    if porting.model is None and not porting.foreign_model:
        call = load_call(porting, porting.text("model.id"))
        lines.append(assign(porting.names.model, call, indent))
    return lines


def own_tokenizer(porting: Porting, lines: list[str]) -> str:
    """SFTTrainer makes its own tokenizer when it gets none; the port does so in sight."""
    name = _tokenizer_name(porting)
    site = porting.model
    far = site is not None and porting.trainer is not None and _is_far(porting, site, porting.trainer)
    model = f"{porting.names.model}.porter.id" if porting.foreign_model or far else porting.text("model.id")
    assert porting.trainer is not None
    note = "" if name == "tokenizer" else f"  # {short_name(porting.trainer)} makes its own"
    lines.append(f"{name} = {tokenizer_load(porting, model)}{note}")
    return name


def _tokenizer_name(porting: Porting) -> str:
    """`tokenizer` where neither the trainer's function nor one that uses the trainer has another of that name."""
    assert porting.trainer is not None
    scopes = [porting.trainer.scope, *(porting.module.scope(use.name) for use in role_uses(porting, "trainer"))]
    is_free = all(scope.lookup("tokenizer") is None for scope in scopes)
    return "tokenizer" if is_free else porting.fresh("trainer_tokenizer")


def _is_far(porting: Porting, load: Site, trainer: Site) -> bool:
    """Whether the name that a model is loaded by isn't its name any more where the trainer stands, or not there."""
    name = argument_at(porting, load, "model.id")
    again = name is not None and is_set_between(porting.module, name.node, trainer.node)
    return again or not in_reach(load.scope, trainer.scope)


def named_model(porting: Porting, site: Site) -> str | Argument:
    """What the port of a from_pretrained call loads: what the call names, or the weights that a mirror was made of."""
    is_pair = site.qualified in facts_of(porting.module).loads_pair
    identifier = site.argument("pretrained_model_name_or_path") if not is_pair else None
    value = porting.value("model.id")
    is_other = value is not None and value.known and identifier is not None
    if identifier is None or (is_other and value is not None and not identifier.value.is_literal(value.literal)):
        return porting.text("model.id")
    return identifier


def load_call(porting: Porting, model: str | Argument, site: Site | None = None) -> Call:
    """`rt.load_model(...)` in the precision that the source trains in.

    `site` is the call that it replaces, where several branches load the model.
    """
    first = handed(porting, model) if isinstance(model, Argument) else remarked(porting, Arg(model), "model.id")
    prepared = [site.argument("model") for site in porting.of_role("prepare")]  # frozen as it is loaded
    first = marked(first, mark_of(porting, prepared))
    arguments = [first, Arg(porting.names.mesh)]
    if porting.arguments_object and porting.model is None:
        release = release_of_loading(porting)
        kept = Arg(given(porting, "load_arguments", porting.arguments_object))
        told = [kept] + ([Arg(quoted(release), "transformers")] if release else [])
        for name in ("sharded", "frozen"):
            if porting.value(f"model.{name}") is not None:
                told.append(Arg(porting.text(f"model.{name}"), name))
        arguments.append(Arg(Call(f"**{porting.rt('load_arguments')}", told)))
        arguments += _quantization(porting)
        return Call(porting.rt("load_model"), arguments)
    for place, keyword in (("model.weights", "dtype"), ("model.compute", "compute_dtype")):
        value = porting.value(place)
        if value is None or value.is_literal(None, "auto"):
            continue
        if value.known and not value.text:
            porting.imports.add("import jax.numpy as jnp")
        written = value.text or f"jnp.{value.literal}" if value.known else None
        code = written or type_name(value.code, constants(porting.module))
        arguments.append(remarked(porting, Arg(code, keyword), place))
    masters = porting.value(MASTERS)
    if masters is not None:
        own = next((argument.value for argument in arguments if argument.name == "dtype"), "None")
        arguments = [argument for argument in arguments if argument.name not in ("dtype", "compute_dtype")]
        types = Call(f"**{porting.rt('weight_types')}", [Arg(own), Arg(masters.code, "masters")])
        arguments.append(Arg(types))
    revision = porting.value("model.revision")
    if revision is not None and not revision.is_literal(None, "main"):
        arguments.append(remarked(porting, Arg(porting.text("model.revision"), "revision"), "model.revision"))
    arguments = _with_types(porting, arguments)
    arguments += _quantization(porting)
    table = porting.known("model.family_table")
    if table is not None:
        arguments.append(Arg(python(table), "family"))
    return Call(_unsaid(porting, arguments, site or porting.model) + porting.rt("load_model"), arguments)


# What decides in which types a model is held and multiplied, beside the call that loads it.
TYPES = ("precision.bf16", "precision.fp16", "mesh.mixed_precision")


def _with_types(porting: Porting, arguments: list[Arg]) -> list[Arg]:
    """The arguments, the types in which a model is held and multiplied marked with what asked for them."""
    names = [argument.name for argument in arguments]
    asked = {"dtype": ["model.dtype"], "compute_dtype": []}
    last = next((name for name in ("compute_dtype", "dtype") if name in names), None)
    if last is not None:
        asked[last] += TYPES
    return [marked(argument, mark(porting, *asked.get(argument.name, ()))) for argument in arguments]


def _unsaid(porting: Porting, arguments: list[Arg], site: Site | None) -> str:
    """Marks of what `rt.load_model` does without a word: the checkpoint's type and revision, products in that type."""
    names = {argument.name for argument in arguments}
    places = [] if names & {"dtype", "compute_dtype"} else list(TYPES)
    for place, name, silent in (
        ("model.dtype", "dtype", (None, "auto")),
        ("model.revision", "revision", (None, "main")),
        ("model.load_in_4bit", "quantization", (None, False)),
        ("model.load_in_8bit", "quantization", (None, False)),
        ("model.load_in_16bit", "quantization", (None, True)),
        ("model.full_finetuning", "quantization", (None, True)),
        ("model.quantization_config", "quantization", (None,)),
    ):
        value = porting.value(place)
        if value is not None and name not in names and value.is_literal(*silent):
            places.append(place)
    own = mark_keywords(porting, site, *OF_FAMILY)
    return own + mark(porting, "model.init_kwargs", *places)  # of these kwargs each entry is judged where it is read


def _quantization(porting: Porting) -> list[Arg]:
    value = porting.value("model.quantization")
    if value is None:
        return []
    arg = Arg(python(value.literal) if value.known else value.code, "quantization")
    site = porting.quantization
    own = [site.argument(name) for name in FORMAT] if site is not None else []
    arg = said_by(porting, [argument_of(porting, "model.quantization"), *own], arg)
    configs = [site] if site is not None else porting.of_role("quantization") if not value.known else []
    asked = [argument for config in configs for argument in config.arguments]
    if porting.model is not None:  # handed on by from_pretrained itself
        asked += [argument for argument in porting.model.arguments if argument.name.startswith(OF_FORMATS)]
    flags = ("model.load_in_4bit", "model.load_in_8bit", "model.load_in_16bit")
    places = (*flags, "model.bnb_4bit_quant_type", "model.quantization_config")
    return [marked(arg, mark_of(porting, asked) + mark(porting, "model.quantization", *places))]


def load_by_name(porting: Porting, name: str) -> Call:
    """`rt.load_model(name, mesh)`."""
    return Call(porting.rt("load_model"), [Arg(name), Arg(porting.names.mesh)])


def other_load_call(porting: Porting, site: Site) -> Call:
    """`rt.load_model(...)` of a from_pretrained call whose model isn't trained, a reference or a teacher: with the
    type, revision and quantisation of that call alone."""
    identifier = site.argument("pretrained_model_name_or_path", "model_name")
    name = mark_of(porting, [identifier]) + identifier.text if identifier is not None else porting.text("model.id")
    name = mark_keywords(porting, site, *OF_FAMILY) + name
    if identifier is not None:
        check_stored_weights(porting, identifier.value)
    call = load_by_name(porting, name)
    call.arguments.extend(_types(porting, site))
    revision = site.argument("revision")
    if revision is not None and not revision.value.is_literal(None, "main"):
        call.arguments.append(handed(porting, revision, "revision"))
    call.arguments.extend(marked(each, mark_of(porting, site.arguments)) for each in _held(site))
    table = porting.known("model.family_table")
    if table is not None:
        call.arguments.append(Arg(python(table), "family"))
    return call


def _types(porting: Porting, site: Site) -> list[Arg]:
    """The type of frozen weights, and what autocast multiplies float32 ones in: as the trained model's are held."""
    dtype = site.argument("dtype", "torch_dtype")
    given = dtype.value if dtype is not None else None
    if given is not None and not given.known:
        chosen = type_name(chosen_type(porting, site, given), constants(porting.module))
        return [said_by(porting, [dtype], Arg(chosen, "dtype"))]
    said = None if given is None or given.is_literal(None) else str(given.literal).removeprefix("torch.")
    name = said or default_type(porting, site)
    compute = ""
    if name == "float16":
        name = "bfloat16"  # what a TPU computes in
    elif name == "float32" and under_autocast(porting):
        if porting.known("model.compute") == "bfloat16":
            compute = "bfloat16"
        elif porting.known("model.weights") != "float32":
            name = "bfloat16"  # what autocast makes of frozen weights
    if name not in ("float32", "bfloat16"):
        return []
    porting.imports.add("import jax.numpy as jnp")
    types = [said_by(porting, [dtype], Arg(f"jnp.{name}", "dtype"))]
    return [*types, Arg(f"jnp.{compute}", "compute_dtype")] if compute else types


def _held(site: Site) -> list[Arg]:
    """How frozen weights are held, by the call's config or the older keywords; `rt.load_model` reads both when the
    script runs."""
    config = site.argument("quantization_config")
    given = {name: site.argument(name) for name in FORMAT}
    there = {name: each.text for name, each in given.items() if each and not each.value.is_literal(False, None)}
    has_flag = bool(there.keys() & {"load_in_4bit", "load_in_8bit"})
    entries = ", ".join(f'"{name}": {text}' for name, text in there.items())
    if config is not None and not config.value.is_literal(None):
        beside = f" or {{{entries}}}" if has_flag and not config.certain else ""  # read where the run gives no config
        return [Arg(f"{config.text}{beside}", "quantization")]
    if not has_flag:
        return []
    return [Arg(f"{{{entries}}}", "quantization")]


def loading(porting: Porting, site: Site) -> Call:
    """`rt.load_model(...)` for a `from_pretrained(...)`."""
    return load_call(porting, named_model(porting, site), site)
