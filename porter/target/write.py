"""Writing: every site of the recipe gets what stands there afterwards."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import libcst as cst

from ..engine.assembling.per_file import behind_imports
from ..engine.libraries.bitsandbytes.quantization import check_adapters, write_preparation, write_quantization
from ..engine.libraries.peft.adapter_types import name_adapter_types
from ..engine.libraries.peft.all_linear import write_linear_names
from ..engine.libraries.peft.merged_adapters import write_merged
from ..engine.libraries.peft.saved_adapters import is_saved, say_reference
from ..engine.libraries.torch.seeds import seed_given
from ..engine.libraries.trl.uploading import say_unread
from ..engine.libraries.unsloth.responses_only import write_responses_only
from ..engine.reading.model import reaches_trainer
from ..engine.receipts.marking import given, mark, mark_of, mark_target
from ..engine.receipts.moot import say_moot
from ..engine.script.fill_from_tables import bindings_of, table_of
from ..engine.script.flow import unprepared
from ..engine.script.porting import TRAINER, Porting
from ..engine.script.reaching import is_behind
from ..engine.script.sites import PAIRS, Site, indentation
from ..engine.script.training import in_reach
from ..engine.steps.step import Phase, step
from ..recipe import Field, Value
from ..runtime.facts.families import Family
from ..runtime.facts.lora_targets import Rule
from ..text.expressions import names_in
from ..text.layout import Arg, Call, render
from . import causal_lm, distillation, grpo, loop, sft
from .common_statements import Writing
from .lora import adapters_mark, apply_call, dropout_arguments, literal_rules, provider_code, saved_call, vision_note
from .model_statements import load_call, named_model
from .pairs import write_fast_model
from .preference import KINDS, preference_block, without_dropout
from .remarks import place_headings

# How a trainer trains (`kind` in its table) → the statements that stand where it stood.
BLOCKS: Mapping[str, Callable[[Porting, Writing], str]] = {
    "sft": sft.trainer_block,
    "causal-lm": causal_lm.trainer_block,
    **dict.fromkeys(KINDS, preference_block),
    "gkd": distillation.trainer_block,
    "grpo": grpo.trainer_block,
    "rloo": grpo.trainer_block,
    "loop": loop.loop_block,
}

FUSED = ("kv_einsum", "qkv_einsum")


@step(Phase.WRITE, of="trainer", reads=("dropped", "emptied"), fills=("written",))
def write(porting: Porting) -> None:
    """Plan the edits of the model, the adapters, the config and the trainer."""
    trainer, family, sizes, mesh = porting.trainer, porting.family, porting.sizes, porting.mesh
    assert trainer is not None
    _choose_names(porting)
    without_dropout(porting)
    write_responses_only(porting)
    rules = _rules(porting, family, sizes)
    porting.fuses = _fuses(porting, family, rules)
    mesh_code = _mesh_code(porting, mesh)
    mesh_elsewhere = _write_mesh(porting, mesh_code)
    _write_model(porting)
    write_merged(porting)
    write_linear_names(porting)
    write_quantization(porting)
    write_preparation(porting)
    provider, provider_elsewhere = _write_lora(porting, family, rules)
    if porting.lora_conditional:  # only what was written shows that the script puts adapters in by itself
        porting.fuses = porting.fuses or _fuses(porting, family, None)
    check_adapters(porting)
    name_adapter_types(porting)
    _write_arguments(porting)
    processes = porting.known("mesh.processes", 1)
    writing = Writing(family, sizes, rules, mesh_code, mesh_elsewhere, provider_elsewhere, provider, int(processes))
    block = BLOCKS[table_of(porting, trainer).kind](porting, writing)
    porting.replace_statement(trainer, block, "Tunix's trainer, its data and its optimizer", part=TRAINER)
    place_headings(porting)
    say_unread(porting)
    say_moot(porting)
    _batch_sum(porting, writing, mesh)
    note = vision_note(porting, family, sizes)
    if note:
        porting.change_fate("LoraConfig.target_modules", fate="changed", reason=note)


def _choose_names(porting: Porting) -> None:
    """Names for what the port adds; the user's own names stay."""
    trainer = porting.trainer
    assert trainer is not None
    names = porting.names
    taken = porting.module.bound_names
    for attribute, choices in (("mesh", ("mesh", "tpu_mesh")), ("batches", ("batches", "train_batches"))):
        setattr(names, attribute, next((name for name in choices if name not in taken), f"{choices[0]}_"))
    names.schedule = porting.fresh("schedule", "lr_schedule")
    names.optimizer = porting.fresh("optimizer", "optax_optimizer")
    if "rt" in taken:
        names.runtime = "tpu_rt"
    tokenizer = trainer.argument("processing_class", "tokenizer")
    if tokenizer is not None and not tokenizer.value.is_literal(None):
        names.tokenizer = tokenizer.text
    else:
        names.tokenizer = ""


