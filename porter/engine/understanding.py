"""Understanding a trainer: its arguments, model, adapters and launch, wherever they are made → the Recipe."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import libcst as cst

from ..recipe import Fate, Field, Origin, Value
from ..runtime.families import Family
from ..runtime.field_tables import Row, version_key
from ..source.launch import Setting
from ..source.values import dict_items, read_value
from .collators import read_collators
from .flow import binding_origins, is_itself, unprepared
from .linear_names import read_linear_names
from .loop_trainer import read_loop_parts
from .masks import read_mask
from .objects import adapters_are_spread, is_spread
from .other_models import refuse_other_models
from .packs import Pack, TableRule
from .porting import Porting
from .quantization import quantization_value, read_preparation, read_quantization
from .reading import (
    bindings_of,
    fill_defaults,
    fill_site,
    follow,
    judge,
    object_values,
    plain_version,
    short_name,
    table_of,
    tables_by_class,
)
from .reference import read_reference
from .reward_sources import check_rewards
from .sites import PAIRS, Argument, Site, shown
from .unsloth import read_adapters, read_fast_model


def read_trainer(porting: Porting) -> None:
    """Follow the trainer's arguments to the config, the adapters and the model, and fill the recipe."""
    site = porting.trainer
    assert site is not None
    tables = tables_by_class(porting.packs)
    versions = {library: plain_version(said) for library, said in porting.versions.items()}
    arguments = site.argument("args")
    porting.arguments = follow(porting, arguments, "arguments")
    given = arguments is not None and not arguments.value.is_literal(None)
    config, table = porting.arguments, table_of(porting, porting.arguments) if porting.arguments is not None else None
    porting.config = config
    if arguments is not None and given and not is_spread(porting, arguments, config, table):
        made_here = re.fullmatch(r"[\w.]+", arguments.text) is None
        porting.arguments_object = porting.fresh("training_args") if made_here else arguments.text
        porting.arguments = None
    if porting.loop is not None:
        read_loop_parts(porting, versions)
    else:
        fill_site(porting, site, table_of(porting, site), versions)
    base = tables.get(table_of(porting, site).config)
    if porting.arguments_object and base is not None:
        if config is not None and table is not None:
            fill_site(porting, replace(config, unknown_keywords=""), table, versions)
        if _holds_plain_arguments(porting, site):
            plain = tables["transformers.TrainingArguments"]
            porting.fill(object_values(plain.table.rows(versions), porting.arguments_object))
            fill_defaults(porting, base, versions)
        else:
            _say_trainers_own(porting, site, base)
            porting.fill(object_values(base.table.rows(versions), porting.arguments_object))
            own = {row.place: argument.value for argument, row in _data_keywords(porting, site)}
            porting.fill(own)
        _say_object(porting, arguments)
    elif porting.arguments is not None:
        rule = table_of(porting, porting.arguments)
        fill_site(porting, porting.arguments, rule, versions)
        fill_defaults(porting, rule, versions)
    if base is not None and not porting.arguments_object:
        fill_defaults(porting, base, versions)
    if table_of(porting, site).kind == "sft":
        _unset_length(porting, versions.get("trl", ""))
        read_mask(porting, site)
    if table_of(porting, site).kind == "causal-lm":
        read_collators(porting, versions)
        refuse_other_models(porting)
        if not given:
            porting.fill({"run.output_dir": Value("default", "'tmp_trainer'")})  # what Trainer makes its arguments with
    if table_of(porting, site).kind in ("grpo", "rloo"):
        check_rewards(porting, site)
    _read_fsdp_config(porting)
    _refuse_datasets(porting, site)
    _read_model(porting, site, versions)
    read_reference(porting, site, versions)
    _read_lora(porting, versions)


def _holds_plain_arguments(porting: Porting, site: Site) -> bool:
    """Whether the config object of a preference trainer is one of transformers' TrainingArguments: the trainer itself
    is given what a DPOConfig holds since TRL 0.9, `beta=0.1`."""
    rule = table_of(porting, site)
    rows = [rule.table.row(argument.name) for argument in site.arguments]
    return rule.kind == "dpo" and any(row is not None and row.until == "0.13" for row in rows)


