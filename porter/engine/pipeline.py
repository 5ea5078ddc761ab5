"""Porting one module: find the sites, read the recipe, write the target, answer the rest, put the text together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import libcst as cst

from ..errors import InputError
from ..port import Edit, Options, Port, Status
from ..recipe import Field, Origin, Recipe, Value
from ..runtime.families import Family, find_family, read_family, refusal
from ..runtime.mesh import mesh_problems
from ..source.launch import read_launch_config
from ..source.module import Module
from ..target.write import write
from .edits import apply_edits, without_inner
from .members import apply_members, uses
from .packs import Pack, load_packs
from .porting import Porting, families
from .reading import (
    bindings_of,
    fill_defaults,
    fill_site,
    find_sites,
    follow,
    judge,
    object_values,
    plain_version,
    short_name,
    table_of,
    tables_by_class,
    versions_in,
)
from .metadata import script_metadata
from .rewriting import apply_rewrites
from .sites import Argument, Site


def port_module(module: Module, options: Options) -> Port:
    """Port a parsed module. InputError for a wrong option; everything about the source becomes a finding."""
    packs = load_packs(options.rules)
    porting = Porting(module, options, packs)
    mesh = parse_mesh(options.mesh)
    find_sites(porting)
    porting.versions = versions_in(porting) if porting.sites else {}
    porting.recipe = Recipe(module.path, versions=porting.versions)
    launch = read_launch_config(options.launch_config) if options.launch_config is not None else ()
    trainers = [site for site in porting.sites if site.role == "trainer"]
    if not trainers:
        return _unchanged(porting)
    porting.trainer = trainers[0]
    if len(trainers) > 1:
        return _several(porting, trainers)
    _read_trainer(porting)
    _read_launch(porting, packs, launch)
    family, sizes = _family(porting)
    porting.recipe = _replace(
        porting.recipe, trainer=porting.trainer.qualified, target="PeftTrainer", family=family.name if family else None
    )
    refused = _refuse(porting, family)
    _check_mesh(porting, family, sizes, mesh)
    if refused:
        return _finish(porting, "unsupported")
    _scan_members(porting)
    write(porting, family, sizes, mesh)
    script_metadata(porting)
    apply_members(porting)
    _substitute_arguments(porting)
    apply_rewrites(porting)
    _check_trained(porting)
    return _finish(porting, None)


def parse_mesh(text: str | None) -> tuple[int, int] | None:
    """`fsdp=2,tp=4` → (2, 4); a missing axis is 1. InputError for anything else."""
    if text is None:
        return None
    axes = {"fsdp": 1, "tp": 1}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(fsdp|tp)\s*=\s*([1-9]\d*)\s*", part)
        if match is None:
            raise InputError(f"--mesh {text!r}: {part.strip()!r} is no axis", fix="write it as fsdp=2,tp=4")
        axes[match[1]] = int(match[2])
    return axes["fsdp"], axes["tp"]


def _replace(recipe: Recipe, **changes: Any) -> Recipe:
    from dataclasses import replace

    return replace(recipe, **changes)


def _unchanged(porting: Porting) -> Port:
    module = porting.module
    recipe = _replace(porting.recipe, fields=(), findings=())
    return Port(module.path, module.text, module.text, "unchanged", recipe, (), module.bom, module.encoding)


def _several(porting: Porting, trainers: list[Site]) -> Port:
    lines = ", ".join(str(site.line) for site in trainers)
    for site in trainers:
        message = f"{len(trainers)} trainers are made in this file (lines {lines}); one can be ported at a time."
        porting.find(site.rule, "error", message, "Split the script.", site.line, site.column)
    porting.recipe = _replace(porting.recipe, trainer=trainers[0].qualified)
    return _finish(porting, "unsupported")


def _read_trainer(porting: Porting) -> None:
    """Follow the trainer's arguments to the config, the adapters and the model, and fill the recipe."""
    site = porting.trainer
    assert site is not None
    tables = tables_by_class(porting.packs)
    versions = {library: plain_version(said) for library, said in porting.versions.items()}
    arguments = site.argument("args")
    porting.arguments = follow(porting, arguments, "arguments")
    if arguments is not None and not arguments.value.is_literal(None):
        if porting.arguments is None or not _plain_object(porting, arguments, porting.arguments):
            porting.arguments_object = arguments.text
            porting.arguments = None
    fill_site(porting, site, table_of(porting, site), versions)
    base = tables["trl.SFTConfig"] if "trl.SFTConfig" in tables else None
    if porting.arguments_object and base is not None:
        porting.fill(object_values(base.table.rows(versions), porting.arguments_object))
        _say_object(porting, arguments)
    elif porting.arguments is not None:
        rule = table_of(porting, porting.arguments)
        fill_site(porting, porting.arguments, rule, versions)
        fill_defaults(porting, rule, versions)
    if base is not None and not porting.arguments_object:
        fill_defaults(porting, base, versions)
    _read_model(porting, site, versions)
    _read_lora(porting, versions)


