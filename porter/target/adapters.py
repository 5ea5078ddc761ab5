"""The adapters where the script puts them in: their rules, the calls that apply them, the seed that they start from."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import libcst as cst

from ..engine.reading.checkpoints.saved_adapters import is_saved, say_reference
from ..engine.reading.model import reaches_trainer
from ..engine.receipts.marking import given, mark_of
from ..engine.script.flow import put_in_again, unprepared
from ..engine.script.following.reaching import is_behind
from ..engine.script.porting import Porting
from ..engine.script.seeds import WRITE_SEED, say_unread_seed, seed_given
from ..engine.script.sites import Site
from ..engine.script.training import in_reach
from ..recipe import Value
from ..runtime.facts.family import Family
from ..runtime.facts.lora_targets import Rule
from ..text.expressions import names_in
from ..text.layout import Arg, Call, render
from .statements.lora import (
    adapters_mark,
    apply_call,
    dropout_arguments,
    literal_rules,
    provider_code,
    saved_call,
)
from .statements.model_statements import loading

FUSED = ("kv_einsum", "qkv_einsum")


def stands_in(site: Site, other: Site) -> bool:
    """Whether a call stands in the statement of another."""
    return other.statement_start <= site.start < other.statement_end


def adapter_rules(porting: Porting, family: Family | None, sizes: Mapping[str, Any] | None) -> tuple[Rule, ...] | None:
    if porting.lora is None:
        return None
    try:
        return literal_rules(porting, family, sizes)
    except ValueError as error:
        site = porting.lora
        porting.find(site.rule, "error", f"LoraConfig: {error}.", "", site.line, site.column)
        return None


def fuses(porting: Porting, family: Family | None, rules: tuple[Rule, ...] | None) -> bool:
    """Whether adapters may land on a fused K/V weight; unknown families may."""
    if not (porting.lora or porting.lora_object or porting.lora_conditional):
        return False
    if rules is not None:
        return any(name in rule.module_path for rule in rules for name in FUSED)
    if family is not None:
        return any(row.get("slots", 1) > 1 for row in family.table.get("linear", ()))
    return True


def write_adapters(porting: Porting, family: Family | None, rules: tuple[Rule, ...] | None) -> tuple[str, bool]:
    """The LoRA config's own statement and a get_peft_model call; the provider's name and whether it is made there."""
    site, inject, trainer = porting.lora, porting.inject, porting.trainer
    assert trainer is not None
    provider, elsewhere = porting.fresh("lora"), False
    if site is not None:
        user = inject if inject is not None else trainer
        own = site.variable is not None and not stands_in(site, user)
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
    if site.node in put_in_again(porting.module):
        return
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
    """The code of the seed where adapters are put in: what the script has given torch before, which drew them in the
    source; else the run's, which may stand before the config is made.
    """
    otherwise, unknown = _seed_of_run(porting, site)
    given = seed_given(porting, site, otherwise)
    if given.code:
        return given.code
    if given.unread:
        say_unread_seed(porting, site, given.unread, otherwise)
    elif unknown:
        message = f"The adapters start from seed 42: {unknown}, the run's seed, is not known where they are put in."
        porting.find(site.rule, "info", message, WRITE_SEED, site.line, site.column)
    return otherwise


def _seed_of_run(porting: Porting, site: Site) -> tuple[str, str]:
    """The code of the run's seed at a site, and of what is not known there."""
    trainer = porting.trainer
    assert trainer is not None
    value, text = porting.recipe.values["run.seed"], porting.text("run.seed")
    if in_reach(trainer.scope, site.scope) and not _made_later(porting, text, site):
        return text, ""
    if value.known:
        return value.code, ""
    said = porting.config.argument("seed") if porting.config is not None else None
    if said is not None and porting.config is not None and in_reach(porting.config.scope, site.scope):
        if said.value.known or not _made_later(porting, said.text, site):
            return said.value.code if said.value.known else said.text, ""
    return "42", text


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
            loaded = render(loading(porting, porting.model), site.indent, before=len(porting.names.model) + 3)
            text = f"{porting.names.model} = {loaded}\n{site.indent}"
            reason = "the same weights in Tunix's model"
            porting.edit(site.statement_start, site.statement_start, text, porting.model.rule, reason)
        elif rules is None and isinstance(node, cst.Call) and not elsewhere:  # it is made once
            made, porting.names.model = porting.names.model, site.variable or porting.fresh("model")
            text = f"{porting.names.model} = {made}\n{site.indent}"
            porting.edit(site.statement_start, site.statement_start, text, site.rule, "the model, for its rules too")
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
