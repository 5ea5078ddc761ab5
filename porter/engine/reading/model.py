"""The model that a trainer is given: the `from_pretrained` call, branches of them, or a name → the Recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import libcst as cst

from ...recipe import Origin, Value, literal_code
from ...runtime.facts.releases.habits import fills_type
from ...source.calls import function_around, may_not_run, returned
from ...source.dictionaries.items import dict_items
from ...source.read_value import read_value
from ..packs.said_by_packs import dated_library, loader, title_of, type_keywords
from ..script.fill_from_tables import (
    argument_at,
    bindings_of,
    fill_defaults,
    fill_site,
    follow,
    judge,
    plain_versions,
    short_name,
    table_of,
    tables_of,
)
from ..script.flow import binding_origins, origins, unprepared
from ..script.following.reaching import is_behind, reaching_in_a_row
from ..script.following.several_loads import several_loads
from ..script.following.where_models_come_from import WHERE_FROM, store_of, where_from
from ..script.sites import Argument, Site, facts_of
from ..script.training import Training
from ..steps.step import Phase, step
from .checkpoints.saved_adapters import is_frozen_adapter
from .checkpoints.stored_weights import read_stored_weights
from .pack_readings import settle
from .precision import loads_float32, read_precision, read_unsaid_type
from .quantization import quantization_value, read_quantization

SETTINGS = re.compile(r"(?i)arg|cfg|conf|setting|param|opt|flag|\bhp\b|script|spec")  # whose `.model` is a name
NAMES_ONE = re.compile("name|path|id")  # of a variable that holds a model's name
MAKES_TEXT = ("os.environ.get", "os.getenv", "os.path.join", "os.path.expanduser", "os.path.abspath")

TEXT_METHODS = frozenset("strip lstrip rstrip lower replace format removeprefix removesuffix join as_posix".split())


@step(
    Phase.READ,
    of="trainer",
    reads=("script values", "arguments", "arguments_object", "preparation"),
    fills=(
        *("model", "model.*", "loads", "inject", "own_injects", "branch_injects", "foreign_model", "quantization"),
        *("memory.library_gradient_checkpointing",),
    ),
)
def read_model(porting: Training) -> None:
    """Follow the trainer's `model=` to what loads it, and through `get_peft_model` to what it wraps."""
    site, versions = porting.trainer, plain_versions(porting)
    assert site is not None
    model = site.argument("model")
    if model is None:
        porting.foreign_model = True  # in keywords that are not known, which is said
        return
    porting.inject = follow(porting, model, "inject")
    if porting.inject is not None and site.start <= porting.inject.start < site.end:
        porting.own_injects = (porting.inject,)
        site = porting.trainer = _with_inner_adapters(porting, site, porting.inject)
        model, porting.inject = site.argument("model"), None
        assert model is not None
    source = porting.inject.argument("model") if porting.inject is not None else model
    if porting.inject is None and model.reference:
        porting.inject = _rebound(porting, model, "inject")
        if porting.inject is not None:
            source = porting.inject.argument("model")
    porting.model = follow(porting, source, "model") or _rebound(porting, source, "model")
    porting.names.model = model.text if model.reference else porting.fresh("model")
    branches = several_loads(porting, source) if porting.model is None else []
    if porting.model is None and branches:
        _read_branches(porting, branches, versions)
        return
    if porting.model is not None:
        _read_loading(porting, porting.model, versions)
        return
    if not model.value.known and _is_model_object(porting, model):
        (message, fix), key = where_from(porting, model), WHERE_FROM
        if store := store_of(porting.module, model.node):
            message = f"{model.text} is one of the models in {store}, which are not followed: they stay torch's."
            fix, key = f"Make {model.text} with rt.load_model and the mesh.", ""
        if is_frozen_adapter(porting, source):
            message = f"{model.text} holds a saved adapter that isn't trained (no is_trainable=True)."
            fix = "rt.apply_adapter trains it on; to train beside it, merge it and load the merged folder."
            key = ""
        porting.find(site.rule, "error", message, fix, model.line, model.column, key=key)
        porting.foreign_model = True
        read_precision(porting)
        return
    porting.fill({"model.id": model.value})
    porting.names.model = porting.fresh("model")
    _read_init_kwargs(porting, site, versions)
    read_quantization(porting, site, versions)
    if porting.value("model.dtype") is None:
        default = "'auto'" if _keeps_type(porting, site, versions) else "'float32'"
        porting.fill({"model.dtype": Value("default", default, Origin(site.qualified, 0, 0), "")})
    read_precision(porting)