def _plain_object(porting: Porting, argument: Argument, config: Site) -> bool:
    """Whether a config object is only read: then its keywords can be written where they are used."""
    if config.unknown_keywords:
        return False
    if argument.reference is None:
        return True
    if config.variable is None:
        return False
    for use in uses(porting, "arguments", config.variable, config.scope):
        if use.kind == "bare" and use.name is not argument.node:
            parent = porting.module.parents[use.name]
            if not isinstance(parent, cst.Arg) or porting.module.parents[parent] is not porting.trainer.node:  # type: ignore[union-attr]
                return False
        if use.kind in ("assign", "call"):
            return False
        row = table_of(porting, config).table.row(use.chain.split(".")[0]) if use.kind == "read" else None
        if use.kind == "read" and (row is None or not row.place):
            return False
    return True


def _say_object(porting: Porting, argument: Argument | None) -> None:
    assert argument is not None
    reason = "decided when the script runs: same flags, same YAML, same defaults; what has no counterpart is refused at start"
    target = f"{porting.runtime_module('arguments')}, read where each value is used"
    rule = table_of(porting, porting.trainer).id if porting.trainer else ""
    porting.fate(Field("SFTTrainer.args", argument.text, "exact", target, reason, rule, argument.line, argument.column))


def _read_model(porting: Porting, site: Site, versions: Mapping[str, str]) -> None:
    model = site.argument("model")
    if model is None:
        return
    porting.inject = follow(porting, model, "inject")
    source = porting.inject.argument("model") if porting.inject is not None else model
    if porting.inject is None and model.reference:
        porting.inject = _rebound(porting, model, "inject")
        if porting.inject is not None:
            source = porting.inject.argument("model")
    porting.model = follow(porting, source, "model") or _rebound(porting, source, "model")
    if porting.model is not None:
        rule = table_of(porting, porting.model)
        fill_site(porting, porting.model, rule, versions)
        fill_defaults(porting, rule, versions)
        if porting.model.variable is not None:
            porting.names.model = porting.model.variable
        _precision(porting)
        return
    unresolved = isinstance(model.node, cst.Name) and not model.value.known
    if unresolved and _is_model_object(porting, model):
        message = f"{model.text}: where this model comes from is not a from_pretrained call in this file."
        fix = "Load it with rt.load_model here."
        porting.find(site.rule, "error", message, fix, model.line, model.column)
    porting.fill({"model.id": model.value})
    porting.names.model = porting.fresh("model")
    kwargs = porting.value("model.init_kwargs")
    if kwargs is not None and kwargs.known and isinstance(kwargs.literal, dict):
        for name, place in (("dtype", "model.dtype"), ("torch_dtype", "model.dtype"), ("revision", "model.revision")):
            if name in kwargs.literal:
                porting.fill({place: Value("literal", repr(kwargs.literal[name]), kwargs.origin)})
    if porting.value("model.dtype") is None:
        porting.fill({"model.dtype": Value("default", "'float32'", Origin("trl.SFTTrainer", 0, 0), "")})
    _precision(porting)


def _is_model_object(porting: Porting, model: Argument) -> bool:
    """Whether a model argument is more likely an object than a name: it is bound to a call."""
    bindings = bindings_of(porting.module, model.node)
    return bool(bindings) and any(isinstance(binding.value, cst.Call) for binding in bindings)


