"""TrainingConfig: steps, checkpoints, evaluation and logging as the source asked for them."""

from __future__ import annotations

from ...engine.receipts.marking import given, mark, mark_keywords, mark_of, mark_row, unread
from ...engine.script.callback_methods import reads_tokenizer
from ...engine.script.fill_from_tables import plain_version
from ...engine.script.porting import Porting
from ...runtime.facts.argument_fields import of_its_day
from ...runtime.facts.field_tables import version_key
from ...runtime.facts.releases import release
from ...source.conditions import bare
from ...text.expressions import choice, operand, python, quoted
from ...text.layout import Arg, Call, render
from .evaluation import LOSSES, evaluates_in_training, evaluates_never
from .remarks import marked, remarked, remarked_line
from .trackers import is_named_after_folder, reporters, say_trackers, with_trackers

# What comes behind a callback's on_epoch_end where its strategy is "epoch".
EVENTS = (("logging", "log.strategy"), ("eval", "eval.strategy"), ("save", "save.strategy"))


def training_config(porting: Porting) -> Call:
    """`TrainingConfig(...)`, or `rt.training_config(args, batches)` where the script decides at run time."""
    names = porting.names
    _say_epoch_ends(porting)
    say_trackers(porting)
    if porting.arguments_object:
        arguments = [Arg(given(porting, "training_config", porting.arguments_object)), Arg(names.batches)]
        if evaluates_in_training(porting):
            arguments.append(Arg(f"{names.eval_batches} is not None", "eval"))
        if loads_best(porting):
            arguments.append(Arg("True", "best"))
        if "push_to_hub" in porting.module.text:
            arguments.append(Arg("True", "uploads"))
        if porting.only_evaluates:
            arguments.append(Arg("False", "saves"))
        arguments += _release(porting)
        asked = mark_keywords(porting, porting.config, "save_only_model")
        asked += mark_row(porting, "train.resume_from_checkpoint") if porting.resumes else ""
        return Call(asked + porting.rt("training_config"), arguments)
    own = "TunixTrainingConfig" if "TrainingConfig" in porting.module.bound_names else "TrainingConfig"
    alias = f" as {own}" if own != "TrainingConfig" else ""  # the file has another class of that name
    porting.imports.add(f"from tunix.sft.peft_trainer import TrainingConfig{alias}")
    steps = f"{names.batches}.steps"
    arguments = [
        Arg(steps, "max_steps"),
        Arg(f"{names.batches}.accumulation", "gradient_accumulation_steps"),
        _evaluates_every(porting, steps),
    ]
    arguments += _checkpoints(porting, steps)
    arguments += _metrics(porting)
    return Call(_silent(porting) + own, arguments, spread=True)


def loads_best(porting: Porting) -> bool:
    """Whether the script may load the best checkpoint after training; there is none where it saves none."""
    value = porting.value("save.best_at_end")
    asked = "load_best_model_at_end" in porting.module.text
    return _saves(porting) and value is not None and (value.is_literal(True) or (not value.known and asked))


def keeps_best(porting: Porting) -> bool:
    """Whether save_total_limit spares the best checkpoint: the script loads it, or names what it is the best of."""
    if loads_best(porting):
        return True
    metric, limit = porting.value("save.best_metric"), porting.value("save.total_limit")
    named = metric is not None and not metric.is_literal(None) and limit is not None and not limit.is_literal(None)
    return named and bool(porting.names.eval_batches) and not evaluates_never(porting)


def _silent(porting: Porting) -> str:
    """Marks of what TrainingConfig does without a word: it saves nothing, it reports to nobody."""
    places = ["log.report_to"] if reporters(porting) == [] else []
    if not _saves(porting):
        places += ["save.strategy", "save.best_at_end"]
    places += ["run.push_to_hub"] if porting.known("run.push_to_hub") is False else []
    places += ["save.best_at_end"] if porting.known("save.best_at_end") is False else []
    site = porting.trainer
    return mark(porting, *places) + mark_of(porting, [site.argument("args")] if site is not None else [])


def _release(porting: Porting) -> list[Arg]:
    """`transformers=` where the source's saves its last step otherwise than the one of its TRL's day."""
    version = plain_version(porting.versions.get("transformers", ""))
    day = of_its_day(plain_version(porting.versions.get("trl", "")) or None)
    if not version or release(None, version).saves_last == release(None, day).saves_last:
        return []
    return [Arg(quoted(version), "transformers", "# when this release saved its last step")]