def _rules(porting: Porting, family: Family | None, sizes: Mapping[str, Any] | None) -> tuple[Rule, ...] | None:
    if porting.lora is None:
        return None
    try:
        return literal_rules(porting, family, sizes)
    except ValueError as error:
        site = porting.lora
        porting.find(site.rule, "error", f"LoraConfig: {error}.", "", site.line, site.column)
        return None


def _fuses(porting: Porting, family: Family | None, rules: tuple[Rule, ...] | None) -> bool:
    """Whether adapters may land on a fused K/V weight; unknown families may."""
    if not (porting.lora or porting.lora_object or porting.lora_conditional):
        return False
    if rules is not None:
        return any(name in rule.module_path for rule in rules for name in FUSED)
    if family is not None:
        return any(row.get("slots", 1) > 1 for row in family.table.get("linear", ()))
    return True


def _mesh_code(porting: Porting, mesh: tuple[int, int] | None) -> str:
    porting.imports.add("import jax")
    shape = f"({mesh[0]}, {mesh[1]})" if mesh is not None else "(jax.device_count(), 1)"
    places = ("mesh.distributed_type", "mesh.fsdp", "mesh.fsdp_config")
    marks = mark(porting, *places) + mark_target(porting, "the fsdp axis of the mesh")
    return f'{marks}jax.make_mesh({shape}, ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)'


def _write_mesh(porting: Porting, code: str) -> bool:
    """Put the mesh before the first site that needs it; True when that isn't the trainer's own statement."""
    trainer, model = porting.trainer, porting.model
    assert trainer is not None
    first = next((site for site in (model, porting.inject) if site is not None), None)
    earlier = [site for site in porting.references if first is not None and site.scope is first.scope]
    first = min((site for site in (first, *earlier) if site is not None), key=lambda site: site.start, default=None)
    far = porting.used_elsewhere or bool(porting.others) or _puts_in_elsewhere(porting)
    far = far or any(porting.module.scope(load) is not trainer.scope for load in porting.loads)
    far = far or any(site.scope is not (first or trainer).scope for site in porting.references)
    if (first is None or porting.loads) and not far:
        start = _earlier_need(porting)
        if start is None:
            return False
        text = f"{porting.names.mesh} = {code}\n{indentation(porting.module.text, start)}"
        porting.edit(start, start, text, trainer.rule, "the devices and their axes")
        return True
    if first is not None and first.scope is trainer.scope and first.variable is not None and not far:
        statement = f"{porting.names.mesh} = {code}\n{first.indent}"
        porting.edit(first.statement_start, first.statement_start, statement, first.rule, "the devices and their axes")
        return True
    offset = behind_imports(porting.module, _first_use(porting))
    space = "\n\n" if re.match(r"def |async |class |@", porting.module.text[offset:]) else ""
    text = f"\n{porting.names.mesh} = {code}\n{space}"
    porting.edit(offset, offset, text, (first or trainer).rule, "the devices and their axes")
    return True


def _first_use(porting: Porting) -> int | None:
    """Where the file, outside its functions, first makes a model, puts adapters in or makes a trainer."""
    module = porting.module
    sites = (site for role in ("model", "inject", "trainer") for site in porting.of_role(role))
    return min((site.statement_start for site in sites if site.scope.node is module.tree), default=None)