def _rebound(porting: Porting, argument: Argument | None, role: str) -> Site | None:
    """The site of a name bound several times in a row (`model = from_pretrained(...)`, `model = get_peft_model(model)`)."""
    if argument is None:
        return None
    bindings = bindings_of(porting.module, argument.node)
    values = {id(binding.value): binding for binding in bindings if binding.value is not None}
    found = [site for site in porting.sites if site.role == role and id(site.node) in values]
    return found[0] if len(found) == 1 and not values[id(found[0].node)].conditional else None


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
    if weights is None:
        return
    values = {"model.weights": Value("literal", repr(weights), dtype.origin if dtype else None)}
    lora = any(site.role in ("lora", "inject") for site in porting.sites)
    if weights == "float32" and autocast and "?" not in half:
        if lora:
            values["model.weights"] = Value("literal", "'bfloat16'")
            reason = "autocast multiplies the frozen weights in bfloat16: they are kept so, the adapters in float32"
        else:
            values["model.compute"] = Value("literal", "'bfloat16'")
            reason = "float32 weights, bfloat16 products, as autocast computes"
        porting.change_fate("SFTConfig.bf16", fate="changed", target="rt.load_model(dtype=, compute_dtype=)", reason=reason)
    porting.fill(values)


def _dtype_name(value: Value | None) -> str | None:
    """`bfloat16` for `torch.bfloat16`, `"bfloat16"` and the like; None when the checkpoint or the script decides."""
    if value is None:
        return None
    text = str(value.literal) if value.known else value.code
    name = text.rsplit(".", 1)[-1]
    return {"float": "float32", "half": "float16"}.get(name, name) if re.fullmatch(r"(b?float(16|32)?|half)", name) else None


def _read_lora(porting: Porting, versions: Mapping[str, str]) -> None:
    site = porting.inject or porting.trainer
    assert site is not None
    config = site.argument("peft_config")
    if config is None or config.value.is_literal(None):
        return
    porting.lora = follow(porting, config, "lora")
    if porting.lora is not None and not porting.lora.unknown_keywords:
        rule = table_of(porting, porting.lora)
        fill_site(porting, porting.lora, rule, versions)
        fill_defaults(porting, rule, versions)
        return
    porting.lora = None
    porting.lora_object = config.text


def _read_launch(porting: Porting, packs: tuple[Pack, ...], settings: tuple[Any, ...]) -> None:
    """The launch config's processes and settings, each with its fate."""
    table = next((rule for pack in packs for rule in pack.tables if rule.role == "launch"), None)
    values: dict[str, Value] = {}
    for setting in settings:
        row = table.table.row(setting.name) if table is not None else None
        file = str(porting.options.launch_config)
        value = Value("literal", repr(setting.value), Origin(file, setting.line, 1, table.id if table else ""))
        source = f"{Path(file).name}: {setting.name}"
        if row is None:
            fate, reason, target = "dropped", "a setting of the GPU launcher", ""
        else:
            fate, reason = judge(value, row)
            target = row.target if fate != "dropped" else ""
            if row.place:
                values[row.place] = value
        porting.fate(Field(source, str(setting.value), fate, target, reason, table.id if table else "", setting.line, 1))  # type: ignore[arg-type]
    if porting.options.processes is not None:
        values["mesh.processes"] = Value("literal", str(porting.options.processes))
    elif "mesh.processes" not in values and porting.trainer is not None:
        values["mesh.processes"] = Value("default", "1")
        message = "No launch config: the GPU run is taken to be one process, which decides the effective batch."
        fix = "Give --launch-config FILE or --processes N if it had more."
        porting.find("TP401", "info", message, fix, porting.trainer.line, porting.trainer.column)
    porting.fill(values)
    mixed = porting.known("mesh.mixed_precision")
    if mixed in ("bf16", "fp16") and not porting.given("precision.bf16") and not porting.arguments_object:
        porting.fill({"precision.bf16": Value("literal", "True")})
        _precision(porting)


def _family(porting: Porting) -> tuple[Family | None, Mapping[str, Any] | None]:
    """The model's family and sizes as far as the source shows them: a Hub id's name, or a local config.json."""
    identifier = porting.known("model.id")
    if not isinstance(identifier, str):
        return None, None
    extra = [read_family(path) for path in families(porting.packs)]
    folder = Path(porting.module.path).parent / identifier
    config_file = folder / "config.json"
    if config_file.is_file():
        import json

        try:
            config = json.loads(config_file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"is no model config: {error}", config_file, fix="mend it") from None
        architectures = config.get("architectures") or [None]
        family = find_family(architectures[0], config.get("model_type"), extra=extra)
        if family is None:
            _no_family(porting, f"{architectures[0] or config.get('model_type')} of {identifier}")
            return None, None
        return family, family.sizes(config)
    family = find_family(hub_id=identifier, extra=extra)
    if family is None:
        return None, None
    for path, own in zip(families(porting.packs), extra, strict=True):
        if own is family:
            porting.fill({"model.family_table": Value("literal", repr(path.name))})
    return family, family.known_sizes(identifier)