def _unset_length(porting: Porting, version: str) -> None:
    """TRL before 0.15 cut at 1024 tokens when no length was given, 0.9 at the tokenizer's own limit."""
    value = porting.value("data.max_length")
    if value is None or not value.is_literal(None) or not version or version_key(version) >= (0, 15):
        return
    if (0, 9) <= version_key(version) < (0, 10):
        return
    porting.fill({"data.max_length": Value("default", "1024", value.origin)})
    for source in ("SFTTrainer.max_seq_length", "SFTConfig.max_seq_length"):
        porting.change_fate(source, fate="changed", reason=f"TRL {version} takes 1024 for None")


def _read_fsdp_config(porting: Porting) -> None:
    """`fsdp_config={"activation_checkpointing": True}`, or the JSON file that it names, asks for remat."""
    value = porting.value("mesh.fsdp_config")
    if value is None or not value.known or not value.literal:
        return
    settings = value.literal
    if isinstance(settings, str):
        file = Path(porting.module.path).parent / settings
        try:
            settings = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
            message = f"fsdp_config={value.text or value.code}: the file can't be read ({error})."
            porting.find("TP301", "error", message, "Put it beside the script.", line, column)
            return
    if isinstance(settings, dict) and settings.get("activation_checkpointing") in (True, "true", "True"):
        porting.fill({"memory.fsdp_activation_checkpointing": Value("literal", "True", value.origin)})


def _refuse_datasets(porting: Porting, site: Site) -> None:
    """Several evaluation sets by name: transformers evaluates each on its own, Tunix one."""
    argument = site.argument("eval_dataset")
    bindings = bindings_of(porting.module, argument.node) if argument is not None else []
    for node in (argument.node if argument is not None else None, *(binding.value for binding in bindings)):
        called = isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "dict"
        if argument is not None and (called or isinstance(node, cst.Dict | cst.DictComp)):
            reason = "Tunix evaluates one dataset while it trains"
            porting.change_fate(".eval_dataset", fate="manual", target="", reason=reason)
            message = f"{short_name(site)}.eval_dataset={shown(argument.text)}: {reason}."
            fix = "Choose one here, and evaluate the others with rt.evaluate after training."
            porting.find(site.rule, "error", message, fix, argument.line, argument.column)
            return


def _say_trainers_own(porting: Porting, site: Site, base: TableRule) -> None:
    """Keywords of an older trainer (`model_init_kwargs=`) beside a config object: the object has to hold them."""
    names = {row.place: row.name for row in base.table.rows().values() if row.place}
    written = {argument.name for argument, _ in _data_keywords(porting, site)}
    for argument in site.arguments:
        if argument.name in written:
            continue
        row = table_of(porting, site).table.row(argument.name)
        name = names.get(row.place) if row is not None else None
        if name is None or name in ("dataset_text_field",) or argument.value.is_literal(None):
            continue
        source = f"{short_name(site)}.{argument.name}={argument.text}"
        message = f"{source}: the port reads it from {porting.arguments_object}."
        fix = f"Set {porting.arguments_object}.{name} before the trainer is made."
        porting.find(site.rule, "error", message, fix, argument.line, argument.column)


def _data_keywords(porting: Porting, site: Site) -> list[tuple[Argument, Row]]:
    """The trainer's own keywords that say how rows are prepared, `max_seq_length=`: they win over the config's."""
    table = table_of(porting, site).table
    rows = [(argument, table.row(argument.name)) for argument in site.arguments]
    prepared = (
        "data.max_length",
        "data.text_field",
        "data.packing",
        "data.num_proc",
        "data.kwargs",
        "data.eval_packing",
    )
    return [
        (argument, row)
        for argument, row in rows
        if row is not None and row.place in prepared and not argument.value.is_literal(None)
    ]


