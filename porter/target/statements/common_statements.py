"""The statements that every trainer's port has: mesh, model, adapters, optimizer, and how long it runs.

They come in the order a Tunix user writes them; `sft.py` and its neighbours put them together. What the source gives
as a literal is a literal here; what it decides at run time is read at run time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import libcst as cst

from ...engine.dating.row_order import shuffling_in
from ...engine.loops.parts import loop_parts
from ...engine.receipts.marking import given, keys_at, mark, mark_keywords, mark_of, mark_row, unread, unread_unless
from ...engine.receipts.moot import RESUMES
from ...engine.script.fill_from_tables import short_name
from ...engine.script.following.may_be_none import is_none_somewhere, is_tested_for_none
from ...engine.script.porting import Porting
from ...engine.script.sites import Argument
from ...runtime.facts.family import Family
from ...runtime.facts.lora_targets import Rule
from ...source.conditions import bare
from ...text.expressions import atom, parts_of_choice, python, quoted
from ...text.layout import WIDTH, Arg, Call, render
from .evaluation import (
    computes_metrics,
    evaluates_never,
    evaluation_sets,
    has_evaluation,
    included,
    metrics_of,
    strategy_when_run,
)
from .lora import adapters_mark, apply_call, dropout_arguments, provider_code, seed_of_adapters
from .optimizer import optimizer_call, schedule_lines
from .remarks import handed, marked, placed, remarked, said_by, unwritten
from .remat import MEMORY, memory_line
from .training_config import training_config, with_hooks


@dataclass(frozen=True)
class Writing:
    """What the writer decided before the first line: family, sizes, literal LoRA rules, statements made elsewhere."""

    family: Family | None
    sizes: Mapping[str, Any] | None
    rules: tuple[Rule, ...] | None
    mesh_code: str
    mesh_elsewhere: bool
    provider_elsewhere: bool
    provider: str
    processes: int


# Recipe place → keyword of all batches and the value that the runtime takes when it is left out.
RUN: Mapping[str, tuple[str, Any]] = {
    "batch.accumulation": ("accumulation", 1),
    "run.data_seed": ("data_seed", None),
    "run.max_steps": ("max_steps", -1),
    "mesh.processes": ("processes", 1),
}


def assign(name: str, call: str | Call, indent: str, comment: str = "") -> str:
    code = render(call, indent, before=len(name) + 3)
    return f"{name} = {code}{f'  {comment}' if comment else ''}"


def joined(parts: list[list[list[str]]], indent: str) -> str:
    """Groups of lines as one text, the first without its indentation; a blank line between `parts`."""
    texts = [f"\n{indent}".join(line for group in part for line in group) for part in parts]
    return f"\n\n{indent}".join(texts)


def run_arguments(porting: Porting, writing: Writing) -> list[Arg]:
    """How long and how large: `max_steps` or `epochs`, `batch_size`, `accumulation`, `processes`."""
    arguments = []
    steps = porting.value("run.max_steps")
    if steps is not None and not steps.is_literal(-1, 0, None):
        arguments.append(placed(porting, "run.max_steps", "max_steps"))
        if porting.given("run.epochs") or (not steps.known and porting.loop is None):
            arguments.append(placed(porting, "run.epochs", "epochs"))
    else:
        if steps is not None and steps.is_literal(0):
            unread(porting, "max_steps counts where it is above 0: num_train_epochs does here", "run.max_steps")
        arguments.append(placed(porting, "run.epochs", "epochs"))
    arguments.append(marked(_batch_size(porting, writing), mark_row(porting, "effective batch")))
    accumulation = porting.value("batch.accumulation")
    if accumulation is not None and not accumulation.is_literal(1, None):
        arguments.append(placed(porting, "batch.accumulation", "accumulation"))
    return arguments + processes_argument(porting, writing)


def processes_argument(porting: Porting, writing: Writing) -> list[Arg]:
    """`processes=8`, of the GPU run, where it had more than one."""
    if writing.processes == 1:
        return []
    return [marked(Arg(str(writing.processes), "processes"), mark(porting, "mesh.processes"))]


def seed_arguments(porting: Porting) -> list[Arg]:
    """`seed` and `data_seed`, which give the order of the rows."""
    note = "# the GPU run's order" if porting.loop is None else "# another order than the GPU run's"
    if porting.loop is not None and porting.known("data.sampling") == "sequential":
        note = "# the rows come in their order"
    arguments = [placed(porting, "run.seed", "seed", note)]
    data_seed = porting.value("run.data_seed")
    if data_seed is not None and not data_seed.is_literal(None):
        arguments.append(placed(porting, "run.data_seed", "data_seed"))
    return arguments


def shuffling_arguments(porting: Porting, writing: Writing) -> list[Arg]:
    """`shuffling="drawn"` where the releases of the source didn't seed the order of the rows as today's do."""
    sampling, trainer = porting.value("data.sampling"), porting.trainer
    if porting.loop is not None or trainer is None or (sampling is not None and sampling.is_literal("sequential")):
        return []
    shuffling, releases = shuffling_in(porting, writing.processes)
    if shuffling == "seeded" or (sampling is not None and sampling.is_literal("group_by_length")):
        return []
    if shuffling == "drawn" and has_evaluation(porting):
        message = (
            f"{releases} draw each epoch's order from torch's global generator, which evaluating draws from, too: the "
            "port's order is the GPU run's until the first evaluation's epoch ends, then another random one."
        )
        porting.find(trainer.rule, "info", message, "", trainer.line, trainer.column)
    return [Arg(quoted(shuffling), "shuffling", f"# as {releases} did")]


def _batch_size(porting: Porting, writing: Writing) -> Arg:
    place = "batch.per_device"
    per_device, text = porting.value(place), porting.text(place)
    if writing.processes == 1:
        return placed(porting, place, "batch_size")
    if per_device is not None and per_device.known and text == per_device.code:
        total = str(per_device.literal * writing.processes)
        arg = Arg(total, "batch_size", f"# {text} a GPU on {writing.processes} GPUs")
    else:
        arg = Arg(f"{atom(text)} * {writing.processes}", "batch_size", "# of all GPUs")
    return remarked(porting, arg, place)


def batch_lines(
    porting: Porting,
    writing: Writing,
    indent: str,
    helper: str,
    behind: str,
    settings: Callable[[], list[Arg]],
    own: Callable[[], list[Arg]] = list,
    *,
    defaults: Mapping[str, tuple[str, Any]] = MappingProxyType({}),
    asks: str = "",
    from_object: bool | None = None,
) -> list[str]:
    """`batches = rt.SFTBatches(dataset, tokenizer, mesh, ...)`, and the batches of an evaluation set.

    `helper` is the class, `behind` what stands behind the dataset, `settings` the keywords. Where a config object has
    them (`from_object` None: whenever the script has one), it is `from_args` with what it is told besides, `own`.
    `defaults`: recipe place → keyword and the value that the runtime takes when it is left out. `asks`: marks of what
    else of the source the batches do.
    """
    site, names = porting.trainer, porting.names
    assert site is not None
    dataset = site.argument("train_dataset")
    tokenizer = [site.argument(name) for name in ("processing_class", "tokenizer", "data_collator")]
    data = [handed(porting, dataset), marked(Arg(behind), mark_of(porting, tokenizer)), Arg(names.mesh)]
    runtime = mark_of(porting, [site.argument("args")]) + asks + porting.rt(helper)
    if bool(porting.arguments_object) if from_object is None else from_object:
        processes = processes_argument(porting, writing)
        kept = Arg(given(porting, f"{helper}.from_args", porting.arguments_object))
        arguments = [kept, *data, *processes, *own()]
        call = Call(unwritten(porting, given_defaults(porting, defaults)) + f"{runtime}.from_args", arguments)
    else:
        call = Call(unwritten(porting, {**RUN, **defaults}) + runtime, [*data, *settings()])
    evaluation = eval_lines(porting, writing, indent, site.argument("eval_dataset"))
    return [assign(names.batches, call, indent), *evaluation]


def given_defaults(porting: Porting, defaults: Mapping[str, tuple[str, Any]]) -> Mapping[str, tuple[str, Any]]:
    """Of the values that a call takes anyway, those whose keyword stands in the trainer's own call."""
    trainer = porting.trainer
    given = [each.value for each in trainer.arguments] if trainer is not None else []
    return {place: said for place, said in defaults.items() if any(porting.value(place) is value for value in given)}


