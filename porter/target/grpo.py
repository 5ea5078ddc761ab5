"""GRPO and RLOO: what stands where the GRPOTrainer or RLOOTrainer stood.

The batches sample and score completions while PeftTrainer trains, so they come after the adapters: mesh, model, LoRA,
rollouts, optimizer, trainer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..engine.reading.checkpoints.saved_adapters import leaves_adapter_out
from ..engine.receipts.marking import given, mark, mark_keywords, mark_of, mark_row, mark_target
from ..engine.script.fill_from_tables import plain_version, short_name, table_of
from ..engine.script.porting import Porting
from ..recipe import Field, Kind
from ..runtime.facts import releases
from ..runtime.facts.field_tables import version_key
from ..source.project.usual.model_names import usual_value
from ..text.expressions import choice, operand, quoted
from ..text.layout import Arg, Call
from .statements.checkpoint_sampling import checkpoint_fills, sampled_by_vllm
from .statements.common_statements import (
    RUN,
    Writing,
    assign,
    joined,
    lora_lines,
    optimizer_lines,
    processes_argument,
    resume_lines,
    run_arguments,
    trained_model,
)
from .statements.model_statements import (
    model_lines,
)
from .statements.remarks import default_of, handed, marked, placed, remarked, unwritten
from .statements.training_config import training_config, with_hooks

LEFTOVERS = {
    "trained": "# an epoch's last prompts fill a smaller micro-step before TRL 0.16",
    "counted": "# prompts that fill no generation batch count as steps before TRL 0.20",
}
WHOLE_ACCUMULATION = "# a step of fewer micro-steps counts less before transformers 4.53"
EACH_ROW = "# each row's loss apart, and their mean, as Unsloth's before 2026.2.1"
SOME_ROWS = "# the loss of so many parts of a micro-step apart, and their mean, as Unsloth's before 2026.2.1"
COUNTS_COMPLETIONS = (0, 15)  # the first release of TRL whose batch sizes are completions

# Recipe place → keyword of the batches and the value that the runtime takes when it is left out; `...`: always written.
ROLLOUTS: Mapping[str, tuple[str, Any]] = {
    "rollout.generations": ("num_generations", ...),
    "rollout.iterations": ("num_iterations", 1),
    "rollout.steps": ("steps_per_generation", None),
    "rollout.batch_size": ("generation_batch_size", None),
    "rollout.max_prompt_length": ("max_prompt_length", None),
    "rollout.max_completion_length": ("max_completion_length", ...),
    "rollout.temperature": ("temperature", 1.0),
    "rollout.top_p": ("top_p", 1.0),
    "rollout.top_k": ("top_k", None),
    "rollout.min_p": ("min_p", None),
    "rollout.repetition_penalty": ("repetition_penalty", 1.0),
    "rollout.mask_truncated": ("mask_truncated_completions", False),
    "reward.weights": ("reward_weights", None),
    "data.shuffle": ("shuffle_dataset", True),
    "data.chat_template_kwargs": ("chat_template_kwargs", None),
}
GRPO = {
    "reward.scale": ("scale_rewards", "group"),
    "reward.aggregation": ("multi_objective_aggregation", "sum_then_normalize"),
}
RLOO = {
    "loss.beta": ("beta", ...),
    "loss.epsilon": ("epsilon", 0.2),
    "loss.epsilon_high": ("epsilon_high", None),
    "reward.clip_range": ("reward_clip_range", None),
    "reward.normalize": ("normalize_advantages", False),
}
# The same for rt.PolicyLoss; what follows the loss type is written for that type alone.
LOSS: Mapping[str, tuple[str, Any, tuple[str, ...]]] = {
    "loss.beta": ("beta", 0.0, ()),
    "loss.epsilon": ("epsilon", 0.2, ()),
    "loss.epsilon_high": ("epsilon_high", None, ()),
    "loss.delta": ("delta", None, ()),
    "loss.level": ("importance_sampling_level", "token", ()),
    "loss.sapo_temperature_pos": ("sapo_temperature_pos", 1.0, ("sapo",)),
    "loss.sapo_temperature_neg": ("sapo_temperature_neg", 1.05, ("sapo",)),
    "loss.vespo_k_pos": ("vespo_k_pos", 2.0, ("vespo",)),
    "loss.vespo_lambda_pos": ("vespo_lambda_pos", 3.0, ("vespo",)),
    "loss.vespo_k_neg": ("vespo_k_neg", 3.0, ("vespo",)),
    "loss.vespo_lambda_neg": ("vespo_lambda_neg", 2.0, ("vespo",)),
    "loss.off_policy": ("off_policy_mask_threshold", None, ()),
}


def trainer_block(porting: Porting, writing: Writing) -> str:
    """The statements that replace `trainer = GRPOTrainer(...)`, the first without its indentation."""
    site = porting.trainer
    assert site is not None
    indent = site.indent
    _check(porting, writing)
    before = [
        model_lines(porting, writing, indent),
        lora_lines(porting, writing, indent),
        [_rollout_line(porting, writing, indent)],
    ]
    after = [optimizer_lines(porting, indent), _trainer_lines(porting, indent)]
    _say_units(porting, writing)
    return joined([before, after], indent)


# Where the keywords of models go that ask for an engine which samples.
ROLLOUTS_OF_TUNIX = "Tunix's own rollouts"


def _rollout_line(porting: Porting, writing: Writing, indent: str) -> str:
    site, names = porting.trainer, porting.names
    assert site is not None
    rloo = table_of(porting, site).kind == "rloo"
    dataset, rewards = site.argument("train_dataset"), site.argument("reward_funcs")
    asked = mark_of(porting, [site.argument("args")]) + mark_row(porting, "generation batch")
    asked += mark_keywords(porting, porting.config, "use_vllm") + mark_target(porting, ROLLOUTS_OF_TUNIX)
    runtime = asked + porting.rt("RLOOBatches" if rloo else "GRPOBatches")
    tokenizer = [site.argument(name) for name in ("processing_class", "tokenizer")]
    data = [
        handed(porting, dataset),
        marked(Arg(names.tokenizer), mark_of(porting, tokenizer)),
        Arg(names.mesh),
        Arg(names.model),
    ]
    functions = handed(porting, rewards, "reward_funcs")
    if porting.arguments_object:
        processes = processes_argument(porting, writing)
        kept = Arg(given(porting, f"{'RLOO' if rloo else 'GRPO'}Batches.from_args", porting.arguments_object))
        copied = porting.code.get("copied reference", "")
        further = [*_loaded_reference(porting), *([Arg('"start"', "reference", copied)] if copied else [])]
        if _makes_tokenizer(porting):
            further.append(Arg('"left"', "truncation_side", "# of the tokenizer that the trainer makes itself"))
        call = Call(
            f"{runtime}.from_args",
            [kept, *data, functions, *processes, *further],
            spread=any(a.comment for a in further),
        )
        return assign(names.batches, call, indent)
    settings = {**ROLLOUTS, **(RLOO if rloo else GRPO)}
    _settle_top_k(porting)
    loss = [] if rloo else [_loss(porting)]
    arguments = [*data, functions, *loss, *run_arguments(porting, writing), *_keywords(porting, settings)]
    release = plain_version(porting.versions.get("trl", ""))
    divides = not release or releases.release(release).divides_by_temperature
    told = porting.code.get("divides_by_temperature", str(divides))
    if told == "False" and not _is_usual(porting, "rollout.temperature", 1.0):
        arguments.append(Arg("1.0", "loss_temperature", "# temperature is for sampling alone in the source's release"))
    if release and releases.release(release).ends_at_eos_token and (code := _unless_vllm(porting)):
        arguments.append(Arg(code, "only_eos_token", "# completions end there alone from TRL 0.16 to 1.14.1"))
    if release and (dealing := releases.release(release).dealing) != "shuffled":
        arguments.append(Arg(quoted(dealing), "dealing", "# micro-steps keep a prompt's completions before TRL 0.18"))
    arguments += _of_prompts(porting, "rloo" if rloo else "grpo", release)
    transformers = plain_version(porting.versions.get("transformers", "")) or None
    if release and (leftovers := releases.release(release, transformers).leftovers) in LEFTOVERS:
        arguments.append(Arg(quoted(leftovers), "leftovers", LEFTOVERS[leftovers]))
    by_made = not release or releases.release(release, transformers).divides_by_made
    summed = porting.code.get("sums_micro_steps", "")
    if (summed or not by_made) and porting.known("batch.accumulation") != 1:
        comment = f"# {summed} divides no step by its micro-steps" if summed else WHOLE_ACCUMULATION
        arguments.append(Arg("False", "divides_by_made", comment))
    if (apart := porting.value("loss.parts")) is not None:
        note = EACH_ROW if apart.is_literal(-1) else SOME_ROWS
        arguments.append(placed(porting, "loss.parts", "loss_parts", note))
    if leaves_adapter_out(porting):
        arguments.append(Arg('"base"', "reference", "# the model without adapters, as before TRL 0.27"))
    else:
        arguments += _loaded_reference(porting)
    fills = checkpoint_fills(porting)
    if fills:
        arguments.append(fills)
    if raises := porting.code.get("raise_batch_size"):
        arguments.append(Arg(raises, "raise_batch_size", "# to num_generations, as Unsloth does"))
    arguments.append(placed(porting, "run.seed", "seed", "# the GPU run's order"))
    usual = [place for place, (_, default) in settings.items() if _is_usual(porting, place, default)]
    silent = unwritten(porting, {**RUN, **settings}) + mark(porting, *usual)
    return assign(names.batches, Call(silent + runtime, arguments, spread=True), indent)


def _of_prompts(porting: Porting, kind: str, release: str) -> list[Arg]:
    """How the release makes tokens of prompts; vLLM makes them itself where the tokenizer cuts."""
    own = releases.release(release or None)
    if own.samples_as_today(kind):
        return []
    asked_of = "log lines" if own.prompts_as_today(kind) else "prompts"
    arguments = [Arg(quoted(release), "trl", f"# {asked_of} as in this release")]
    if not own.cuts_prompts_as_tokenizer(kind):
        return arguments
    vllm = sampled_by_vllm(porting)
    asked = vllm is not None and (not vllm.known or bool(vllm.literal))
    if vllm is not None and asked:
        code = "True" if vllm.known else f"{vllm.code} or None"
        arguments.append(Arg(code, "start_token", "# vLLM's own"))
    if _makes_tokenizer(porting) or (vllm is not None and asked and vllm.known):
        arguments.append(Arg('"left"', "truncation_side"))
    elif vllm is not None and asked:
        arguments.append(Arg(choice(vllm.code, '"left"', "None"), "truncation_side"))
    return arguments


def _makes_tokenizer(porting: Porting) -> bool:
    """Whether the trainer makes its tokenizer itself, and has it cut on the left (TRL 0.24 to 0.26)."""
    assert porting.trainer is not None
    given = porting.trainer.argument("processing_class", "tokenizer")
    own = releases.release(plain_version(porting.versions.get("trl", "")) or None)
    kind = table_of(porting, porting.trainer).kind
    return (given is None or given.value.is_literal(None)) and own.cuts_prompts_as_tokenizer(kind)


def _loaded_reference(porting: Porting) -> list[Arg]:
    """The reference loaded anew, where the model isn't its checkpoint any more."""
    comment = porting.code.get("reference", "")
    return [Arg('"checkpoint"', "reference", comment)] if comment else []