def _say_object(porting: Porting, argument: Argument | None) -> None:
    assert argument is not None
    reason = "decided when the script runs: same flags, YAML and defaults; what has no counterpart is refused at start"
    target = f"{porting.runtime_module('arguments')}, read where each value is used"
    assert porting.trainer is not None
    rule = table_of(porting, porting.trainer).id
    source = f"{short_name(porting.trainer)}.args"
    porting.fate(Field(source, argument.text, "exact", target, reason, rule, argument.line, argument.column))


MAKES_TEXT = ("os.environ.get", "os.getenv", "os.path.join", "os.path.expanduser", "os.path.abspath")


def _read_model(porting: Porting, site: Site, versions: Mapping[str, str]) -> None:
    model = site.argument("model")
    read_preparation(porting, versions)
    if model is None:
        porting.foreign_model = True  # in keywords that are not known, which is said
        return
    porting.inject = follow(porting, model, "inject")
    if porting.inject is not None and site.start <= porting.inject.start < site.end:
        porting.own_injects = (porting.inject,)
        site = porting.trainer = _with_inner_adapters(site, porting.inject)
        model, porting.inject = site.argument("model"), None
        assert model is not None
    source = porting.inject.argument("model") if porting.inject is not None else model
    if porting.inject is None and model.reference:
        porting.inject = _rebound(porting, model, "inject")
        if porting.inject is not None:
            source = porting.inject.argument("model")
    porting.model = follow(porting, source, "model") or _rebound(porting, source, "model")
    porting.names.model = model.text if model.reference else porting.fresh("model")
    branches = _in_branches(porting, source) if porting.model is None else []
    if porting.model is None and branches:
        _read_branches(porting, branches, versions)
        return
    if porting.model is not None:
        _read_loading(porting, porting.model, versions)
        return
    if not model.value.known and _is_model_object(porting, model):
        message = f"{model.text}: where this model comes from is not a from_pretrained call in this file."
        fix = f"Make {model.text} with rt.load_model and the mesh."
        porting.find(site.rule, "error", message, fix, model.line, model.column)
        porting.foreign_model = True
        _precision(porting)
        return
    porting.fill({"model.id": model.value})
    porting.names.model = porting.fresh("model")
    _read_init_kwargs(porting)
    read_quantization(porting, site, versions)
    if porting.value("model.dtype") is None:
        kept = table_of(porting, site).kind in ("orpo", "cpo")  # these load a name as transformers does
        default = "'auto'" if kept else "'float32'"
        porting.fill({"model.dtype": Value("default", default, Origin(site.qualified, 0, 0), "")})
    _precision(porting)


def _with_inner_adapters(site: Site, inject: Site) -> Site:
    """`SFTTrainer(get_peft_model(model, config))` says what `SFTTrainer(model, peft_config=config)` says."""
    given = {"model": inject.argument("model"), "peft_config": inject.argument("peft_config")}
    inner = tuple(replace(argument, name=name) for name, argument in given.items() if argument is not None)
    return replace(site, arguments=(*(own for own in site.arguments if own.name not in given), *inner))


def _read_init_kwargs(porting: Porting) -> None:
    """`model_init_kwargs={"dtype": ...}`: what from_pretrained would be given."""
    value = porting.value("model.init_kwargs")
    if value is None:
        return
    argument = porting.arguments.argument("model_init_kwargs") if porting.arguments is not None else None
    argument = argument or (porting.trainer.argument("model_init_kwargs") if porting.trainer is not None else None)
    items: dict[str, Value] = {}
    nodes: dict[str, cst.BaseExpression] = {}
    if value.known and isinstance(value.literal, dict):
        items = {name: Value("literal", repr(inner), value.origin) for name, inner in value.literal.items()}
    elif argument is not None and argument.node is not None:
        pairs = dict_items(porting.module, argument.node) or ()
        nodes = dict(pairs)
        items = {name: read_value(porting.module, node) for name, node in pairs}
    table = next((rule for pack in porting.packs for rule in pack.tables if rule.role == "model"), None)
    for name, inner in items.items():
        row = table.table.row(name) if table is not None else None
        if quantization_value(porting, name, inner, nodes.get(name)):
            continue
        if row is not None and row.place in ("model.dtype", "model.revision"):
            porting.fill({row.place: inner})
        elif argument is not None and table is not None and (row is None or judge(inner, row)[0] == "manual"):
            message = f"model_init_kwargs: {name}={inner.text or inner.code} has no counterpart in rt.load_model."
            porting.find(table.id, "error", message, "", argument.line, argument.column)