# Names of well-known models that Tunix 0.1.7 has no implementation for; anything else is decided by config.json at run time.
NOT_IN_TUNIX = (
    "mistral|mixtral|phi-?\\d|falcon|gpt2|gpt-neo|gpt-j|pythia|opt-\\d|bloom|llama-?2|llama-7b|codellama|vicuna|mpt-|olmo|granite|"
    "deepseek-(?:v|coder|llm|moe)|command-r|stablelm|starcoder|smollm|tinyllama|yi-\\d|internlm|baichuan|chatglm|t5|bart|bert|"
    "qwen1\\.5|qwen-\\d|qwen2-\\d|qwen3\\.5|glm-?\\d"
)


def _no_family(porting: Porting, what: str) -> None:
    value = porting.recipe.values["model.id"]
    line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
    from ..runtime.families import families as known_families

    names = ", ".join(sorted({family.name for family in known_families()}))
    message = f"{what}: Tunix has no implementation of this model family."
    porting.find("TP302", "error", message, f"Families that port: {names}.", line, column)


def _refuse(porting: Porting, family: Family | None) -> bool:
    """Findings that make a port pointless: a model family that Tunix has not."""
    if any(finding.rule == "TP302" and "no implementation" in finding.message for finding in porting.recipe.findings):
        return True
    identifier = porting.known("model.id")
    if not isinstance(identifier, str):
        return False
    if family is None:
        name = identifier.rstrip("/").rsplit("/", 1)[-1].lower()
        if re.search(rf"(?:^|[-_.])(?:{NOT_IN_TUNIX})", name):
            _no_family(porting, identifier)
            return True
        return False
    reason = refusal(family, identifier)
    if reason is not None:
        value = porting.recipe.values["model.id"]
        line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
        message = f"{identifier}: Tunix can't compute this model: {reason}."
        porting.find("TP302", "error", message, "Choose another model.", line, column)
    return reason is not None


def _check_mesh(
    porting: Porting, family: Family | None, sizes: Mapping[str, Any] | None, mesh: tuple[int, int] | None
) -> None:
    if mesh is None or family is None or sizes is None:
        return
    problems = mesh_problems(family, sizes, *mesh)
    if problems:
        raise InputError(f"--mesh fsdp={mesh[0]},tp={mesh[1]} does not fit {porting.known('model.id')}: {'; '.join(problems)}")


def _scan_members(porting: Porting) -> None:
    """What the writer has to know of the lines after the trainer: whether it evaluates, whether it resumes."""
    site = porting.trainer
    assert site is not None
    if site.variable is None:
        return
    porting.names.trainer = site.variable
    for use in uses(porting, "trainer", site.variable, site.scope):
        if use.match == "@trainer.evaluate()":
            porting.evaluates = True
        if use.match == "@trainer.train()":
            assert isinstance(use.outer, cst.Call)
            for argument in use.outer.args:
                text = porting.module.code(argument.value)
                if text not in ("None", "False"):
                    porting.resumes = True


def _substitute_arguments(porting: Porting) -> None:
    """Reads of a config object that is gone (`args.output_dir`) become the values that it held, also in new code."""
    site = porting.arguments
    if site is None or site.variable is None:
        return
    table = table_of(porting, site).table
    covered = [(edit.start, edit.end) for edit in porting.edits]
    for use in uses(porting, "arguments", site.variable, site.scope):
        if use.kind != "read":
            continue
        row = table.row(use.chain.split(".")[0])
        if row is None or not row.place or porting.value(row.place) is None:
            continue
        text = porting.text(row.place)
        porting.edits = [_respelled(edit, site.variable, use.chain, text) for edit in porting.edits]
        node, start, end = use.outer, *porting.module.span(use.outer)
        if any(begin <= start < stop for begin, stop in covered):
            continue
        parent = porting.module.parents[node]
        value = porting.recipe.values[row.place]
        if isinstance(parent, cst.FormattedStringExpression) and value.known and parent.format_spec is None:
            start, end = porting.module.span(parent)
            text = str(value.literal).replace("{", "{{").replace("}", "}}")
        porting.edit(start, end, text, site.rule, "the config object is spread over the port")


def _respelled(edit: Edit, variable: str, chain: str, text: str) -> Edit:
    from dataclasses import replace

    pattern = rf"(?<![\w.]){re.escape(variable)}\.{re.escape(chain)}(?!\w)"
    return replace(edit, new=re.sub(pattern, lambda _: text, edit.new))


