"""Preference training: what stands where a DPO, ORPO, CPO or KTO trainer stood.

Statements come in the order a Tunix user writes them: mesh, model, data, LoRA, optimizer, trainer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from ..engine.reading.checkpoints.saved_adapters import is_saved, starts_from_adapter
from ..engine.receipts.marking import given, mark, mark_keywords, mark_of
from ..engine.script.fill_from_tables import plain_version, table_of
from ..engine.script.porting import Porting
from ..runtime.facts import releases
from ..text.expressions import choice, operand, quoted
from ..text.layout import Arg, Call, render
from .sft import release
from .statements.common_statements import (
    Writing,
    assign,
    batch_lines,
    joined,
    lora_lines,
    optimizer_lines,
    resume_lines,
    run_arguments,
    seed_arguments,
    shuffling_arguments,
    trained_model,
)
from .statements.model_statements import load_call, model_lines, other_load_call
from .statements.remarks import marked, placed, remarked, unwritten
from .statements.training_config import training_config, with_hooks

Defaults = Mapping[str, tuple[str, Any]]


@dataclass(frozen=True)
class Kind:
    """A trainer's batches and loss in the runtime: recipe place → keyword, and its default there."""

    batches: str
    loss: str
    data: Defaults
    terms: Defaults


_SHARED: Defaults = {
    "data.pad_to_multiple_of": ("pad_to_multiple_of", None),
    "data.num_proc": ("num_proc", None),
    "batch.drop_last": ("drop_last", False),
}
_PROMPT_FIRST: Defaults = {
    "data.max_prompt_length": ("max_prompt_length", None),
    "data.truncation_mode": ("truncation_mode", "keep_start"),
}
_RANDOM: Defaults = {"data.sampling": ("sampling", "random")}
KINDS: Mapping[str, Kind] = {
    "dpo": Kind(
        "PreferenceBatches",
        "dpo_loss",
        {
            "data.truncation_mode": ("truncation_mode", "keep_start"),
            "data.max_prompt_length": ("max_prompt_length", None),
            "data.max_completion_length": ("max_completion_length", None),
            "data.pad_token": ("pad_token", None),
            **_SHARED,
            **_RANDOM,
        },
        {
            "loss.type": ("loss_type", "sigmoid"),
            "loss.weights": ("loss_weights", None),
            "loss.flipped_labels": ("label_smoothing", 0.0),
            "loss.f_divergence": ("f_divergence_type", "reverse_kl"),
            "loss.f_alpha": ("f_alpha_divergence_coef", 0.5),
            "loss.ld_alpha": ("ld_alpha", None),
            "loss.use_weighting": ("use_weighting", False),
            "loss.discopop_tau": ("discopop_tau", 0.05),
            "loss.reference_free": ("reference_free", False),
        },
    ),
    "orpo": Kind("ORPOBatches", "orpo_loss", {**_PROMPT_FIRST, **_SHARED, **_RANDOM}, {}),
    "cpo": Kind(
        "CPOBatches",
        "cpo_loss",
        {**_PROMPT_FIRST, **_SHARED, **_RANDOM},
        {
            "loss.type": ("loss_type", "sigmoid"),
            "loss.flipped_labels": ("label_smoothing", 0.0),
            "loss.cpo_alpha": ("cpo_alpha", 1.0),
            "loss.simpo_gamma": ("simpo_gamma", 0.5),
            "loss.alpha": ("alpha", 0.0),
        },
    ),
    "kto": Kind(
        "KTOBatches",
        "kto_loss",
        {
            **_PROMPT_FIRST,
            **_SHARED,
            "data.sampling": ("sampling", "sequential"),
        },
        {
            "loss.type": ("loss_type", "kto"),
            "loss.desirable": ("desirable_weight", 1.0),
            "loss.undesirable": ("undesirable_weight", 1.0),
        },
    ),
}
TYPES: Mapping[str, tuple[str, ...]] = {
    "dpo": (
        "sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired",
        "aot_pair", "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm",
    ),
    "cpo": ("sigmoid", "hinge", "ipo", "simpo", "alphapo"),
    "kto": ("kto", "apo_zero_unpaired"),
}  # fmt: skip