def _puts_in_elsewhere(porting: Porting) -> bool:
    """Whether a function that isn't the trainer's puts adapters in by condition."""
    trainer, own = porting.trainer, (porting.inject, *porting.own_injects)
    assert trainer is not None
    sites = [site for site in porting.of_role("inject") if site not in own]
    return any(site.scope is not trainer.scope and reaches_trainer(porting, site) for site in sites)


def _earlier_need(porting: Porting) -> int | None:
    """Where a model that this file doesn't load is made, or adapters are put in by condition, if that is before the
    trainer in its function: the start of that statement."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    nodes: list[cst.CSTNode] = [
        site.node for site in porting.sites if site.role == "inject" or site in porting.references
    ]
    nodes += porting.loads
    model = trainer.argument("model")
    if porting.foreign_model and model is not None:
        nodes += [binding.node for binding in bindings_of(module, model.node) if binding.kind in ("assign", "unpack")]
    around = set(module.ancestors(trainer.node))
    starts = []
    for node in nodes:
        if module.scope(node) is not trainer.scope:
            continue
        statement: cst.CSTNode | None = None
        for ancestor in (node, *module.ancestors(node)):
            if ancestor in around:
                break
            if isinstance(ancestor, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                statement = ancestor
        if statement is not None:
            starts.append(module.span(statement)[0])
    first = min(starts, default=trainer.statement_start)
    return first if first < trainer.statement_start else None


def _write_model(porting: Porting) -> None:
    values = porting.recipe.values
    one = [porting.model] if porting.model is not None else []
    for site in [site for site in porting.sites if site.node in porting.loads] if porting.loads else one:
        if site.node in porting.loads:
            porting.recipe = replace(porting.recipe, values=_with_model(values, porting.loads[site.node]))
        call = _load(porting, site)
        if site.qualified in PAIRS:
            write_fast_model(porting, site, call)
            continue
        before = len(site.variable) + 3 if site.variable else 0
        code = render(call, site.indent, porting.module.indent, before)
        porting.replace(site, code, "the same weights in Tunix's model")
    porting.recipe = replace(porting.recipe, values=values)


def _with_model(values: Mapping[str, Value], of_branch: Mapping[str, Value]) -> dict[str, Value]:
    """The recipe's values with what one branch says of the model."""
    kept = {place: value for place, value in values.items() if not place.startswith("model.")}
    model = {place: value for place, value in of_branch.items() if place.startswith("model.")}
    compute = values.get("model.compute")
    if compute is not None and compute.is_literal(None):  # the family computes in its weights' type
        model["model.compute"] = compute
    return {**kept, **model}


def _load(porting: Porting, site: Site) -> Call:
    """`rt.load_model(...)` for a `from_pretrained(...)`."""
    return load_call(porting, named_model(porting, site), site)


def _write_lora(porting: Porting, family: Family | None, rules: tuple[Rule, ...] | None) -> tuple[str, bool]:
    """The LoRA config's own statement and a get_peft_model call; the provider's name and whether it is made there."""
    site, inject, trainer = porting.lora, porting.inject, porting.trainer
    assert trainer is not None
    provider, elsewhere = porting.fresh("lora"), False
    if site is not None:
        user = inject if inject is not None else trainer
        own = site.variable is not None and not _inside(site, user)
        if own and site.variable is not None:
            provider = site.variable
            if rules is not None and in_reach(site.scope, user.scope):
                code = provider_code(porting, rules, family, site.indent, len(provider) + 3)
                reason = "the same layers, rank and scale under Tunix's names"
                if isinstance(porting.module.parents[site.node], cst.AnnAssign):  # `lora: LoraConfig` it is no more
                    porting.replace_statement(site, f"{provider} = {code}", reason)
                else:
                    porting.replace(site, code, reason)
                elsewhere = True
            else:
                reason = "the adapters' rules stand where the model is known"
                near = user.place == "line" and user.scope is site.scope
                module = porting.module
                blocks = {module.parents[module.statement(each.node)] for each in (site, user)}
                if near and user is trainer and len(blocks) == 1 and site.place == "line":
                    porting.lora_heading = porting.remove_with_heading(site.node, site.rule, reason)
                else:
                    start = user.statement_start if near else None
                    porting.remove_statement(site.node, site.rule, reason, follows=start)
    for other in porting.sites:
        if other.role == "inject" and other is not inject and other not in porting.own_injects:
            _write_conditional_inject(porting, other)
    if inject is not None:
        _write_inject(porting, inject, family, rules, provider, elsewhere)
        return provider, True
    return provider, elsewhere