def _settle_top_k(porting: Porting) -> None:
    """vLLM takes all tokens in releases that tell it no top_k."""
    release, top_k = plain_version(porting.versions.get("trl", "")), porting.value("rollout.top_k")
    if not release or releases.release(release).tells_vllm_top_k or top_k is None or porting.given("rollout.top_k"):
        return
    generates = _unless_vllm(porting)
    code = "None" if not generates else top_k.code if generates == "True" else choice(generates, top_k.code, "None")
    kind: Kind = "default" if generates in ("", "True") else "expression"
    porting.fill({"rollout.top_k": replace(top_k, kind=kind, code=code)})


def _unless_vllm(porting: Porting) -> str:
    """When completions end at the tokenizer's end token alone: vLLM ends at those of generation_config.json, too."""
    vllm = sampled_by_vllm(porting)
    if vllm is None or vllm.known:
        return "" if vllm is not None and vllm.literal else "True"
    return f"not {operand(vllm.code)}"


def _is_usual(porting: Porting, place: str, default: Any) -> bool:
    """Whether a value is left out because the runtime takes it anyway, in whatever words the source has it."""
    value = porting.value(place)
    return value is not None and default is not ... and _is(value, default)


def _keywords(porting: Porting, settings: Mapping[str, tuple[str, Any]]) -> list[Arg]:
    found = []
    for place, (keyword, default) in settings.items():
        value = porting.value(place)
        if value is None or _is_usual(porting, place, default):
            continue
        found.append(placed(porting, place, keyword))
    return found