def preference_block(porting: Porting, writing: Writing) -> str:
    """The statements that replace `trainer = DPOTrainer(...)`, the first without its indentation."""
    site = porting.trainer
    assert site is not None
    kind = table_of(porting, site).kind
    _check(porting, kind)
    indent = site.indent
    for reference in porting.references:
        if site.start <= reference.start < site.end:
            continue  # loaded where the trainer takes it
        call = other_load_call(porting, reference)
        before = len(reference.variable) + 3 if reference.variable else 0
        code = render(call, reference.indent, porting.module.indent, before)
        porting.replace(reference, code, "the reference's weights in Tunix's model")
    groups = [
        model_lines(porting, writing, indent),
        batch_lines(
            porting,
            writing,
            indent,
            KINDS[kind].batches,
            porting.names.tokenizer,
            lambda: _batch_arguments(porting, writing, kind),
            lambda: [
                *_trainers_own(porting, {"data.max_length": ("max_length", None), **_data(porting, kind)}),
                *_order(porting, writing, kind),
                *_release_arguments(porting, kind),
            ],
            defaults=_data(porting, kind),
            from_object=_from_object(porting),
        ),
        lora_lines(porting, writing, indent),
        optimizer_lines(porting, indent),
        _trainer_lines(porting, indent, kind),
    ]
    _name_targets(porting, KINDS[kind])
    return joined([groups[:3], groups[3:]], indent)


def _batch_arguments(porting: Porting, writing: Writing, kind: str) -> list[Arg]:
    arguments = run_arguments(porting, writing)
    arguments.append(placed(porting, "data.max_length", "max_length"))
    arguments += _given(porting, _data(porting, kind))
    if kind == "dpo" and any(name.startswith("aot") for name in _loss_types(porting) or ()):
        arguments.append(Arg("True", "whole_micro_batches", "# aot compares the pairs of a micro-batch"))
    if kind == "kto" and _loss_types(porting) == ["apo_zero_unpaired"]:
        arguments.append(Arg("False", "estimate_kl"))
    order = [*seed_arguments(porting), *_order(porting, writing, kind)]
    return [*arguments, *order, *_release_arguments(porting, kind)]


def _order(porting: Porting, writing: Writing, kind: str) -> list[Arg]:
    """How the source's releases shuffled, which KTOTrainer doesn't leave to Trainer."""
    return shuffling_arguments(porting, writing) if kind != "kto" else []


def _data(porting: Porting, kind: str) -> Defaults:
    """How the rows are prepared; ORPOTrainer and CPOTrainer read what cuts a prompt until TRL 0.27 only."""
    data = KINDS[kind].data
    if kind in ("orpo", "cpo") and not releases.release(release(porting) or None).cuts_text_prompts:
        return {place: said for place, said in data.items() if place not in _PROMPT_FIRST}
    return data


def _release_arguments(porting: Porting, kind: str) -> list[Arg]:
    """`trl="0.19.1"` where that release tokenised pairs otherwise, or made other steps, than today's does."""
    version = release(porting)
    own = plain_version(porting.versions.get("transformers", ""))
    source = releases.release(version or None)
    steps = releases.release(version or None, own or None)
    as_today = source.masks_common_prefix if kind in ("dpo", "kto") else source.cuts_text_pairs_as_today
    if as_today and source.rounds_steps_up and steps.rounds_steps_up:
        return []
    comment = "# prepare the rows as this release did" if not as_today else "# as many steps as with this release"
    arguments = [Arg(quoted(version or releases.TODAY), "trl", comment)]
    if not steps.sums_like(source.transformers):
        arguments.append(Arg(quoted(own), "transformers", "# and as many steps as with this one"))
    return arguments


def _given(porting: Porting, places: Defaults) -> list[Arg]:
    """The keywords whose values aren't what the runtime takes anyway."""
    arguments = []
    for place, (keyword, default) in places.items():
        value = porting.value(place)
        if value is None or value.is_literal(default) or value.is_literal("auto"):
            continue  # pad_to_multiple_of="auto": none but on Neuron
        if place == "loss.type" and value.known and value.literal == [default]:
            continue
        arguments.append(placed(porting, place, keyword))
    return arguments