SETS_RESUME = re.compile(r"\.resume_from_checkpoint\s*=(?!=)")


def resume_lines(porting: Porting) -> list[str]:
    """What `train(resume_from_checkpoint=)` was given goes into the config object, which decides at start; of one that
    may say something else, which the Trainer doesn't read, that nothing was given."""
    field = f"{porting.arguments_object}.resume_from_checkpoint"
    if porting.arguments_object and not porting.resumes and not porting.given_away and _may_say_resume(porting):
        return [f"{field} = None  # as train() is given nothing"]
    if not porting.arguments_object or porting.resumes in ("", field):
        return []
    line = f"{field} = {bare(porting.resumes)}"
    choice = parts_of_choice(porting.resumes)
    if choice is None or porting.trainer is None or len(porting.trainer.indent + line) <= WIDTH:
        return [line]
    inner, (one, test, other) = porting.module.indent, choice
    return [f"{field} = (", f"{inner}{one}", f"{inner}if {test}", f"{inner}else {other}", ")"]


def _may_say_resume(porting: Porting) -> bool:
    """Whether the config object may hold `resume_from_checkpoint`: by its keyword, a parser's, or set by the script."""
    config = porting.config
    if config is None or config.unknown_keywords:
        return True
    said = config.argument("resume_from_checkpoint")
    if said is None or (said.value.known and not said.value.literal):
        return SETS_RESUME.search(porting.module.text) is not None
    porting.change_fate(f"{short_name(config)}.{said.name}", fate="dropped", target="", reason=RESUMES)
    return True