def _is_model_object(porting: Porting, model: Argument) -> bool:
    """Whether a model argument is rather an object than a name: made by a call, unpacked, or a parameter `model`."""
    node = model.node
    if isinstance(node, cst.Call):
        return True
    if isinstance(node, cst.Attribute):
        return model.text == "self.model"
    return any(
        (isinstance(binding.value, cst.Call) and porting.module.qualified(binding.value.func) not in MAKES_TEXT)
        or binding.kind == "unpack"
        or (binding.kind == "parameter" and re.search("name|path|id", model.text) is None)
        for binding in bindings_of(porting.module, node)
    )


def _rebound(porting: Porting, argument: Argument | None, role: str) -> Site | None:
    """The site of a name that is bound several times in a row (`model = get_peft_model(model, ...)`)."""
    if argument is None:
        return None
    made = {site.node: site for site in porting.sites if site.role == role}
    found = []
    for binding in bindings_of(porting.module, unprepared(porting.module, argument.node)):
        values = binding_origins(porting.module, binding)
        site = next((made[value] for value in values if isinstance(value, cst.Call) and value in made), None)
        if site is not None and (site, binding.conditional) not in found:
            found.append((site, binding.conditional))
    return found[0][0] if len(found) == 1 and not found[0][1] else None


def _read_loading(porting: Porting, site: Site, versions: Mapping[str, str]) -> None:
    """What a from_pretrained call says of the model."""
    rule = table_of(porting, site)
    fill_site(porting, site, rule, versions)
    fill_defaults(porting, rule, versions)
    if site.qualified in PAIRS:
        read_fast_model(porting, site)
    else:
        read_quantization(porting, site, versions)
    _precision(porting)


def _read_branches(porting: Porting, sites: list[Site], versions: Mapping[str, str]) -> None:
    """`if ...: model = from_pretrained(a) else: model = from_pretrained(b)`: each is loaded as it says."""
    before = porting.recipe.values
    for site in sites:
        porting.recipe = replace(porting.recipe, values=before)
        porting.model = site
        _read_loading(porting, site, versions)
        porting.loads[site.node] = porting.recipe.values
    porting.model = sites[0]
    values = dict(porting.loads[sites[0].node])
    if len({porting.loads[site.node]["model.id"].code for site in sites}) > 1:
        values["model.id"] = Value("expression", f"{porting.names.model}.porter.id")
    porting.recipe = replace(porting.recipe, values=values)


def _in_branches(porting: Porting, argument: Argument | None) -> list[Site]:
    """The from_pretrained calls of which a variable holds one or another; none where it may hold something else."""
    module = porting.module
    found: list[Site] = []
    node = unprepared(module, argument.node) if argument is not None else None
    for binding in bindings_of(module, node):
        values = list(binding_origins(module, binding))
        made = [site for site in porting.sites if site.role in ("model", "inject") and site.node in values]
        if made:
            found += [site for site in made[:1] if site.role == "model" and site not in found]
        elif node is None or not (is_itself(module, binding, node) or _is_none(binding.value)):
            return []
    return found


def _is_none(value: cst.BaseExpression | None) -> bool:
    return isinstance(value, cst.Name) and value.value == "None"


