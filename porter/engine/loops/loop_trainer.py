"""A training loop written by hand as a trainer: its optimizer, schedule and DataLoader → the Recipe.

`loops.read_loop` says what the loop does; here the calls that made its parts are found, and what their tables say is
put where a trainer's arguments would have put it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import libcst as cst

from ...recipe import Origin, Value
from ...source.read_value import read_value
from ...source.scopes import walk
from ...text.expressions import choice, is_atom
from ..draft.findings import NO_FAMILY, NO_TASK
from ..script.fill_from_tables import (
    bindings_of,
    fill_defaults,
    fill_site,
    mentions_import,
    table_of,
    tables_by_class,
)
from ..script.sites import Argument, Site, indentation
from ..script.training import Training
from .advice import COLLATE, DIVIDE, advice
from .facts import Loop
from .forward import NotStandard
from .models_trained import say_others, unloaded
from .training_loops import read_loop, training_loops

LOOP = "torch.training_loop"
# Who imports one of these trains a language model, wherever it comes from.
LANGUAGE_MODELS = frozenset({"transformers", "peft", "deepspeed"})
TOKENS = re.compile(r"\binput_ids\b")
SCHEDULES = {  # the functions that say a schedule by their own name
    "transformers.get_linear_schedule_with_warmup": "linear",
    "transformers.get_cosine_schedule_with_warmup": "cosine",
    "transformers.get_constant_schedule": "constant",
    "transformers.get_constant_schedule_with_warmup": "constant_with_warmup",
}
WHOLE = re.compile(  # what an optimizer may be given to mean all that the model trains
    r"(?P<model>[\w.]+)\.parameters\(\)"
    r"|filter\(lambda (?P<f>\w+): (?P=f)\.requires_grad, [\w.]+\.parameters\(\)\)"
    r"|[\[(]?(?P<p>\w+) for (?P=p) in [\w.]+\.parameters\(\) if (?P=p)\.requires_grad[\])]?"
)


BACKWARDS = {"torch", "accelerate"}  # whose `backward` a loop calls


def find_loops(porting: Training) -> list[Site]:
    """The training loop of a file that has no trainer, as a trainer's site.

    A loop that isn't the standard one becomes a finding with the line that shows it, and nothing is ported.
    """
    rule = tables_by_class(porting.packs).get(LOOP)
    if rule is None or not porting.options.active(rule.id) or not mentions_import(porting.module.text, BACKWARDS):
        return []
    if not BACKWARDS & porting.module.roots:
        return []
    loops = training_loops(porting.module)
    if not loops or not trains_language(porting):
        return []
    loop = read_loop(porting.module, loops[0])
    say_others(porting, loop)
    if porting.findings.has(NO_TASK):
        return []
    if len(loops) > 1:
        for statement in loops:
            line, column = porting.module.location(statement)
            message = f"{len(loops)} training loops are written in this file; one can be ported at a time."
            porting.find(rule.id, "error", message, "Split the script.", line, column, todo=False)
        return []
    obstacles = [*loop.obstacles, *_missing_parts(porting, loop)]
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
    return [_as_site(porting, loop, rule.id)]


def trains_language(porting: Training) -> bool:
    """Whether what a file trains by hand is a language model: its libraries say so, or what it gives the model, which
    another module of the project may make."""
    module = porting.module
    if TOKENS.search(module.text) or any(site.role == "model" for site in porting.sites):
        return True
    return mentions_import(module.text, LANGUAGE_MODELS) and bool(module.roots & LANGUAGE_MODELS)


def may_train_language(text: str) -> bool:
    """Whether a file that loads no model may say so of what it trains: nobody has to look closer otherwise."""
    return TOKENS.search(text) is not None or mentions_import(text, LANGUAGE_MODELS)


def _as_site(porting: Training, loop: Loop, rule: str) -> Site:
    module, statement = porting.module, loop.statement
    start, end = module.span(statement)
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
    arguments.insert(0, _argument(porting, "model", loop.call.func, rule))
    loader = part(porting, "loader", _loader_name(porting, loop))
    assert loader is not None
    for name, keyword in (("train_dataset", "dataset"), ("data_collator", "collate_fn")):
        given = loader.argument(keyword)
        assert given is not None
        arguments.append(replace(given, name=name))
    return Site(  # a loop is no call, but stands where a trainer would
        role="trainer", rule=rule, qualified=LOOP, arguments=tuple(arguments), start=start, end=end,
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
        return _said(argument, f"{_atom(argument.text)} - {loop.first_epoch}")
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
        text = f"{_atom(text)} {'+' if end.beyond > 0 else '-'} {abs(end.beyond)}"
    if end.counter.counts == "batches" and loop.accumulation is not None:
        text = f"{_atom(text)} // {_atom(porting.module.code(loop.accumulation))}"
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


def _atom(text: str) -> str:
    return text if is_atom(text) else f"({text})"


def _accelerator_setting(porting: Training, keyword: str) -> cst.BaseExpression | None:
    for call in porting.module.calls:
        if porting.module.qualified(call.func) == "accelerate.Accelerator":
            for argument in call.args:
                if argument.keyword is not None and argument.keyword.value == keyword:
                    return argument.value
    return None


def _missing_parts(porting: Training, loop: Loop) -> Iterator[NotStandard]:
    """What the tables don't know of the loop's optimizer, schedule and DataLoader, or that they aren't of this file."""
    if loop.optimizer:
        yield from _wrong_optimizer(porting, loop)
    if loop.scheduler and part(porting, "schedule", loop.scheduler) is None:
        node, made = _where_made(porting, loop, loop.scheduler)
        reason = f"`{loop.scheduler}` is not one of transformers' schedules{made}"
        yield NotStandard(node, reason, "Make it with transformers.get_scheduler in this file.")
    if loop.loader is None:
        return
    name = _loader_name(porting, loop)
    loader = part(porting, "loader", name)
    if loader is None:
        node, made = _where_made(porting, loop, name) if name else (loop.loader, "")
        reason = f"its batches don't come from a DataLoader of this file{made}"
        yield NotStandard(node, reason, "Make the DataLoader in this file, with its collate_fn.")
    elif loader.argument("collate_fn") is None:
        yield NotStandard(loader.node, "the DataLoader has no collate_fn: torch's own stacks tensors", COLLATE)