def eval_lines(porting: Porting, writing: Writing, indent: str, dataset: Argument | None) -> list[str]:
    """Evaluation batches, when the source evaluates while it trains or calls evaluate()."""
    names = porting.names
    if not has_evaluation(porting):
        if dataset is not None and not dataset.value.is_literal(None):
            calls = "evaluate() is given rows of its own" if porting.evaluates else "nothing calls evaluate()"
            reason = f'the source never evaluates it: eval_strategy is "no", and {calls}'
            porting.change_fate(".eval_dataset", fate="dropped", target="", reason=reason)
        if any(has_evaluation(mate) for mate in porting.mates):
            names.eval_batches = porting.fresh("eval_batches")
            return [f"{names.eval_batches} = None"]
        return []
    assert dataset is not None
    strategy = porting.value("eval.strategy")
    names.eval_batches = porting.fresh("eval_batches")
    size = mark(porting, "batch.eval_per_device", "mesh.processes") + porting.eval_rows()
    packing = porting.value("data.eval_packing")
    extra = []
    if packing is not None and not packing.is_literal(None) and not porting.arguments_object:
        extra = [marked(Arg(porting.text("data.eval_packing"), "packing"), mark(porting, "data.eval_packing"))]
    asked = strategy is not None and strategy.known and not _may_be_none(porting, dataset)
    data, lines = dataset.text, []
    if not asked and not dataset.reference:
        data = porting.fresh("eval_dataset")
        lines.append(f"{data} = {dataset.text}")
    source = marked(Arg(data), mark_of(porting, [dataset]))
    call = Call(f"{names.batches}.evaluation", [source, Arg(size, "batch_size"), *extra])
    if asked:
        lines.append(assign(names.eval_batches, call, indent))
    else:
        lines.append(f"{names.eval_batches} = None")
        lines.append(f"if {data} is not None{_where_evaluated(porting)}:")
        lines.append(porting.module.indent + assign(names.eval_batches, call, indent + porting.module.indent))
    return lines


def _may_be_none(porting: Porting, dataset: Argument) -> bool:
    """Whether the evaluation set is None in a branch, or is tested for it where no strategy asks for evaluations."""
    module = porting.module
    return is_none_somewhere(module, dataset.node) or (
        evaluates_never(porting) and is_tested_for_none(module, dataset.node)
    )


def _where_evaluated(porting: Porting) -> str:
    """What else the run's settings say of evaluating, where only these do and the script calls no evaluate()."""
    strategy = strategy_when_run(porting)
    return f' and {strategy} != "no"' if strategy and not porting.evaluates else ""


def lora_lines(porting: Porting, writing: Writing, indent: str) -> list[str]:
    names = porting.names
    lines: list[str] = []
    if _is_outer(porting):
        # Assigning the outer model's name here would make it a local one that isn't set yet.
        outer, names.model = names.model, porting.fresh("tuned_model")
        lines.append(f"{names.model} = {outer}")
    remat = memory_line(porting, indent)
    if porting.inject is None and porting.trainer is not None:
        seed = seed_of_adapters(porting, porting.trainer)
        if porting.lora_object:
            config = porting.lora_object
            if re.fullmatch(r"[\w.]+", config) is None:
                config = porting.fresh("peft_config")
                lines.append(f"{config} = {porting.lora_object}")
            apply = Call(
                porting.rt("apply_peft"),
                [
                    Arg(names.model),
                    marked(Arg(given(porting, "apply_peft", config)), adapters_mark(porting)),
                    Arg(names.mesh),
                    Arg(seed, "seed"),
                    *dropout_arguments(porting),
                ],
            )
            if porting.lora_certain:
                lines.append(assign(names.model, apply, indent))
            else:
                lines.append(f"if {config} is not None:")
                lines.append(f"{porting.module.indent}{assign(names.model, apply, indent + porting.module.indent)}")
        elif porting.lora is not None:
            if not writing.provider_elsewhere:
                code = provider_code(porting, writing.rules, writing.family, indent, len(writing.provider) + 3)
                lines += [*porting.lora_heading, f"{writing.provider} = {code}"]
            lines.append(assign(names.model, apply_call(porting, writing.provider, seed), indent))
    return [*lines, *remat]