def _check_trained(porting: Porting) -> None:
    site = porting.trainer
    assert site is not None
    if not any(edit.rule == "TP111" for edit in porting.edits):
        message = "The call of train() on this trainer was not found beside it."
        fix = f"Where it is called, write `with {porting.names.mesh}: {porting.names.trainer}.train({porting.names.batches})`."
        porting.find("TP111", "error", message, fix, site.line, site.column)


def _finish(porting: Porting, status: Status | None) -> Port:
    """Put the text together: edits, imports, TODO comments; the result has to parse."""
    module = porting.module
    edits = without_inner(porting.edits)
    if porting.trainer is not None and status is None:
        from ..target.imports import parse_import, plan_imports

        anchor = _import_anchor(porting)
        if anchor is not None:
            new = (parse_import(text) for text in porting.imports)
            plan = plan_imports(module, edits, new, porting.moved, anchor)
            edits = without_inner([*edits, *plan.edits])
            for library, line in sorted(plan.still_used.items()):
                message = f"{library} is still used here, so the port needs it installed."
                porting.find("TP001", "warning", message, f"Replace it if {library} is not on the TPU machine.", line, 1, False)
    edits = _with_todos(porting, edits)
    after = apply_edits(module.text, edits)
    if status is None:
        worst = {finding.severity for finding in porting.recipe.findings}
        status = "partial" if "error" in worst or porting.todos else "ported"
    if edits:
        try:
            cst.parse_module(after)
        except cst.ParserSyntaxError as error:
            raise InputError(f"the port would not parse ({error.message}): a defect of tpu-port", module.path) from error
    ordered = tuple(sorted(edits, key=lambda edit: edit.start))
    fields = tuple(sorted(porting.recipe.fields, key=lambda row: (row.line, row.column)))
    recipe = _replace(porting.recipe, fields=fields)
    files = _family_files(porting)
    return Port(module.path, module.text, after, status, recipe, ordered, module.bom, module.encoding, files)


def _family_files(porting: Porting) -> tuple[tuple[str, str], ...]:
    name = porting.known("model.family_table")
    return tuple(
        (path.name, path.read_text("utf-8")) for path in families(porting.packs) if name is not None and path.name == name
    )


def _import_anchor(porting: Porting) -> cst.CSTNode | None:
    """The statement that imports the trainer's class."""
    module, site = porting.module, porting.trainer
    assert site is not None
    node: cst.BaseExpression = site.node.func
    while isinstance(node, cst.Attribute):
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    found = module.scope(node).lookup(node.value)
    if found is None:
        return None
    binding = next((b for b in found[1] if b.kind == "import"), None)
    return module.statement(binding.node) if binding is not None else None


def _with_todos(porting: Porting, edits: list[Edit]) -> list[Edit]:
    """TODO comments above the statements they speak of; in front of an edit that covers the place."""
    module = porting.module
    result = list(edits)
    by_start: dict[int, list[str]] = {}
    for line, comments in sorted(porting.todos.items()):
        offset = module._line_starts[min(line, len(module._line_starts)) - 1]
        for edit in result:
            if edit.start <= offset < edit.end:
                offset = max(module.text.rfind("\n", 0, edit.start), module.text.rfind("\r", 0, edit.start)) + 1
                break
        offset = _statement_line(module, offset)
        by_start.setdefault(offset, []).extend(comments)
    for offset, comments in by_start.items():
        indent = re.compile(r"[ \t]*").match(module.text, offset)
        space = indent[0] if indent else ""
        text = "".join(f"{space}{comment}{module.newline}" for comment in dict.fromkeys(comments))
        if text.strip() and text not in module.text:
            clash = next((edit for edit in result if edit.start == offset), None)
            line, column = module.line_column(offset)
            if clash is not None:
                result.remove(clash)
                result.append(Edit(clash.start, clash.end, text + clash.new, clash.rule, clash.reason, line, column))
            else:
                result.append(Edit(offset, offset, text, "TP190", "something for a person to decide", line, column))
    return result


def _statement_line(module: Module, offset: int) -> int:
    """The start of the line on which the statement around `offset` begins."""
    best = offset
    for node in module.parents:
        if isinstance(node, cst.SimpleStatementLine):
            start, end = module.span(node)
            begin = max(module.text.rfind("\n", 0, start), module.text.rfind("\r", 0, start)) + 1
            if begin <= offset < end:
                best = min(best, begin)
    return best