def _precision(porting: Porting) -> None:
    """Weights and compute type of the model: what the source loads, and what autocast multiplies in."""
    dtype = porting.value("model.dtype")
    weights = _dtype_name(dtype)
    half = porting.known("precision.bf16", "?"), porting.known("precision.fp16", "?")
    if dtype is not None and weights is None and not dtype.is_literal(None, "auto"):
        porting.fill({"model.weights": Value("expression", dtype.text or dtype.code, dtype.origin)})
        return
    autocast = half[0] is True or half[1] is True or (half[0] is None and half[1] is not True)
    if weights == "float16":
        source = f"{short_name(porting.model)}.dtype" if porting.model is not None else "dtype"
        reason = "a TPU computes in bfloat16, which needs no loss scaling"
        for name in (source, source.replace("dtype", "torch_dtype")):
            porting.change_fate(name, fate="changed", target="rt.load_model(dtype=jnp.bfloat16)", reason=reason)
        weights = "bfloat16"
    config = porting.trainer.argument("peft_config") if porting.trainer is not None else None
    lora = porting.inject is not None or follow(porting, config, "lora") is not None
    lora = lora and not porting.full_elsewhere
    full = not lora and (config is None or config.value.is_literal(None))
    if full and weights in (None, "bfloat16") and autocast and _under_fsdp(porting):
        # accelerate makes trained parameters float32 when FSDP runs in mixed precision.
        reason = "float32 weights and bfloat16 products, as accelerate prepares a trained model under FSDP"
        porting.fill({"model.weights": Value("literal", "'float32'"), "model.compute": Value("literal", "'bfloat16'")})
        for keyword in (".dtype", ".torch_dtype"):
            porting.change_fate(keyword, fate="changed", target="rt.load_model(dtype=, compute_dtype=)", reason=reason)
        return
    if weights is None:
        return
    name = _name_of_type(porting) if weights == _dtype_name(dtype) else ""
    values = {"model.weights": Value("literal", repr(weights), dtype.origin if dtype else None, name)}
    if weights == "float32" and autocast and "?" not in half:
        if lora:
            values["model.weights"] = Value("literal", "'bfloat16'")
            reason = "autocast multiplies the frozen weights in bfloat16: they are kept so, the adapters in float32"
        else:
            values["model.compute"] = Value("literal", "'bfloat16'")
            reason = "float32 weights, bfloat16 products, as autocast computes"
        porting.change_fate(".bf16", fate="changed", target="rt.load_model(dtype=, compute_dtype=)", reason=reason)
    porting.fill(values)


def _under_fsdp(porting: Porting) -> bool:
    """Whether the GPU run sharded its weights: by the launch config or by `fsdp=`."""
    launched = str(porting.known("mesh.distributed_type", "")).rsplit(".", 1)[-1].upper() in ("FSDP", "DEEPSPEED")
    return launched or bool(porting.known("mesh.fsdp"))


def settle_compute_type(porting: Porting, family: Family | None) -> None:
    """A family of Tunix that computes in its weights' type can't multiply float32 weights in bfloat16."""
    if family is None or family.compute_dtype or porting.value("model.compute") is None or porting.trainer is None:
        return
    porting.fill({"model.compute": Value("literal", "None")})
    reason = (
        f"Tunix's {family.model_class} computes in its weights' type: float32 as they are, where autocast took bfloat16"
    )
    porting.change_fate(".bf16", fate="changed", target="rt.load_model(dtype=jnp.float32)", reason=reason)
    fix = "Load the weights in bfloat16 for half the memory; the updates are rounded then."
    porting.find("TP302", "info", f"{reason}.", fix, porting.trainer.line, porting.trainer.column)


def _name_of_type(porting: Porting) -> str:
    """The source's own name of the model's type, `DTYPE = torch.bfloat16`, which is JAX's type in the port."""
    argument = porting.model.argument("dtype", "torch_dtype") if porting.model is not None else None
    if argument is None or not isinstance(argument.node, cst.Name):
        return ""
    binding = porting.module.single_binding(argument.node)
    value = binding.value if binding is not None else None
    made = isinstance(value, cst.Attribute) and (porting.module.qualified(value) or "").startswith("torch.")
    return argument.text if made else ""


TYPE_NAME = r"b?float(16|32)?|half"


