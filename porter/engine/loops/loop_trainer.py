"""A training loop written by hand as a trainer: its optimizer, schedule and DataLoader → the Recipe.

`loops.read_loop` says what the loop does; here the calls that made its parts are found, and what their tables say is
put where a trainer's arguments would have put it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import libcst as cst

from ...recipe import Origin, Value
from ...source.module import Module
from ...source.project.modules import project_text
from ...source.read_value import read_value
from ...text.expressions import atom, choice, quoted
from ..draft.findings import NO_FAMILY, NO_TASK
from ..packs.pack import TableRule
from ..script.fill_from_tables import (
    fill_defaults,
    fill_site,
    mentions_import,
    table_of,
    tables_by_class,
)
from ..script.seeds import seed_given
from ..script.sites import Argument, Site, facts_of, indentation
from ..script.training import Training
from .called_epochs import known_by_caller
from .kept.kept_epochs import kept_epochs
from .left_out import say_left_out
from .models_trained import model_of, say_others, unloaded
from .parts import fill_groups, loader_name, loop_parts, missing_parts, part
from .row_order import sampling
from .statements.advice import DIVIDE, advice
from .statements.facts import Loop
from .statements.not_standard import NotStandard
from .training_loops import read_loop, training_loops

IMPORTED = re.compile(r"(?m)^[ \t]*(?:from[ \t]+(\.*[\w.]+)[ \t]+import\b|import[ \t]+([\w.]+))")
TOKENS = re.compile(r"input_ids\b|\w(?:LMHeadModel|ForCausalLM)\b")  # or a model's class, of whose library ever


def find_loops(porting: Training) -> list[Site]:
    """The training loop of a file that has no trainer, as a trainer's site.

    A loop that isn't the standard one becomes a finding with the line that shows it, and nothing is ported.
    """
    rule, backwards = loop_table(porting), facts_of(porting.module).backwards
    if rule is None or not porting.options.active(rule.id) or not mentions_import(porting.module.text, backwards):
        return []
    if porting.module.roots.isdisjoint(backwards):
        return []
    loops = training_loops(porting.module)
    if not loops or not trains_language(porting):
        return []
    loop = read_loop(porting.module, loops[0])
    known_by_caller(porting.module, loop)
    say_others(porting, model_of(loop))
    if porting.findings.has(NO_TASK):
        return []
    if len(loops) > 1:
        for statement in loops:
            line, column = porting.module.location(statement)
            message = f"{len(loops)} training loops are written in this file; one can be ported at a time."
            porting.find(rule.id, "error", message, "Split the script.", line, column, todo=False)
        return []
    obstacles = [*loop.obstacles, *missing_parts(porting, loop)]
    if loop.sums and loop.accumulation is not None:
        batches = porting.module.code(loop.accumulation)
        reason = f"the gradients are summed over the {batches} batches of a step, not averaged"
        obstacles.append(NotStandard(loop.call or loops[0], reason, DIVIDE))
    other = porting.findings.has(NO_FAMILY)
    if not other:
        obstacles[:0] = unloaded(porting, loop)
    for obstacle in obstacles:
        line, column = porting.module.location(obstacle.node)
        message = f"This training loop is not the standard one: {obstacle.reason}."
        fix = advice(porting.module, loop.statement, obstacle)
        porting.find(rule.id, "error", message, fix, line, column, todo=False)
    if obstacles or other:
        return []
    porting.loop = loop
    loop.kept = kept_epochs(porting, loop, loop_parts(porting)[0])
    if (kept := loop.kept) is not None:
        again = {each.line for each in kept.carried}
        within = [each for each in loop.left if kept.batches in porting.module.ancestors(each.node)]
        loop.left = [each for each in within if each.node not in again]
    return [_as_site(porting, loop, rule)]


def loop_table(porting: Training) -> TableRule | None:
    """The table of what a loop says itself."""
    return next((rule for rule in tables_by_class(porting.packs).values() if rule.kind == "loop"), None)


def trains_language(porting: Training) -> bool:
    """Whether what a file trains by hand is a language model: its libraries say so, or what it gives the model, which
    another module of the project may make."""
    module = porting.module
    if TOKENS.search(module.text) or any(site.role == "model" for site in porting.sites):
        return True
    libraries = _of_language(module)
    own = mentions_import(module.text, libraries) and not module.roots.isdisjoint(libraries)
    return own or _project_loads_language(module)


def may_train_language(module: Module) -> bool:
    """Whether a file that loads no model may say so of what it trains: nobody has to look closer otherwise."""
    return _is_about_language(module.text, module) or _project_loads_language(module)


def _project_loads_language(module: Module) -> bool:
    """Whether a file of the project that this one imports from is about language models: there its model is made."""
    names = {name for pair in IMPORTED.findall(module.text) for name in pair if name}
    texts = (text for name in sorted(names) if (text := project_text(module.path, name)) is not None)
    return any(_is_about_language(text, module) for text in texts)


def _is_about_language(text: str, module: Module) -> bool:
    """Whether a text, that of the module or of a file beside it, speaks of language models."""
    return TOKENS.search(text) is not None or mentions_import(text, _of_language(module))


def _of_language(module: Module) -> tuple[str, ...]:
    """The packages beside which a loop trains a language model: they make the model, or the tokens that it gets."""
    facts = facts_of(module)
    return *facts.language_models, *facts.text_tokens


def _as_site(porting: Training, loop: Loop, table: TableRule) -> Site:
    rule, module, statement = table.id, porting.module, loop.statement
    start, end = module.span(statement)
    end = start if loop.kept is not None else end  # the port's statements stand in front of it
    line, column = module.location(statement)
    said = {"epochs": loop.epochs, "accumulation": loop.accumulation, "max_grad_norm": loop.clip}
    arguments = [_argument(porting, name, node, rule) for name, node in said.items() if node is not None]
    arguments = [_under_conditions(porting, loop, argument) for argument in arguments]
    if loop.max_steps is not None:
        arguments.append(_steps(porting, loop, _argument(porting, "max_steps", loop.max_steps, rule)))
    if loop.autocast:
        arguments.append(_autocast(porting, loop, rule))
    if loop.accumulates and loop.accumulation is None:
        node = _accelerator_setting(porting, "gradient_accumulation_steps")
        if node is not None:
            arguments.append(_argument(porting, "accumulation", node, rule))
    assert loop.call is not None
    arguments.insert(0, _argument(porting, "model", loop.trained or loop.call.func, rule))
    loader = part(porting, "loader", loader_name(porting, loop))
    assert loader is not None
    for name, keyword in (("train_dataset", "dataset"), ("data_collator", "collate_fn")):
        given = loader.argument(keyword)
        if given is not None:
            arguments.append(replace(given, name=name))
    return Site(  # a loop is no call, but stands where a trainer would
        role="trainer", rule=rule, qualified=table.names[0], arguments=tuple(arguments), start=start, end=end,
        statement_start=start, statement_end=end, indent=indentation(module.text, start), line=line, column=column,
        place="line", variable=None, alone=True, unknown_keywords="", scope=module.scope(statement), node=statement,
    )  # fmt: skip


def _argument(porting: Training, name: str, node: cst.BaseExpression, rule: str) -> Argument:
    line, column = porting.module.location(node)
    reference = porting.module.code(node) if isinstance(node, cst.Name | cst.Attribute) else None
    return Argument(name, read_value(porting.module, node, rule), line, column, reference=reference, node=node)


def _under_conditions(porting: Training, loop: Loop, argument: Argument) -> Argument:
    """Epochs less those that `range(1, epochs)` leaves out; what clips only `if args.clip:`."""
    if argument.name == "epochs" and loop.first_epoch:
        return _said(argument, f"{atom(argument.text)} - {loop.first_epoch}")
    if argument.name == "max_grad_norm" and loop.clip_if is not None:
        test, norm = porting.module.code(loop.clip_if), argument.text
        if test in (norm, f"{norm} > 0", f"{norm} is not None", f"{norm} > 0.0"):
            return argument
        return _said(argument, choice(test, norm, "None"))
    return argument


def _steps(porting: Training, loop: Loop, argument: Argument) -> Argument:
    """Optimizer steps after which the loop ends: it may count batches, of which a step takes several."""
    end, text = loop.end, argument.text
    if end is None:
        return argument
    if end.beyond:
        text = f"{atom(text)} {'+' if end.beyond > 0 else '-'} {abs(end.beyond)}"
    if end.counter.counts == "batches" and loop.accumulation is not None:
        text = f"{atom(text)} // {atom(porting.module.code(loop.accumulation))}"
    if end.may_be_none and not argument.value.known:
        text = choice(argument.text, text, "-1")
    return argument if text == argument.text else _said(argument, text)


SUM = re.compile(r"[\d\s/*+()-]{1,60}")  # arithmetic on plain numbers


def _said(argument: Argument, text: str) -> Argument:
    """The argument as another expression; a number where all of it is known."""
    try:
        number = eval(text, {"__builtins__": {}}) if SUM.fullmatch(text) and "**" not in text else None
    except (ArithmeticError, SyntaxError):
        number = None
    origin = argument.value.origin
    if number is not None:
        return replace(argument, value=Value("literal", repr(number), origin), reference=None)
    return replace(argument, value=Value("expression", text, origin, text), reference=None)


def _accelerator_setting(porting: Training, keyword: str) -> cst.BaseExpression | None:
    """What an `Accelerator` is given as one of its keywords."""
    classes = facts_of(porting.module).loop_settings
    for call in porting.module.calls:
        if porting.module.qualified(call.func) in classes:
            for argument in call.args:
                if argument.keyword is not None and argument.keyword.value == keyword:
                    return argument.value
    return None


def read_loop_parts(porting: Training, versions: Mapping[str, str]) -> None:
    """Fill the recipe from the loop, its DataLoader, optimizer and schedule, and say what the loop loses."""
    loop, trainer = porting.loop, porting.trainer
    assert loop is not None and trainer is not None
    loader, optimizer, schedule = loop_parts(porting)
    own = tuple(argument for argument in trainer.arguments if argument.name not in ("train_dataset", "data_collator"))
    for site in (replace(trainer, arguments=own), loader, optimizer, schedule):
        if site is not None:
            rule = table_of(porting, site)
            fill_site(porting, site, rule, versions)
            fill_defaults(porting, rule, versions)
    named = table_of(porting, optimizer).head["optimizer"]
    values = {"optimizer.name": Value("literal", repr(named)), "log.steps": Value("default", "10")}
    betas = porting.known("optimizer.betas")
    for index in range(2):
        known = isinstance(betas, tuple | list)
        text = repr(betas[index]) if known else f"{porting.text('optimizer.betas')}[{index}]"
        values[f"optimizer.beta{index + 1}"] = Value("literal" if known else "expression", text)
    name = table_of(porting, schedule).head.get("schedule") if schedule is not None else "constant"
    if schedule is not None and any(place.startswith("schedule.own_") for place in porting.recipe.values):
        name = schedule.qualified.rpartition(".")[2]  # by the name of its class, with its arguments
    if name is not None:
        values["schedule.name"] = Value("literal", repr(name))
    if not loop.autocast or _in_bfloat16(porting):
        values["precision.bf16"] = Value("literal", repr(_in_bfloat16(porting)))
    values["precision.fp16"] = Value("literal", "False")
    values |= {} if "schedule.kwargs" in porting.recipe.values else {"schedule.kwargs": Value("literal", "None")}
    values["data.remove_unused_columns"] = Value("literal", "False")
    values["loss.mean_over"] = Value("literal", "'micro_batch'")
    values["data.sampling"] = sampling(porting.module, loader)
    if loop.unlabelled is not None:
        key, node = loop.unlabelled.key, loop.unlabelled.value
        value = porting.module.code(node) if node is not None else "0"
        said = f"{{{key if key.isdigit() else quoted(key)}: {value}}}"
        values["data.unlabelled"] = Value("expression", said, None, said)
    others = any(key != keyword for keyword, key in loop.inputs.items()) or "attention_mask" not in loop.inputs
    if others or loop.unlabelled is not None:
        inputs = {keyword: int(key) if key.isdigit() else key for keyword, key in loop.inputs.items()}
        values["data.inputs"] = Value("literal", json.dumps(inputs))
    porting.fill(values)
    fill_groups(porting, optimizer)
    _seed(porting)
    say_left_out(porting, loop)


def _autocast(porting: Training, loop: Loop, rule: str) -> Argument:
    """Whether autocast around the step computes products in 16 bits: surely, or under a condition."""
    node = loop.autocast_flag or loop.autocast_at
    assert node is not None
    found = _argument(porting, "autocast", node, rule)
    if loop.autocast_flag is not None:
        return found
    value = Value("expression" if loop.autocast_if else "literal", loop.autocast_if or "True", found.value.origin)
    return replace(found, value=replace(value, text=loop.autocast_if), reference=None)


def _in_bfloat16(porting: Training) -> bool:
    """Whether the Accelerator computes products in 16 bits."""
    setting = _accelerator_setting(porting, "mixed_precision")
    asked = read_value(porting.module, setting) if setting is not None else None
    return asked is not None and asked.known and asked.literal in ("bf16", "fp16")


def _seed(porting: Training) -> None:
    """The seed that the script gives torch, by which the port shuffles."""
    assert porting.trainer is not None
    given = seed_given(porting, porting.trainer, porting.text("run.seed"))
    if given.code:
        kind: Literal["literal", "expression"] = "literal" if given.code.isdecimal() else "expression"
        porting.fill({"run.seed": Value(kind, given.code, Origin("", 0, 0), given.code)})
    elif given.unread:
        message = f"The rows are shuffled by seed {porting.text('run.seed')}: that of {given.unread} is not known here."
        fix = "Write seed= of the batches."
        porting.find(porting.trainer.rule, "warning", message, fix, porting.trainer.line, porting.trainer.column)