def _keeps_type(porting: Training, site: Site, versions: Mapping[str, str]) -> bool:
    """Whether a trainer that gets a model's name leaves its type to transformers, and that to the checkpoint: ORPO's
    and CPO's trainers, all of TRL's before 0.27; transformers from 5 on."""
    release = versions.get(dated_library(porting.packs))
    left = _loads_itself(porting, site) or not fills_type(release, left_alone=False)
    return left and not loads_float32(porting, versions.get(loader(porting.packs).library, "99"))


def _loads_itself(porting: Training, site: Site) -> bool:
    """Whether a kind of trainer loads a model by its name in its own way, not as the others of its library do."""
    kind = table_of(porting, site).kind
    return any(rule.kind == kind and rule.head.get("loads_itself") for rule in tables_of(porting).values())


def reaches_trainer(porting: Training, site: Site) -> bool:
    """Whether the trainer may get what a get_peft_model gives: it is bound to its variable, be it `self.model`, or in
    another function that returns it; and not behind the training alone."""
    module, trainer = porting.module, porting.trainer
    model = trainer.argument("model") if trainer is not None else None
    if model is not None and model.node is not None and is_behind(module, site.node, model.node):
        return False
    held = module.meaning(model.node) if model is not None else None
    if held is not None and site.variable == porting.names.model and site.home is held[0]:
        return True
    function = function_around(module, site.node)
    if model is None or function is None:
        return False
    whole = returned(module, function)
    values = [item.value for value in whole if isinstance(value, cst.Tuple) for item in value.elements]
    given = [value for value in [*whole, *values] if value is site.node or module.code(value) == site.variable]
    bindings = bindings_of(module, model.node)
    nodes = [node for binding in bindings for node in binding_origins(module, binding)]
    nodes += [binding.value for binding in bindings if binding.kind == "unpack" and binding.value is not None]
    nodes += origins(module, model.node)
    return bool(given) and any(isinstance(node, cst.Call) and module.callees.get(node) is function for node in nodes)


def _with_inner_adapters(porting: Training, site: Site, inject: Site) -> Site:
    """`SFTTrainer(get_peft_model(model, config))` says what `SFTTrainer(model, peft_config=config)` says."""
    config = argument_at(porting, inject, "lora.config")
    given = {"model": inject.argument("model"), **({config.name: config} if config is not None else {})}
    inner = tuple(replace(argument, name=name) for name, argument in given.items() if argument is not None)
    return replace(site, arguments=(*(own for own in site.arguments if own.name not in given), *inner))


def _read_init_kwargs(porting: Training, site: Site, versions: Mapping[str, str]) -> None:
    """`model_init_kwargs={"dtype": ...}`: what from_pretrained would be given."""
    value = porting.value("model.init_kwargs")
    if value is None:
        return
    argument = porting.arguments.argument("model_init_kwargs") if porting.arguments is not None else None
    argument = argument or (porting.trainer.argument("model_init_kwargs") if porting.trainer is not None else None)
    items: dict[str, Value] = {}
    nodes: dict[str, cst.BaseExpression] = {}
    if value.known and isinstance(value.literal, dict):
        items = {name: Value("literal", literal_code(inner), value.origin) for name, inner in value.literal.items()}
    elif argument is not None and argument.node is not None:
        pairs = dict_items(porting.module, argument.node) or ()
        nodes = dict(pairs)
        items = {name: read_value(porting.module, node) for name, node in pairs}
    table = loader(porting.packs)
    _settle_types(porting, site, versions, items)
    for name, inner in items.items():
        row = table.table.row(name)
        if quantization_value(porting, name, inner, nodes.get(name)):
            continue
        if row is not None and row.place in ("model.dtype", "model.revision"):
            porting.fill({row.place: inner})
        elif argument is not None and (row is None or judge(inner, row)[0] == "manual"):
            message = f"model_init_kwargs: {name}={inner.text or inner.code} has no counterpart in rt.load_model."
            porting.find(table.id, "error", message, "", argument.line, argument.column)