def _is(value: Any, default: Any) -> bool:
    """Whether a value is what the runtime takes anyway: numbers by what they are worth, `top_k` 0 as None."""
    if not value.known:
        return False
    literal = value.literal
    if default == "group":
        return literal in (True, "group")
    if default is None:
        return literal is None or (literal == 0 and not isinstance(literal, bool))
    return bool(literal == default) and isinstance(literal, bool) == isinstance(default, bool)


def _loss(porting: Porting) -> Arg:
    """`rt.PolicyLoss("dapo", beta=0.04)`."""
    kind = porting.known("loss.type")
    comment = "" if porting.given("loss.type") else f"# {default_of(porting, 'loss.type')} loss_type"
    arguments = [remarked(porting, Arg(porting.text("loss.type")), "loss.type")]
    for place, (keyword, default, only) in LOSS.items():
        value = porting.value(place)
        if only and kind is not None and kind not in only:
            reason = f"only loss_type {' and '.join(only)} reads it, and this run's is {kind}"
            porting.change_fate(f".{keyword}", fate="dropped", target="", reason=reason)
            continue
        if value is None or _is(value, default):
            continue
        arguments.append(remarked(porting, Arg(porting.text(place), keyword), place))
    correction = porting.value("loss.bias_correction")
    if correction is not None and not correction.is_literal(True) and not _is(porting.value("loss.beta"), 0.0):
        arg = Arg(porting.text("loss.bias_correction"), "use_bias_correction_kl")
        arguments.append(marked(arg, mark(porting, "loss.bias_correction")))
    silent = unwritten(porting, {place: said[:2] for place, said in LOSS.items()})
    return Arg(Call(silent + porting.rt("PolicyLoss"), arguments), "loss", comment)