def _is_outer(porting: Porting) -> bool:
    """Whether the trainer takes its model from a name of a function or module around its own."""
    trainer = porting.trainer
    assert trainer is not None
    model = trainer.argument("model")
    if model is None or not isinstance(model.node, cst.Name) or not (porting.model or porting.foreign_model):
        return False
    found = trainer.scope.lookup(model.node.value)
    return found is not None and found[0] is not trainer.scope


def optimizer_lines(porting: Porting, indent: str) -> list[str]:
    names = porting.names
    steps = f"{names.batches}.steps"
    if porting.loop is not None and porting.given("schedule.steps"):
        steps = porting.text("schedule.steps")
    lora_maybe = (bool(porting.lora_object) and not porting.lora_certain) or porting.lora_conditional
    full = not (porting.lora or porting.lora_object or porting.lora_conditional)
    chain = optimizer_call(porting, full=full, separate_kv=porting.fuses, lora_maybe=lora_maybe)
    if len(chain.arguments) == 1:
        chain = chain.arguments[0].value if isinstance(chain.arguments[0].value, Call) else chain
    return [*schedule_lines(porting, steps, indent), assign(names.optimizer, chain, indent)]


def trainer_lines(porting: Porting, indent: str) -> list[str]:
    """`trainer = PeftTrainer(...)` with the loss over the whole step, and its log lines.

    `rt.MetricsTrainer` where the source computes metrics of what it evaluates, or evaluates several sets.
    """
    names = porting.names
    config = training_config(porting)
    metrics = metrics_arguments(porting)
    evaluates_more = bool(metrics) or (evaluation_sets(porting) is not None and bool(names.eval_batches))
    if not evaluates_more:
        porting.imports.add("from tunix.sft.peft_trainer import PeftTrainer")
    trainer = porting.rt("MetricsTrainer") if evaluates_more else "PeftTrainer"
    loss = mark(porting, "loss.type") + mark_keywords(porting, porting.config, "loss_type") + porting.rt("token_loss")
    tail = f".with_gen_model_input_fn({porting.rt('model_inputs')}).with_loss_fn({loss})"
    call = Call(trainer, [trained_model(porting), Arg(names.optimizer), Arg(config), *metrics], tail=tail)
    return [*resume_lines(porting), assign(names.trainer, call, indent), *with_hooks(porting, indent)]


def trained_model(porting: Porting) -> Arg:
    """The model as the trainer's argument: what is asked of its memory is the model's own by then."""
    site = porting.trainer
    assert site is not None
    places = [f"memory.{place}" for place in MEMORY if porting.known(f"memory.{place}") is False]
    optimizer = loop_parts(porting)[1] if porting.loop is not None else None
    made = next((each for each in porting.sites if each.node is site.node), site)  # with adapters put in on the spot
    given_models = [each.argument("model") for each in (made, site)]
    marks = mark_of(porting, given_models) + mark_keywords(porting, optimizer, "params")
    return marked(Arg(porting.names.model), marks + mark(porting, *places))


def metrics_arguments(porting: Porting) -> list[Arg]:
    """compute_metrics and what belongs to it, where the source evaluates."""
    given = metrics_of(porting)
    unread_unless(porting, "no metric is computed", keys_at(porting, "eval.loss_only"))
    if given is None:
        return []
    if not computes_metrics(porting):
        evaluated = has_evaluation(porting) or porting.evaluates
        for name in (".compute_metrics", ".preprocess_logits_for_metrics"):
            reason = "prediction_loss_only=True leaves the metrics out" if evaluated else "nothing is evaluated"
            porting.change_fate(name, fate="dropped", target="", reason=reason)
        return []
    assert porting.trainer is not None
    arguments = [handed(porting, given, "compute_metrics")]
    preprocess = porting.trainer.argument("preprocess_logits_for_metrics")
    if preprocess is not None and not preprocess.value.is_literal(None):
        code = porting.code.get("preprocess_logits", preprocess.text)
        arguments.append(said_by(porting, [preprocess], Arg(code, "preprocess_logits_for_metrics")))
    wanted = included(porting)
    if wanted is None:
        arguments.append(remarked(porting, Arg(porting.text("eval.include"), "include_for_metrics"), "eval.include"))
    elif wanted:
        asked = Arg(python(wanted), "include_for_metrics")
        arguments.append(remarked(porting, asked, "eval.include", "eval.include_inputs"))
    alone = porting.value("eval.loss_only")
    if alone is not None and not alone.known:
        asked = Arg(porting.text("eval.loss_only"), "prediction_loss_only")
        arguments.append(remarked(porting, asked, "eval.loss_only"))
    return arguments