def _settle_types(porting: Training, site: Site, versions: Mapping[str, str], items: dict[str, Value]) -> None:
    """`torch_dtype` loses to a `dtype` beside it, be it the one that TRL itself puts there."""
    name, *formerly = type_keywords(porting.packs)
    former = next((each for each in formerly if each in items), "")
    older, given = items.get(former), name in items
    if older is None:
        return
    if given and items[name].is_literal(None):
        del items[name]
        return
    release = versions.get(dated_library(porting.packs)) or None
    filled = fills_type(release, left_alone=_loads_itself(porting, site))
    if not given and not filled:
        return
    del items[former]
    if given:
        return
    items[name] = Value("literal", repr(filled), older.origin, site.rule)
    if older.known and str(older.literal).rpartition(".")[2] == filled:
        return
    title = title_of(porting.packs, dated_library(porting.packs))
    dated = f"{title} {release or 'of today'}"
    meaning = "the checkpoint's type" if filled == "auto" else f"{filled} weights"
    message = (
        f"model_init_kwargs: {former}={older.text or older.code} has no effect, as {dated} fills in "
        f'{name}="{filled}", which transformers prefers: the source loads {meaning}.'
    )
    fix = f"Write {name} instead of {former} in model_init_kwargs for the type that it names."
    porting.find(site.rule, "warning", message, fix, site.line, site.column)
    porting.change_fate(".model_init_kwargs", reason=f'{former} loses to the {name}="{filled}" that {title} fills in')


def _is_model_object(porting: Training, model: Argument) -> bool:
    """Whether a model argument is rather an object than a name: made by a call, unpacked, a parameter `model`, or a
    variable `model` that nothing sets which is read here."""
    node = model.node
    if isinstance(node, cst.Call):
        return True
    if isinstance(node, cst.Name) and not bindings_of(porting.module, node):
        return not node.value.isupper() and NAMES_ONE.search(node.value) is None
    if isinstance(node, cst.Attribute):
        held = node.attr.value == "model" and porting.module.qualified(node) is None  # self.model, loader.model
        return (held and SETTINGS.search(model.text) is None) or bool(store_of(porting.module, node))
    return bool(store_of(porting.module, node)) or any(
        (isinstance(binding.value, cst.Call) and not _makes_text(porting, binding.value))
        or binding.kind == "unpack"
        or (binding.kind == "parameter" and NAMES_ONE.search(model.text) is None)
        for binding in bindings_of(porting.module, node)
    )


def _makes_text(porting: Training, call: cst.Call) -> bool:
    """Whether a call gives a name or a path: one of Python's own, a method of texts, or a function of the file that
    says so."""
    if porting.module.qualified(call.func) in MAKES_TEXT:
        return True
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in TEXT_METHODS:
        return True
    if isinstance(call.func, cst.Name) and call.func.value == "str":
        return porting.module.scope(call).lookup("str") is None
    made = [binding.node for binding in bindings_of(porting.module, call.func)]
    returns = [node.returns.annotation for node in made if isinstance(node, cst.FunctionDef) and node.returns]
    return bool(made) and len(returns) == len(made) and all(porting.module.code(each) == "str" for each in returns)


def _rebound(porting: Training, argument: Argument | None, role: str) -> Site | None:
    """The site of a name that is bound several times in a row (`model = get_peft_model(model, ...)`)."""
    if argument is None:
        return None
    made = {site.node: site for site in porting.of_role(role)}
    found = []
    name = unprepared(porting.module, argument.node)
    for binding in reaching_in_a_row(porting.module, name) if name is not None else ():
        values = binding_origins(porting.module, binding)
        site = next((made[value] for value in values if isinstance(value, cst.Call) and value in made), None)
        if site is not None and argument.node is not None:
            item = site, may_not_run(porting.module, binding, argument.node)
            found += [item] if item not in found else []
        if len(found) > 1:
            return None
    return found[0][0] if len(found) == 1 and not found[0][1] else None


def _read_loading(porting: Training, site: Site, versions: Mapping[str, str]) -> None:
    """What a from_pretrained call says of the model."""
    rule = table_of(porting, site)
    fill_site(porting, site, rule, versions)
    fill_defaults(porting, rule, versions)
    _check_named(porting, site)
    read_unsaid_type(porting, site)
    settle(porting, site)
    if site.qualified in facts_of(porting.module).loads_pair:
        read_stored_weights(porting)
    else:
        read_quantization(porting, site, versions)
    read_precision(porting)


def _check_named(porting: Training, site: Site) -> None:
    """A call that names no model, or names it in keywords that nobody knows, has None in the port and a finding."""
    if porting.value("model.id") is not None:
        return
    if not site.unknown_keywords:  # which are named already
        message = f"{short_name(site)} is called without a model's name."
        porting.find(site.rule, "error", message, "Write the name at the call.", site.line, site.column)
    porting.fill({"model.id": Value("literal", "None", Origin(porting.module.path, site.line, site.column, site.rule))})


def _read_branches(porting: Training, sites: list[Site], versions: Mapping[str, str]) -> None:
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