def _trainer_lines(porting: Porting, indent: str) -> list[str]:
    names = porting.names
    porting.imports.add("from tunix.sft.peft_trainer import PeftTrainer")
    tail = f".with_gen_model_input_fn({porting.rt('model_inputs')}).with_loss_fn({names.batches}.loss)"
    call = Call("PeftTrainer", [trained_model(porting), Arg(names.optimizer), Arg(training_config(porting))], tail=tail)
    skip = (
        f"{names.batches}.skip({names.trainer}.train_steps)  # what a resumed run has trained on is not sampled again"
    )
    skipped = [skip] if porting.resumes else []
    return [
        *resume_lines(porting),
        assign(names.trainer, call, indent),
        *skipped,
        *with_hooks(porting, indent, metrics=True),
    ]


def _check(porting: Porting, writing: Writing) -> None:
    """Findings for values that TRL itself refuses, and for evaluation."""
    site = porting.trainer
    assert site is not None

    def find(message: str, fix: str, place: str) -> None:
        value = porting.value(place)
        origin = value.origin if value is not None and value.origin is not None and value.origin.line else None
        line, column = (origin.line, origin.column) if origin else (site.line, site.column)
        porting.find(site.rule, "error", message, fix, line, column)

    strategy = porting.value("eval.strategy")
    if porting.arguments_object and porting.config is not None:  # its values are read where they were given
        given = [porting.config.argument(name) for name in ("eval_strategy", "evaluation_strategy")]
        strategy = next((argument.value for argument in given if argument is not None), strategy)
    asked = strategy is not None and not strategy.is_literal("no", False)
    decided = strategy is not None and asked and (strategy.known or not porting.arguments_object)
    if strategy is not None and asked and not decided and strategy.text:
        path = Path(porting.module.path)
        usual = usual_value(strategy.text, porting.module.python, path)
        decided = usual is not None and usual[0] not in ("no", "False")
        reason = "the port doesn't sample to evaluate: it ends at its start where the run asks for it"
        for keyword in (".eval_strategy", ".evaluation_strategy"):
            porting.change_fate(keyword, fate="changed", target="", reason=reason)
    if strategy is not None and decided:
        said = (
            f"{short_name(site)}: eval_strategy={strategy.text or strategy.code}: the port doesn't sample to evaluate."
        )
        find(said, "Evaluate the trained model on its own.", "eval.strategy")
        best = porting.value("save.best_at_end")
        if best is not None and not porting.arguments_object and not best.is_literal(False):
            porting.fill({"save.best_at_end": replace(best, kind="literal", code="False", text="")})
            reason = "without evaluation no checkpoint is the best: the last one stays"
            porting.change_fate(".load_best_model_at_end", fate="manual", target="", reason=reason)
    release = plain_version(porting.versions.get("trl", ""))
    if release and version_key(release) < COUNTS_COMPLETIONS:
        said = f"TRL {release} counts prompts in per_device_train_batch_size, the port completions as from 0.15 on."
        find(said, "Multiply it by num_generations, or name a later release.", "batch.per_device")
    scale = porting.value("reward.scale")
    if scale is not None and scale.known and scale.literal not in (True, False, "group", "batch", "none"):
        find(f"scale_rewards={scale.code} is not known.", 'Choose one of "group", "batch", "none".', "reward.scale")
    generations, rows = porting.known("rollout.generations"), _generation_rows(porting, writing)
    if isinstance(generations, int) and generations < 2:
        find(f"num_generations={generations}: an advantage needs at least 2 completions.", "", "rollout.generations")
    elif isinstance(generations, int) and _is_dealt_in_order(porting):
        alone = porting.known("batch.per_device")
        if isinstance(alone, int) and alone * writing.processes % generations:
            alone *= writing.processes
            said = f"num_generations={generations} does not divide the {alone} completions of a micro-step, "
            said += f"as TRL {release} asks: the source ends at its start, and so does the port."
            fix = "These are per_device_train_batch_size x processes; name the processes if it had more."
            find(said, fix, "rollout.generations")
    elif isinstance(generations, int) and rows is not None and rows % generations:
        said = f"num_generations={generations} does not divide the generation batch of {rows} completions."
        fix = "It is per_device_train_batch_size x processes x steps_per_generation; name the processes if it had more."
        find(said, fix, "rollout.generations")