def _wrong_optimizer(porting: Training, loop: Loop) -> Iterator[NotStandard]:
    optimizer = part(porting, "optimizer", loop.optimizer)
    if optimizer is None:
        node, made = _where_made(porting, loop, loop.optimizer)
        reason = f"`{loop.optimizer}` is not made by torch.optim.AdamW or Adam in this file{made}"
        fix = f"Make it in this file: torch.optim.AdamW({loop.model or 'model'}.parameters(), lr=...)."
        yield NotStandard(node, reason, fix)
        return
    params = optimizer.argument("params")
    if params is not None and WHOLE.fullmatch(" ".join(params.text.split())) is None:
        yield NotStandard(params.node or optimizer.node, "the optimizer gets groups of parameters of its own")


def _where_made(porting: Training, loop: Loop, name: str) -> tuple[cst.CSTNode, str]:
    """Where the loop's `name` is bound, and by which call."""
    found = next((node for node in walk(loop.statement) if isinstance(node, cst.Name | cst.Attribute)
                  and porting.module.code(node) == name), None)  # fmt: skip
    for binding in bindings_of(porting.module, found):
        if binding.kind == "parameter":
            return binding.node, ": the function that holds the loop is given it"
        if isinstance(binding.value, cst.Call):
            called = porting.module.code(binding.value.func)
            return (binding.node, "") if called.endswith("prepare") else (binding.node, f", but by `{called}(...)`")
    return loop.statement, ""


def part(porting: Training, role: str, name: str) -> Site | None:
    """The call that made a part of the loop: the one of its role assigned to `name`.

    Else the only one of its role, where `name` is bound to nothing else than what `prepare` gives back.
    """
    sites = [site for site in porting.sites if site.role == role]
    named = [site for site in sites if site.variable == name]
    if len(named) == 1:
        return named[0]
    loop = porting.loop.statement if porting.loop is not None else None
    return sites[0] if len(sites) == 1 and not named and not _is_others(porting, name, loop) else None


def _is_others(porting: Training, name: str, loop: cst.CSTNode | None) -> bool:
    """Whether a name of the loop is bound to what something else than accelerate's or DeepSpeed's set-up gives."""
    loops = [loop] if loop is not None else training_loops(porting.module)
    for node in (each for statement in loops for each in walk(statement)):
        if isinstance(node, cst.Name | cst.Attribute) and porting.module.code(node) == name:
            for binding in bindings_of(porting.module, node):
                called = porting.module.code(binding.value.func) if isinstance(binding.value, cst.Call) else ""
                if binding.kind == "parameter" or (called and not called.endswith(("prepare", ".initialize"))):
                    return True
            return False
    return False


def _loader_name(porting: Training, loop: Loop) -> str:
    """The name of the DataLoader behind the loop's iterable: `active_dataloader` may be it or a part of it."""
    node = loop.loader
    name = node.value if isinstance(node, cst.Name) else ""
    if any(site.role == "loader" and site.variable == name for site in porting.sites):
        return name
    for binding in bindings_of(porting.module, node):
        if isinstance(binding.value, cst.Name):
            return binding.value.value
    return name