def _dtype_name(value: Value | None) -> str | None:
    """`bfloat16` for `torch.bfloat16`, `"bfloat16"` and the like; None when the checkpoint or the script decides."""
    if value is None:
        return None
    name = str(value.literal).removeprefix("torch.") if value.known else ""
    return {"float": "float32", "half": "float16"}.get(name, name) if re.fullmatch(TYPE_NAME, name) else None


def _read_lora(porting: Porting, versions: Mapping[str, str]) -> None:
    site = porting.inject or porting.trainer
    assert site is not None
    if table_of(porting, site).head.get("adapters"):
        read_adapters(porting, site, versions)
        return
    config = site.argument("peft_config")
    if config is None or config.value.is_literal(None):
        return
    made = follow(porting, config, "lora")
    if made is None:
        porting.lora_object = config.text
        return
    rule = table_of(porting, made)
    porting.lora_certain = True
    if adapters_are_spread(porting, config, made, rule, site):
        porting.lora = made
        fill_site(porting, made, rule, versions)
        fill_defaults(porting, rule, versions)
        read_linear_names(porting, made)
        return
    porting.lora_object = config.text
    fill_site(porting, replace(made, unknown_keywords=""), rule, versions)
    name = config.text if config.reference is not None else porting.fresh("peft_config")
    porting.fill(object_values(rule.table.rows(versions), name))
    target, reason = "rt.apply_peft", "decided when the script runs; what has no counterpart is refused at start"
    porting.change_fate(".peft_config", target=target, reason=reason)


def launch_row(rule: TableRule | None, setting: Setting) -> Row | None:
    """The row of a launch setting; of `zero_optimization.x` without one, that of `zero_optimization`."""
    name = setting.row or setting.name
    while rule is not None and name:
        if (row := rule.table.row(name)) is not None:
            return row
        name = name.rpartition(".")[0]
    return None


def read_launch(porting: Porting, packs: tuple[Pack, ...], settings: tuple[Setting, ...]) -> None:
    """The launch config's processes and settings, each with its fate."""
    tables = {rule.table.name: rule for pack in packs for rule in pack.tables if rule.role == "launch"}
    values: dict[str, Value] = {}
    for setting in settings:
        rule = tables.get(setting.table)
        row = launch_row(rule, setting)
        name = rule.id if rule is not None else ""
        value = Value("literal", repr(setting.value), Origin(str(setting.file), setting.line, 1, name))
        source = f"{setting.file.name}: {setting.name}"
        fate: Fate = "dropped"
        reason, target = "a setting of the GPU launcher", ""
        if row is None and setting.table == "accelerate.deepspeed_config":
            fate, reason = "manual", "no setting of DeepSpeed's that tpu-port knows"
        if row is not None:
            fate, reason = judge(value, row)
            target = row.target if fate != "dropped" else ""
            if row.place:
                values[row.place] = value
        if fate == "manual" and porting.trainer is not None:
            message = f"{source}={setting.value}: {reason}."
            porting.find(name, "error", message, "", porting.trainer.line, porting.trainer.column)
        porting.fate(Field(source, str(setting.value), fate, target, reason, name, setting.line, 1))
    if porting.options.processes is not None:
        values["mesh.processes"] = Value("literal", str(porting.options.processes))
    elif "mesh.processes" not in values and porting.trainer is not None:
        values["mesh.processes"] = Value("default", "1")
        message = "No launch config: the GPU run is taken to be one process, which decides the effective batch."
        fix = "Give --launch-config FILE or --processes N if it had more."
        porting.find("TP401", "info", message, fix, porting.trainer.line, porting.trainer.column)
    porting.fill(values)
    if _under_fsdp(porting) and not porting.arguments_object:
        _precision(porting)
    mixed = porting.known("mesh.mixed_precision")
    if mixed in ("bf16", "fp16") and not porting.arguments_object:  # the launcher's word is the last one
        porting.fill({"precision.bf16": Value("literal", "True")})
        _precision(porting)