def _is_dealt_in_order(porting: Porting) -> bool:
    """Whether the source's TRL samples each micro-step on its own, and counts completions in it."""
    version = plain_version(porting.versions.get("trl", ""))
    counts = bool(version) and version_key(version) >= COUNTS_COMPLETIONS
    return counts and releases.release(version).dealing == "in_order"


def _generation_rows(porting: Porting, writing: Writing) -> int | None:
    """Completions sampled at once, when that is known: TRL's generation_batch_size."""
    whole = porting.known("rollout.batch_size")
    if isinstance(whole, int):
        return whole
    rows, steps = porting.known("batch.per_device"), porting.known("rollout.steps")
    steps = porting.known("batch.accumulation") if steps is None else steps
    if not isinstance(rows, int) or not isinstance(steps, int):
        return None
    return rows * steps * writing.processes


def _say_units(porting: Porting, writing: Writing) -> None:
    """A row on the two ways to count a batch, beside that of the effective batch."""
    site = porting.trainer
    assert site is not None
    rows, generations = _generation_rows(porting, writing), porting.known("rollout.generations")
    said, target = "completions", "completions, as TRL counts"
    if rows is not None and isinstance(generations, int) and generations > 0:
        said = f"{rows} completions sampled at once = {rows / generations:g} prompts x {generations}"
        target = f"{rows / generations:g} prompts sampled at once, {generations} completions of each"
    reason = "the batches count completions as TRL does; Tunix's own learner counts prompts"
    porting.fate(Field("generation batch", said, "exact", target, reason, site.rule, site.line, site.column))