def _loss(porting: Porting, kind: str) -> Call:
    if _from_object(porting):
        terms = {"loss.beta": ("beta", None), "loss.rpo_alpha": ("rpo_alpha", None), **KINDS[kind].terms}
        kept = Arg(given(porting, "preference_loss", porting.arguments_object))
        return Call(porting.rt("preference_loss"), [kept, *_trainers_own(porting, terms)])
    beta = placed(porting, "loss.beta", "beta")
    arguments = [beta, *_given(porting, _effective(porting, KINDS[kind].terms))]
    likelihood = porting.value("loss.rpo_alpha")
    if kind == "dpo" and likelihood is not None and not likelihood.is_literal(None):
        arguments = _with_likelihood(porting, arguments)
    return Call(unwritten(porting, KINDS[kind].terms) + porting.rt(KINDS[kind].loss), arguments)


def _effective(porting: Porting, terms: Mapping[str, tuple[str, Any]]) -> dict[str, tuple[str, Any]]:
    """The terms without the default of an alpha that no divergence of this loss has."""
    divergence = porting.value("loss.f_divergence")
    idle = divergence is None or (divergence.known and not str(divergence.literal).startswith("alpha"))
    left = {"loss.f_alpha"} if idle and not porting.given("loss.f_alpha") else set()
    return {place: term for place, term in terms.items() if place not in left}


def _with_likelihood(porting: Porting, arguments: list[Arg]) -> list[Arg]:
    """`rpo_alpha=1.0`: the chosen answer's likelihood beside the loss, which TRL 1.16 calls the loss type sft.

    What the run decides, whether it is None and beside which loss, the runtime puts together.
    """
    decided = [value.known for place in ("loss.rpo_alpha", "loss.type") if (value := porting.value(place)) is not None]
    if not all(decided):
        return [*arguments, placed(porting, "loss.rpo_alpha", "rpo_alpha")]
    types = _loss_types(porting) or ["sigmoid"]
    names = ", ".join(f'"{name}"' for name in [*types, "sft"])
    weights = ", ".join(["1.0"] * len(types) + [porting.text("loss.rpo_alpha")])
    kept = [argument for argument in arguments if argument.name not in ("loss_type", "loss_weights")]
    summed = remarked(porting, Arg(f"[{weights}]", "loss_weights", "# rpo_alpha"), "loss.rpo_alpha")
    return [*kept, Arg(f"[{names}]", "loss_type"), summed]


def _trainer_lines(porting: Porting, indent: str, kind: str) -> list[str]:
    names = porting.names
    config = training_config(porting)
    arguments = [trained_model(porting), Arg(names.optimizer), Arg(config), Arg(_loss(porting, kind), "loss")]
    reference = _reference(porting)
    if reference is not None:
        arguments.append(reference)
    beforehand = mark_keywords(porting, porting.config, "precompute_ref_log_probs")
    beforehand += mark_keywords(porting, porting.trainer, "precompute_ref_log_probs")
    without = mark_keywords(porting, porting.trainer, "ref_model") if reference is None else ""
    call = Call(beforehand + without + porting.rt("PreferenceTrainer"), arguments)
    return [*resume_lines(porting), assign(names.trainer, call, indent), *with_hooks(porting, indent)]


def _reference(porting: Porting) -> Arg | None:
    site = porting.trainer
    assert site is not None
    argument = site.argument("ref_model")
    saved = porting.inject is not None and is_saved(porting, porting.inject) and starts_from_adapter(porting)
    if argument is not None and not argument.value.is_literal(None):
        inside = next((each for each in porting.references if site.start <= each.start < site.end), None)
        given = mark_of(porting, [argument])
        if inside is not None:
            return marked(Arg(other_load_call(porting, inside), "ref_model"), given)
        if argument.value.known:
            return marked(Arg(load_call(porting, argument), "ref_model"), given)
        if not saved:
            return marked(Arg(argument.text, "ref_model"), mark_of(porting, [argument]))
        porting.imports.add("from flax import nnx")
        copy = f"nnx.clone({porting.names.model})"
        code = choice(f"{operand(argument.text)} is None", copy, argument.text)
        return marked(Arg(code, "ref_model"), mark_of(porting, [argument]))
    if saved or (porting.inject is not None and porting.known("lora.init", True) is False):
        porting.imports.add("from flax import nnx")  # adapters that don't start at zero are part of the reference
        return Arg(f"nnx.clone({porting.names.model})", "ref_model")
    if comment := porting.code.get("copied reference"):
        porting.imports.add("from flax import nnx")
        return Arg(f"nnx.clone({porting.names.model})", "ref_model", comment)
    if comment := porting.code.get("reference"):
        loaded = Call(porting.rt("load_reference"), [Arg(porting.names.model), Arg(porting.names.mesh)])
        return Arg(loaded, "ref_model", comment)
    return None