def _of_its_lines(porting: Porting) -> list[Arg]:
    """`transformers=` where the source's log lines differ from today's: the next step's rate in them, no norm."""
    version, schedule = plain_version(porting.versions.get("transformers", "")), porting.value("schedule.name")
    if not version or porting.loop is not None:
        return []
    known = release(None, version)
    said = []
    if known.logs_next_rate and not (schedule is not None and schedule.is_literal("constant")):
        said.append("have the next step's rate")
    if not known.logs_norms:
        said.append("have no grad_norm")
    elif not known.logs_unclipped_norms and not _may_clip(porting) and not porting.given("optimizer.deepspeed"):
        said.append("have grad_norm where it is clipped")
    return [Arg(quoted(version), "transformers", f"# its lines {' and '.join(said)}")] if said else []


def _may_clip(porting: Porting) -> bool:
    norm = porting.value("optimizer.max_grad_norm")
    return norm is not None and (not norm.known or (norm.literal is not None and norm.literal > 0))


def _say_epoch_ends(porting: Porting) -> None:
    """Before transformers 4.52 an epoch could end within a step's accumulation, or step on what remained."""
    version, site = plain_version(porting.versions.get("transformers", "")), porting.trainer
    accumulation = porting.value("batch.accumulation")
    single = accumulation is None or accumulation.is_literal(1, None)
    if site is None or not version or release(None, version).rounds_steps_up or single or porting.loop is not None:
        return
    parts = ["save", "log", *(["eval"] if evaluates_in_training(porting) else [])]
    asked = [part for part in parts if str(porting.known(f"{part}.strategy", "no")) == "epoch"]
    if asked:
        does = " and ".join({"save": "saves", "log": "logs", "eval": "evaluates"}[part] for part in asked)
        message = f"transformers {version} {does} where an epoch's rows end, which may be within a step's accumulation:"
        message += " the port comes a step or more before where they don't fill whole steps."
        fix = "Losses and weights are equal; the steps of what is kept may differ."
        porting.find(site.rule, "info", message, fix, site.line, site.column)


def _evaluates_every(porting: Porting, steps: str) -> Arg:
    if not porting.names.eval_batches:
        rows = () if porting.evaluates else ("batch.eval_per_device",)
        unread(porting, "nothing is evaluated", *(f"eval.{name}" for name in OF_EVALUATION), *rows)
        if not porting.evaluates and porting.known("eval.strategy", "?") not in ("no", False, None):
            unread(porting, "there is nothing to evaluate", "eval.strategy")
            _say_nothing_is_evaluated(porting)
        return marked(Arg(steps, "eval_every_n_steps"), mark(porting, "eval.strategy"))
    if not evaluates_in_training(porting):
        unread(porting, 'eval_strategy is "no"', "eval.steps", "eval.on_start", "eval.delay")
        return marked(Arg(steps, "eval_every_n_steps"), mark(porting, "eval.strategy"))
    arg = Arg(_every(porting, "eval", steps, last=_evaluates_last(porting)), "eval_every_n_steps")
    return remarked(porting, arg, "eval.strategy", "eval.steps")


def _evaluates_last(porting: Porting) -> bool:
    """Whether the run may end between two evaluations, and the source has one there."""
    if str(porting.known("eval.strategy", "no")) == "epoch":
        return _cuts_epochs(porting)
    if not release(None, plain_version(porting.versions.get("transformers", "")) or None).evaluates_last:
        return False
    place = "log.steps" if porting.known("eval.steps", "?") in (None, 0) else "eval.steps"
    total, every = porting.known("run.max_steps", "?"), porting.known(place, "?")
    return not (isinstance(total, int) and isinstance(every, int) and total > 0 < every and total % every == 0)


def _cuts_epochs(porting: Porting) -> bool:
    """Whether the run may end within an epoch: by max_steps, or after a share of an epoch."""
    steps, epochs = porting.value("run.max_steps"), porting.value("run.epochs")
    if steps is not None and not (steps.known and not (isinstance(steps.literal, int | float) and steps.literal > 0)):
        return True
    return epochs is not None and epochs.known and isinstance(epochs.literal, float) and not epochs.literal.is_integer()