def loop_parts(porting: Training) -> tuple[Site, Site, Site | None]:
    """The loop's loader, optimizer and schedule."""
    loop = porting.loop
    assert loop is not None
    loader, optimizer = part(porting, "loader", _loader_name(porting, loop)), part(porting, "optimizer", loop.optimizer)
    assert loader is not None and optimizer is not None
    return loader, optimizer, part(porting, "schedule", loop.scheduler) if loop.scheduler else None


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
    values = {"optimizer.name": Value("literal", "'adamw_torch'"), "log.steps": Value("default", "10")}
    betas = porting.known("optimizer.betas")
    for index in range(2):
        known = isinstance(betas, tuple | list)
        text = repr(betas[index]) if known else f"{porting.text('optimizer.betas')}[{index}]"
        values[f"optimizer.beta{index + 1}"] = Value("literal" if known else "expression", text)
    name = SCHEDULES.get(schedule.qualified) if schedule is not None else "constant"
    if name is not None:
        values["schedule.name"] = Value("literal", repr(name))
    if not loop.autocast or _in_bfloat16(porting):
        values["precision.bf16"] = Value("literal", repr(_in_bfloat16(porting)))
    values["precision.fp16"] = Value("literal", "False")
    values |= {} if "schedule.kwargs" in porting.recipe.values else {"schedule.kwargs": Value("literal", "None")}
    values["data.remove_unused_columns"] = Value("literal", "False")
    values["loss.mean_over"] = Value("literal", "'micro_batch'")
    values["data.sampling"] = _sampling(porting, loader)
    if any(key != keyword for keyword, key in loop.inputs.items()) or "attention_mask" not in loop.inputs:
        values["data.inputs"] = Value("literal", json.dumps(loop.inputs))
    porting.fill(values)
    _seed(porting)
    _say_left(porting, loop)


def _sampling(porting: Training, loader: Site) -> Value:
    """Whether the rows of an epoch come shuffled: by `shuffle=`, or by a sampler."""
    shuffle, sampler = loader.argument("shuffle"), loader.argument("sampler")
    if sampler is not None and not sampler.value.is_literal(None):
        plain = re.search("Sequential|shuffle=False", sampler.text) is None
        return Value("literal", repr("random" if plain else "sequential"))
    if shuffle is None or shuffle.value.known:
        shuffled = shuffle is not None and bool(shuffle.value.literal)
        return Value("literal", repr("random" if shuffled else "sequential"))
    return Value("expression", choice(shuffle.text, '"random"', '"sequential"'))


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
    for call in porting.module.calls:
        name = porting.module.qualified(call.func)
        if name in ("transformers.set_seed", "accelerate.set_seed", "torch.manual_seed") and call.args:
            value = read_value(porting.module, call.args[0].value)
            porting.fill({"run.seed": replace(value, origin=value.origin or Origin("", 0, 0))})
            return


TRAINING_CONFIG = "give TrainingConfig a checkpoint_root_directory."
SAID = {
    "saving": (
        "checkpoints that the loop saves",
        f"The model is saved behind the loop; for checkpoints {TRAINING_CONFIG}",
    ),
    "evaluation": ("evaluations inside the loop", "Give trainer.train a second iterable, and eval_every_n_steps."),
    "resuming": ("resuming at an epoch", f"Tunix resumes from checkpoints of its own: {TRAINING_CONFIG}"),
}


def _say_left(porting: Training, loop: Loop) -> None:
    """One finding for each kind of thing that the loop did besides training."""
    site = porting.trainer
    assert site is not None
    for what, (said, fix) in SAID.items():
        lines = [porting.module.location(left.node)[0] for left in loop.left if left.what == what]
        if lines:
            where = ", ".join(map(str, lines[:6]))
            message = f"The loop is replaced by Tunix's trainer; {said} (line {where}) are not in the port."
            porting.find(site.rule, "error", message, fix, site.line, site.column)
    lines = [porting.module.location(left.node)[0] for left in loop.left if left.what == "logging"]
    if lines:
        where = ", ".join(map(str, lines[:6])) + (" and more" if len(lines) > 6 else "")
        message = f"What the loop prints and logs (line {where}) is replaced by rt.log_every's lines."
        porting.find(site.rule, "info", message, "", site.line, site.column)
    if loop.max_steps is not None and loop.epochs is not None:
        first = f"after {porting.text('run.epochs')} epochs or {porting.text('run.max_steps')} steps"
        message = f"The loop ends {first}, whichever comes first; the port after the steps, if there are any."
        if not loop.ends_all:
            message += " Each later epoch of the loop would train one more batch."
        porting.find(
            site.rule, "warning", message, "Check that the epochs have that many steps.", site.line, site.column
        )
    if loop.accumulation is not None and not (loop.accumulates or loop.steps_at_last):
        batches = porting.module.code(loop.accumulation)
        message = (
            f"Where {batches} doesn't divide an epoch's batches, the loop carries the rest into the next step; the "
        )
        message += "port makes a step of its own of them."
        fix = f"Give the DataLoader a number of batches that {batches} divides if the GPU run had another."
        porting.find(site.rule, "warning", message, fix, site.line, site.column)