def _write_conditional_inject(porting: Porting, site: Site) -> None:
    """`if use_lora: model = get_peft_model(model, config)`: put in where it stands, from the config as it is there."""
    saved = is_saved(porting, site)
    model, config = site.argument("model"), site.argument("model_id" if saved else "peft_config")
    trainer = porting.trainer
    if trainer is not None and is_behind(porting.module, site.node, trainer.node):
        message = "get_peft_model behind the training: the model that was trained is in it, with what it has learned."
        fix = "Take the line out to go on with that; rt.apply_peft puts new adapters into a model without any."
        porting.find(site.rule, "error", message, fix, site.line, site.column)
        return
    if model is None or config is None or not reaches_trainer(porting, site):
        message = "get_peft_model: whether the trainer gets this model is not known at port time."
        fix = "Write model = rt.apply_peft(model, config, mesh, seed=...) where it does."
        porting.find(site.rule, "error", message, fix, site.line, site.column)
        return
    porting.lora_conditional = True
    before = len(site.variable or "") + 3
    if saved:
        say_reference(porting, site, certain=False)
        made = saved_call(porting, site, model.text, _seed_at(porting, site))
        call = render(made, site.indent, before=before)
        porting.replace(site, call, "the saved adapter in Tunix's model, when the script loads it")
        return
    arguments = [
        Arg(mark_of(porting, [model]) + model.text),
        Arg(mark_of(porting, [config]) + given(porting, "apply_peft", config.text)),
        Arg(porting.names.mesh),
        Arg(_seed_at(porting, site), "seed"),
    ]
    arguments += dropout_arguments(porting, site)
    call = render(Call(porting.rt("apply_peft"), arguments), site.indent, before=before)
    porting.replace(site, call, "the same adapters in Tunix's model, when the script puts them in")


def _seed_at(porting: Porting, site: Site) -> str:
    """The code of the seed where adapters are put in: what the script has given torch above, which drew them in the
    source; else the run's, which may stand before the config is made.
    """
    if given := seed_given(porting, site):
        return given
    trainer = porting.trainer
    assert trainer is not None
    value, text = porting.recipe.values["run.seed"], porting.text("run.seed")
    if in_reach(trainer.scope, site.scope) and not _made_later(porting, text, site):
        return text
    if value.known:
        return value.code
    said = porting.config.argument("seed") if porting.config is not None else None
    if said is not None and porting.config is not None and in_reach(porting.config.scope, site.scope):
        if said.value.known or not _made_later(porting, said.text, site):
            return said.value.code if said.value.known else said.text
    message = f"The adapters start from seed 42: {text}, the run's seed, is not known where they are put in."
    fix = "Write it there, to start other runs from other adapters."
    porting.find(site.rule, "info", message, fix, site.line, site.column)
    return "42"


def _made_later(porting: Porting, text: str, site: Site) -> bool:
    """Whether a name in `text` is bound behind `site`, or by the port itself."""
    names = names_in(text)
    for name in names - set(dir(builtins)):
        found = site.scope.lookup(name)
        bound = found[1] if found is not None else ()
        if not bound or any(
            porting.module.span(binding.node)[0] > site.start for binding in bound if binding.kind != "parameter"
        ):
            return True
    return False


def _inside(site: Site, other: Site) -> bool:
    return other.statement_start <= site.start < other.statement_end