def _say_nothing_is_evaluated(porting: Porting) -> None:
    value, site = porting.value("eval.strategy"), porting.trainer
    if site is None or value is None or value.origin is None:
        return
    message = "The trainer is asked for evaluations and given no eval_dataset: the source ends with an error there."
    fix = "The port trains and evaluates nothing. Give eval_dataset=, or check that this is the script that was run."
    porting.find(site.rule, "warning", message, fix, site.line, site.column, todo=False)


# What a run reads of its evaluations, where there are any.
OF_EVALUATION = ("steps", "on_start", "accumulation", "include", "include_inputs", "loss_only", "delay")


def _every(porting: Porting, part: str, steps: str, *, last: bool = False) -> str:
    """How often, in optimizer steps: `eval.steps` or `save.steps`, by strategy; below 1 it is a ratio of all steps.

    `last`: and at the last step, due or not.
    """
    strategy = str(porting.known(f"{part}.strategy", "no"))
    if strategy in ("epoch", "no"):
        unread(porting, f'{part}_strategy is "{strategy}"', f"{part}.steps")
    if strategy == "epoch":
        return _epochs(porting, last=last)
    if strategy == "no":
        return steps
    place = f"{part}.steps"
    if part == "eval" and porting.known(place, "?") in (None, 0):
        place = "log.steps"  # transformers evaluates as often as it logs when nothing else is said
    value, only = porting.value(place), part == "save" and _saves_only(porting)
    if value is not None and not value.known:
        if only:
            return f"{porting.text(place)}, {steps}"
        places = [place, *(["log.steps"] if place == "eval.steps" else [])]
        either = porting.text(place) if len(places) == 1 else " or ".join(operand(porting.text(one)) for one in places)
        return f"{porting.rt('interval')}({either}, {steps}{', last=True' * last})"
    if value is not None and isinstance(value.literal, int | float) and value.literal <= 0:  # never due
        return f"{steps} + 1" if only else steps
    if last:
        return f"{porting.rt('interval')}({porting.text(place)}, {steps}, last=True)"
    if value is not None and isinstance(value.literal, int | float) and value.literal < 1:
        porting.imports.add("import math")
        return f"math.ceil({porting.text(place)} * {steps})"
    return porting.text(place)


ENDS_AGAIN = "a run anew that finds checkpoints there ends: Tunix would go on from them, the Trainer writes over them"


def _epochs(porting: Porting, *, last: bool) -> str:
    """The optimizer steps of an epoch; `last`: and what the run's end leaves of one."""
    batches = porting.names.batches
    every = f"{batches}.steps_per_epoch"
    return f"{porting.rt('interval')}({every}, {batches}.steps, last=True)" if last else every


def _checkpoints(porting: Porting, steps: str) -> list[Arg]:
    if porting.only_evaluates:
        unread(porting, "nothing trains this trainer, which saves nothing then", "run.output_dir")
    if not _saves(porting):
        unread(porting, "no checkpoint is saved", "save.steps", "save.total_limit", "save.only_model", *BEST)
        if porting.resumes and porting.trainer is not None:
            message = 'resume_from_checkpoint with save_strategy "no": Tunix resumes and saves in one place.'
            site = porting.trainer
            porting.find(site.rule, "error", message, "Save checkpoints, or start anew.", site.line, site.column)
        if porting.known("save.best_at_end") is True:
            _check_strategies(porting)
        return []
    folder = porting.output_dir()
    start = f"{porting.rt('resume_dir' if porting.resumes == 'True' else 'fresh_dir')}({folder})"
    if porting.resumes not in ("", "True"):
        start_of = f"{folder}, {bare(porting.resumes)}" if porting.resumes_from else folder
        start = choice(porting.resumes, f"{porting.rt('resume_dir')}({start_of})", start)
    if porting.resumes != "True":
        porting.change_fate(".output_dir", reason=ENDS_AGAIN)
    porting.imports.add("import orbax.checkpoint as ocp")
    # save_interval_steps would save the first step as well, which transformers doesn't.
    policy = Call(_policy(porting), [Arg(_every(porting, "save", steps))])
    options = [remarked(porting, Arg(policy, "save_decision_policy"), "save.strategy", "save.steps")]
    limit = porting.value("save.total_limit")
    kept = porting.text("save.total_limit") if limit is not None else "None"
    if keeps_best(porting):
        if loads_best(porting):
            _check_strategies(porting)
        given = ["" if kept == "None" else kept, _counts_best(porting, steps)]
        best = Arg(f"{porting.rt('KeepBest')}({', '.join(filter(None, given))})", "preservation_policy")
        best = marked(best, mark(porting, *(place for place in BEST if _is_usual(porting, place))))
        asked = "save.best_at_end" if loads_best(porting) else "save.best_metric"
        options.append(remarked(porting, best, asked, "save.total_limit"))
    else:
        options.append(remarked(porting, Arg(kept, "max_to_keep"), "save.total_limit"))
    resumable = mark_keywords(porting, porting.config, "save_only_model")
    start = mark_row(porting, "train.resume_from_checkpoint") + start if porting.resumes else start
    return [
        remarked(porting, Arg(start, "checkpoint_root_directory"), "run.output_dir"),
        Arg(Call(f"{resumable}ocp.CheckpointManagerOptions", options), "checkpointing_options"),
    ]