def without_dropout(porting: Porting) -> None:
    """`disable_dropout`, on by default: the trainer switches the adapters' dropout off."""
    asked, dropout = porting.value("lora.disable_dropout"), porting.value("lora.dropout")
    adapts = porting.lora or porting.lora_object or porting.inject or porting.of_role("inject")
    if asked is not None and asked.is_literal(True) and not adapts and not porting.arguments_object:
        porting.change_fate(".disable_dropout", fate="dropped", target="", reason="nothing in the port drops out")
    if asked is None or dropout is None or dropout.is_literal(0, 0.0) or asked.is_literal(False):
        return
    if asked.known:
        porting.fill({"lora.dropout": replace(dropout, kind="literal", code="0.0", text="")})
        reason = "the trainer switches dropout off (disable_dropout), and a saved adapter_config.json says so"
        porting.change_fate("LoraConfig.lora_dropout", fate="dropped", target="", reason=reason)
    elif dropout.known:
        code = choice(asked.text or asked.code, "0.0", dropout.text or dropout.code)
        porting.fill({"lora.dropout": replace(dropout, kind="expression", code=code, text=code)})


def _from_object(porting: Porting) -> bool:
    """Whether a config object of the script holds the loss; the trainer of TRL before 0.9 was given it itself."""
    name = porting.arguments_object
    values = {place: porting.value(f"loss.{place}") for place in ("beta", "type")}
    return bool(name) and any(value is not None and value.code == f"{name}.{_OF[p]}" for p, value in values.items())


_OF = {"beta": "beta", "type": "loss_type"}


def _trainers_own(porting: Porting, places: Defaults) -> list[Arg]:
    """What the trainer's own call says beside the object, as up to TRL 0.12 it could: it wins."""
    site = porting.trainer
    given = [argument.value for argument in site.arguments] if site is not None else []
    found = {place: keyword for place, (keyword, _) in places.items() if any(porting.value(place) is v for v in given)}
    return [marked(Arg(porting.text(place), keyword), mark(porting, place)) for place, keyword in found.items()]


def _loss_types(porting: Porting) -> list[str] | None:
    """The names in loss_type; None when only the script knows."""
    value = porting.value("loss.type")
    if value is None or not value.known:
        return None
    several = isinstance(value.literal, list | tuple)
    return [str(name) for name in value.literal] if several else [str(value.literal)] if value.literal else []


def _check(porting: Porting, kind: str) -> None:
    """Settings that no loss has, said where the source shows them."""
    site = porting.trainer
    assert site is not None

    def say(place: str, message: str, fix: str) -> None:
        value = porting.value(place)
        origin = value.origin if value is not None else None
        line, column = (origin.line, origin.column) if origin is not None and origin.line else (site.line, site.column)
        porting.find(site.rule, "error", message, fix, line, column)

    unknown = [name for name in _loss_types(porting) or () if name not in TYPES.get(kind, ())]
    if unknown and kind in TYPES:
        message = f"loss_type={unknown[0]!r}: {site.qualified.rsplit('.', 1)[-1]} has no such loss."
        near = get_close_matches(unknown[0], TYPES[kind], 1)
        fix = f"Did you mean {near[0]!r}? It is one of {', '.join(TYPES[kind])}." if near else ""
        say("loss.type", message, fix or f"Choose one of {', '.join(TYPES[kind])}.")
    if porting.known("loss.beta") == 0 and _loss_types(porting) != ["sft"] and kind != "orpo":
        message = "beta=0 takes the preferences out of the loss, and the reference model with them."
        say("loss.beta", message, "Give a beta above 0; 0.1 is TRL's default.")
    weights = porting.known("loss.weights")
    types = _loss_types(porting)
    if isinstance(weights, list | tuple) and types is not None and len(weights) != len(types):
        message = f"{len(weights)} loss_weights for {len(types)} loss types."
        say("loss.weights", message, "Give one for each.")


def _name_targets(porting: Porting, kind: Kind) -> None:
    """The rows that every config shares speak of the batches that this trainer has."""
    porting.fields = tuple(
        replace(row, target=row.target.replace("SFTBatches", kind.batches)) for row in porting.fields
    )