def _write_inject(
    porting: Porting, site: Site, family: Family | None, rules: tuple[Rule, ...] | None, provider: str, elsewhere: bool
) -> None:
    """`model = get_peft_model(model, config)` → `model = rt.apply_lora(model, provider, mesh, ...)`."""
    model = site.argument("model")
    name, values = porting.names.model, porting.recipe.values
    if model is not None:
        node = unprepared(porting.module, model.node)
        porting.names.model = porting.module.code(node) if node is not None else model.text
        if porting.model is not None and porting.model.node is node:
            porting.names.model = site.variable or porting.fresh("model")
            loaded = render(_load(porting, porting.model), site.indent, before=len(porting.names.model) + 3)
            text = f"{porting.names.model} = {loaded}\n{site.indent}"
            reason = "the same weights in Tunix's model"
            porting.edit(site.statement_start, site.statement_start, text, porting.model.rule, reason)
    seed = porting.text("lora.seed") if porting.value("lora.seed") is not None else _seed_at(porting, site)
    of_adapters = porting.value("lora.seed")
    porting.fill({"run.seed": Value("expression", seed, of_adapters.origin if of_adapters is not None else None)})
    if is_saved(porting, site):
        before = len(site.variable) + 3 if site.variable else 0
        code = render(
            saved_call(porting, site, porting.names.model, porting.text("run.seed")), site.indent, before=before
        )
        porting.replace(site, code, "the saved adapter in Tunix's model, to train on")
    elif porting.lora_object:
        names = [
            Arg(mark_of(porting, [model]) + porting.names.model),
            Arg(adapters_mark(porting) + given(porting, "apply_peft", porting.lora_object)),
            Arg(porting.names.mesh),
        ]
        arguments = [*names, Arg(porting.text("run.seed"), "seed"), *dropout_arguments(porting, site)]
        code = render(Call(porting.rt("apply_peft"), arguments), site.indent, before=len(site.variable or "") + 3)
        porting.replace(site, code, "the same adapters in Tunix's model")
    else:
        if not elsewhere:
            code = provider_code(porting, rules, family, site.indent, len(provider) + 3)
            text = f"{provider} = {code}\n{site.indent}"
            porting.edit(site.statement_start, site.statement_start, text, site.rule, "the layers, rank and scale")
        before = len(site.variable) + 3 if site.variable else 0
        code = render(
            apply_call(porting, provider, porting.text("run.seed")), site.indent, porting.module.indent, before
        )
        porting.replace(site, code, "the same adapters in Tunix's model, counted layer by layer")
    porting.names.model = name
    porting.recipe = replace(porting.recipe, values=values)


def _write_arguments(porting: Porting) -> None:
    """A config object that was only read is spread over the port; its statement goes."""
    site, trainer = porting.arguments, porting.trainer
    if site is None or trainer is None or _inside(site, trainer):
        return
    reason = "each value stands where Tunix wants it"
    porting.remove_statement(
        site.node, site.rule, reason, follows=trainer.statement_start if trainer.place == "line" else None
    )


def _batch_sum(porting: Porting, writing: Writing, mesh: tuple[int, int] | None) -> None:
    """The effective batch as a row of the table: what one optimizer step consumed on the GPUs, and consumes here."""
    trainer = porting.trainer
    assert trainer is not None
    rows, accumulation = porting.known("batch.per_device"), porting.known("batch.accumulation")
    if not isinstance(rows, int) or not isinstance(accumulation, int):
        return
    processes = writing.processes
    total = rows * accumulation * processes
    said = f"{rows} a GPU x {accumulation} accumulated x {processes} processes = {total} rows a step"
    if mesh is None:
        target = f"{total} rows a step, split over the mesh when it runs"
        reason = "micro-batches of a multiple of the fsdp axis, filled with rows that train nothing"
    else:
        micro = -(-rows * processes // mesh[0]) * mesh[0]
        count = -(-total // micro)
        target = f"{count} micro-batches of {micro} rows on fsdp={mesh[0]}"
        filled = count * micro - total
        reason = "the same rows train" + (f"; {filled} empty rows fill the last micro-batch" if filled else "")
    place = porting.value("batch.per_device")
    line, column = trainer.line, trainer.column
    if place is not None and place.origin is not None and place.origin.line:
        line, column = place.origin.line, place.origin.column
    porting.fate(Field("effective batch", said, "exact", target, reason, trainer.rule, line, column))