def _counts_best(porting: Porting, steps: str) -> str:
    """The source's release for rt.KeepBest, where it counted evaluations without a checkpoint otherwise than today's
    and there may be such.
    """
    version = plain_version(porting.versions.get("transformers", ""))
    if not version or version_key(version) >= (4, 50) or str(porting.known("save.strategy", "no")) == "epoch":
        return ""
    return "" if _every(porting, "eval", steps) == _every(porting, "save", steps) else f'transformers="{version}"'


def _saves(porting: Porting) -> bool:
    """Whether the run saves checkpoints."""
    strategy = porting.value("save.strategy") if not porting.only_evaluates else None
    return strategy is not None and not (strategy.known and str(strategy.literal) in ("no", "False"))


def _check_strategies(porting: Porting) -> None:
    """transformers doesn't start where it would load the best of checkpoints that it never evaluated."""
    strategies = [porting.value(f"{part}.strategy") for part in ("eval", "save")]
    said = [str(value.literal) if value is not None and value.known else None for value in strategies]
    site = porting.trainer
    if None in said or said[0] == said[1] or site is None or not porting.value("save.best_at_end").known:  # type: ignore[union-attr]
        return
    message = f"load_best_model_at_end with eval_strategy {said[0]!r} and save_strategy {said[1]!r}: "
    message += "transformers ends at its start there."
    porting.find(site.rule, "error", message, "Evaluate and save at the same steps.", site.line, site.column)


def _policy(porting: Porting) -> str:
    return porting.rt("SaveOnlyEvery") if _saves_only(porting) else "ocp.checkpoint_managers.FixedIntervalPolicy"


def _saves_only(porting: Porting) -> bool:
    """Whether no checkpoint is saved at the end unless one is due, as in transformers before 4.42."""
    version = plain_version(porting.versions.get("transformers", ""))
    return str(porting.known("save.strategy", "no")) == "steps" and not release(None, version or None).saves_last


def _metrics(porting: Porting) -> list[Arg]:
    wanted = reporters(porting)
    if wanted == []:
        unread(porting, "nothing is reported to a tracker", "log.dir", "log.run_name")
        return []
    names = Arg(porting.text("log.report_to") if wanted is None else python(wanted))
    options = [remarked(porting, names, "log.report_to")]
    folder = porting.value("log.dir")
    if folder is not None and not folder.is_literal(None):
        options.append(remarked(porting, Arg(porting.text("log.dir"), "log_dir"), "log.dir"))
    else:
        options.append(Arg(_runs(porting), "log_dir"))
    name = porting.value("log.run_name")
    if name is not None and not name.is_literal(None):
        options.append(remarked(porting, Arg(porting.text("log.run_name"), "run_name"), "log.run_name"))
    elif (wanted is None or {"wandb", "all"} & {*wanted}) and is_named_after_folder(porting):
        options.append(Arg(porting.output_dir(), "run_name"))
    return [Arg(Call(porting.rt("metrics_options"), options), "metrics_logging_options")]


def _best_metric(porting: Porting) -> list[Arg]:
    """What evaluations are compared by, where that isn't the lowest eval_loss."""
    metric, greater = porting.value("save.best_metric"), porting.value("save.greater_is_better")
    arguments = []
    if metric is not None and not metric.is_literal(*LOSSES):
        arg = Arg(porting.text("save.best_metric"), "metric_for_best_model")
        arguments.append(remarked(porting, arg, "save.best_metric"))
    if greater is not None and not greater.is_literal(None) and (arguments or not greater.is_literal(False)):
        arg = Arg(porting.text("save.greater_is_better"), "greater_is_better")
        arguments.append(remarked(porting, arg, "save.greater_is_better"))
    return arguments


# What the best checkpoint is chosen by: rt.KeepBest keeps that of the lowest loss unless it is told otherwise.
BEST = ("save.best_metric", "save.greater_is_better")


def _is_usual(porting: Porting, place: str) -> bool:
    value = porting.value(place)
    return value is not None and value.is_literal(*LOSSES, False)


def _runs(porting: Porting) -> str:
    folder = porting.value("run.output_dir")
    if folder is not None and folder.known and isinstance(folder.literal, str):
        text = porting.text("run.output_dir")
        if text == folder.code or text.startswith(('"', "'")):
            return quoted(folder.literal.rstrip("/") + "/runs")
    porting.imports.add("import os")
    return f'os.path.join({porting.output_dir()}, "runs")'


def _callbacks(porting: Porting, code: str) -> list[Arg]:
    tokenizer = porting.names.tokenizer if reads_tokenizer(porting) else ""
    trainers = porting.trainer.argument("callbacks") if porting.trainer is not None else None
    listed = [marked(Arg(code, "callbacks"), mark_of(porting, [trainers]))] if code else []
    return [*listed, Arg(tokenizer, "processing_class")] if tokenizer else listed


def with_hooks(porting: Porting, indent: str, *, metrics: bool = False) -> list[str]:
    """The line that logs as the source logs; `metrics`: with those of the batches."""
    callbacks = with_trackers(porting, porting.code.get("callbacks", ""))
    if porting.arguments_object:
        arguments = [
            Arg(given(porting, "training_hooks", porting.arguments_object)),
            Arg(porting.names.batches),
            Arg(porting.names.schedule),
        ]
        arguments += _callbacks(porting, callbacks)
        hooks = Call(porting.rt("training_hooks"), arguments)
        return [render(Call(f"{porting.names.trainer}.with_training_hooks", [Arg(hooks)]), indent)]
    strategy = porting.value("log.strategy")
    silent = strategy is not None and strategy.known and str(strategy.literal) == "no"
    if strategy is not None and strategy.is_literal("no", "epoch"):
        unread(porting, f'logging_strategy is "{strategy.literal}"', "log.steps")
    every = "None" if silent else porting.text("log.steps")
    if strategy is not None and strategy.is_literal("epoch"):
        every = _epochs(porting, last=_cuts_epochs(porting))
    first = porting.value("log.first_step")
    off = [place for place in ("log.first_step", "eval.on_start") if porting.known(place) is False]
    if callbacks and not keeps_best(porting):  # which compare by what they compare by anyway
        off += [place for place in BEST if _is_usual(porting, place)]
    arguments = [Arg(mark(porting, *off) + every)]
    said_of = ["log.strategy", "log.steps"]
    if first is not None and not first.is_literal(False):
        arguments.append(Arg(porting.text("log.first_step"), "first_step"))
        said_of.append("log.first_step")
    on_start = porting.value("eval.on_start")
    if evaluates_in_training(porting) and on_start is not None and not on_start.is_literal(False):
        arguments.append(Arg(porting.text("eval.on_start"), "eval_on_start"))
        said_of.append("eval.on_start")
    arguments.append(Arg(porting.names.schedule, "schedule"))
    arguments.append(Arg(f"{porting.names.batches}.steps_per_epoch", "steps_per_epoch"))
    arguments += _callbacks(porting, callbacks)
    if by_epoch := [quoted(name) for name, place in EVENTS if callbacks and porting.known(place) == "epoch"]:
        arguments.append(Arg(f"[{', '.join(by_epoch)}]", "by_epoch"))
    if metrics:
        arguments.append(Arg(f"{porting.names.batches}.metrics", "metrics"))
    if callbacks or keeps_best(porting):
        arguments += _best_metric(porting)
    else:
        unread(porting, "no best checkpoint is loaded, or spared from a save_total_limit", *BEST)
    if porting.value("save.strategy") is not None and not _saves(porting) and not porting.only_evaluates:
        folder = marked(Arg(porting.output_dir(), "output_dir"), mark(porting, "run.output_dir"))
        arguments.append(folder)  # of the record, which lies with checkpoints else
    if not silent:
        arguments += _of_its_lines(porting)
    log = Call(porting.rt("log_every"), arguments)
    code = render(Call(f"{porting.names.trainer}.with_training_hooks", [Arg(log)]), indent)
    return remarked_line(porting, code, indent, *said_of)
