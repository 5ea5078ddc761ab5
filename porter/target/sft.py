"""Supervised fine-tuning: what stands where the SFTTrainer stood.

Statements come in the order a Tunix user writes them: mesh, model, data, LoRA, optimizer, trainer.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..engine.receipts.marking import mark, unread
from ..engine.script.fill_from_tables import plain_version
from ..engine.script.porting import Porting
from ..engine.script.seeds import draws_from_python
from ..runtime.facts import releases
from ..runtime.facts.field_tables import version_key
from ..text.expressions import quoted
from ..text.layout import Arg
from .statements.common_statements import (
    Writing,
    batch_lines,
    joined,
    lora_lines,
    optimizer_lines,
    run_arguments,
    seed_arguments,
    shuffling_arguments,
    trainer_lines,
)
from .statements.model_statements import (
    model_lines,
)
from .statements.multimodal import mean_arguments
from .statements.remarks import marked, placed

# Recipe place → rt.SFTBatches keyword and the value that the runtime takes when it is left out.
DATA = {
    "data.text_field": ("text_field", None),
    "data.formatting": ("formatting_func", None),
    "data.completion_only_loss": ("completion_only_loss", None),
    "data.assistant_only_loss": ("assistant_only_loss", False),
    "data.collator": ("label_mask", None),
    "data.packing": ("packing", False),
    "data.packing_strategy": ("packing_strategy", "bfd"),
    "data.padding_free": ("padding_free", False),
    "data.attention": ("attention", None),
    "data.shuffle": ("shuffle_dataset", False),
    "data.chat_template_path": ("chat_template_path", None),
    "data.eos_token": ("eos_token", None),
    "data.pad_token": ("pad_token", None),
    "data.truncation_mode": ("truncation_mode", "keep_start"),
    "data.num_proc": ("num_proc", None),
    "batch.drop_last": ("drop_last", False),
    "data.sampling": ("sampling", "random"),
    "batch.average_tokens_across_devices": ("average_tokens_across_devices", True),
    "loss.label_smoothing": ("label_smoothing", 0.0),
    "loss.neftune_noise_alpha": ("neftune_noise_alpha", None),
    "data.pad_to_multiple_of": ("pad_to_multiple_of", None),
}


def trainer_block(porting: Porting, writing: Writing) -> str:
    """The statements that replace `trainer = SFTTrainer(...)`, the first without its indentation."""
    site = porting.trainer
    assert site is not None
    indent = site.indent
    groups = [
        model_lines(porting, writing, indent),
        batch_lines(
            porting,
            writing,
            indent,
            "SFTBatches",
            porting.names.tokenizer,
            lambda: _batch_arguments(porting, writing),
            lambda: [*_beside_object(porting), *shuffling_arguments(porting, writing)],
            defaults=_left_out(porting),
        ),
        lora_lines(porting, writing, indent),
        optimizer_lines(porting, indent),
        trainer_lines(porting, indent),
    ]
    # One blank line parts the data and the adapters from how they are trained.
    before, after = groups[:3], groups[3:]
    return joined([before, after], indent)


def _left_out(porting: Porting) -> Mapping[str, tuple[str, object]]:
    """`DATA` as the writer leaves it out: from TRL 0.12 on the rows' text is in `text`; one process has one mean."""
    usual = dict(DATA)
    field = porting.value("data.text_field")
    if version_key(release(porting)) >= (0, 12) and not (field is not None and field.is_literal(None)):
        usual["data.text_field"] = ("text_field", "text")
    if porting.known("mesh.processes") == 1:
        mean = "batch.average_tokens_across_devices"
        usual[mean] = ("average_tokens_across_devices", porting.known(mean))
    return usual


def _beside_object(porting: Porting) -> list[Arg]:
    """What the batches are told beside a config object: what the script gives its trainer, and its release."""
    formatting = porting.value("data.formatting")
    asked = formatting is not None and not formatting.is_literal(None)
    place = "data.formatting"
    own = [marked(Arg(porting.text(place), "formatting_func"), mark(porting, place))] if asked else []
    given = [argument for argument in data_arguments(porting, given_only=True) if argument.name != "formatting_func"]
    given += mean_arguments(porting)
    return [*own, *_trainers_length(porting), *given, *release_arguments(porting), *_unsloths_rows(porting)]


def _batch_arguments(porting: Porting, writing: Writing) -> list[Arg]:
    arguments = run_arguments(porting, writing)
    arguments.append(placed(porting, "data.max_length", "max_length", _length_note(porting)))
    arguments += [*data_arguments(porting, given_only=False), *mean_arguments(porting)]
    order = [*seed_arguments(porting), *shuffling_arguments(porting, writing)]
    return [*arguments, *order, *release_arguments(porting), *_unsloths_rows(porting)]


def _trainers_length(porting: Porting) -> list[Arg]:
    value = porting.value("data.max_length")
    of_trainer = _of_trainer(porting, "data.max_length") or bool(porting.note(value))
    given = value is not None and of_trainer and not value.is_literal(None)
    if not given:
        return []
    arg = Arg(porting.text("data.max_length"), "max_length", _length_note(porting))
    return [marked(arg, mark(porting, "data.max_length"))]


def _unsloths_rows(porting: Porting) -> list[Arg]:
    """`unsloth="2026.8.19"` where Unsloth's SFTTrainer tokenises the texts."""
    comment = "# texts are tokenised as Unsloth does: no end token is added"
    return [Arg(quoted(porting.rows_by), "unsloth", comment)] if porting.rows_by else []


def _length_note(porting: Porting) -> str:
    value = porting.value("data.max_length")
    if note := porting.note(value):
        return f"# {note}"
    if porting.given("data.max_length") or version_key(release(porting)) >= (0, 15):
        return ""
    return "# cut at the tokenizer's own limit" if value is not None and value.is_literal(None) else "# TRL's default"


def data_arguments(porting: Porting, *, given_only: bool) -> list[Arg]:
    """How the rows are prepared, where that isn't the runtime's default; or what the trainer itself is given."""
    version = version_key(release(porting))
    arguments = []
    own: dict[str, tuple[str, object]] = {"data.eval_packing": ("eval_packing", None)} if given_only else {}
    for place, (keyword, default) in (DATA | own).items():
        value = porting.value(place)
        if value is None or value.is_literal(default) or (given_only and not _of_trainer(porting, place)):
            continue
        if place == "data.packing_strategy" and (porting.known("data.packing") is False or version < (0, 19)):
            unread(porting, "nothing is packed", place)
            continue
        if place == "data.text_field" and value.is_literal("text") and version >= (0, 12):
            continue
        if place == "data.completion_only_loss" and not porting.given(place):
            continue
        if place == "batch.average_tokens_across_devices" and porting.known("mesh.processes") == 1:
            continue
        if value.is_literal("auto"):  # pad_to_multiple_of: none but on Neuron
            continue
        arguments.append(placed(porting, place, keyword))
    kwargs = porting.known("data.kwargs") or {}
    if isinstance(kwargs, dict):
        told = []
        if kwargs.get("skip_prepare_dataset"):
            told.append(Arg("True", "skip_prepare"))
        named = [name for name in ("add_special_tokens", "append_concat_token") if name in kwargs]
        if version < (0, 15):
            told += [Arg("False", name) for name in named if kwargs[name] is False]
        elif named and not told and set(kwargs) == set(named):
            unread(porting, f"TRL {release(porting)} has no use for {' and '.join(named)}", "data.kwargs")
        arguments += [marked(argument, mark(porting, "data.kwargs")) for argument in told]
    return arguments


def _of_trainer(porting: Porting, place: str) -> bool:
    """Whether the trainer's own call gives a value, as before TRL 0.13 it could."""
    value = porting.value(place)
    if value is not None and value.origin is not None and not value.origin.file:
        return True
    return any(argument.value is value for argument in porting.trainer.arguments) if porting.trainer else False


def release(porting: Porting) -> str:
    """The source's release of TRL."""
    return plain_version(porting.versions.get("trl", ""))


def release_arguments(porting: Porting) -> list[Arg]:
    """`trl="0.8.6"` where that release prepared rows otherwise than today's; `transformers=` where not of its day."""
    version = release(porting)
    source = releases.release(version) if version else releases.release(None)
    if source.is_todays:
        return []
    arguments = [Arg(quoted(version), "trl", "# prepare the rows as this release did")]
    if source.whole_text and porting.known("data.packing") is not False and draws_from_python(porting.module):
        porting.imports.add("import random")
        arguments.append(Arg("random", "draws", "# which TRL shuffled packed rows with, and the script draws from"))
    own = plain_version(porting.versions.get("transformers", "")) or source.transformers
    unsloth = porting.counted_by
    known = releases.release(version or None, own, unsloth)
    if not source.sums_like(own):
        arguments.append(Arg(quoted(own), "transformers", "# and sum the loss as this one"))
    return [*arguments, *unsloths_count(porting, known)]


def unsloths_count(porting: Porting, known: releases.Release) -> list[Arg]:
    """`unsloth_counts="2026.8.19"` where Unsloth's Trainer divides a step's loss by other tokens than transformers'."""
    if not known.unsloth or not _counts_otherwise(known):
        return []
    comment = "# a step's loss is over the tokens that are predicted, as Unsloth's Trainer counts"
    return [Arg(quoted(known.unsloth), "unsloth_counts", comment)]


def _counts_otherwise(own: releases.Release) -> bool:
    """Whether the Trainer of those releases would count a step's tokens otherwise without Unsloth."""
    plain = releases.release(own.trl, own.transformers)
    return own.counts_tokens and (plain.counts_firsts or plain.hides_tokens or own.counts_attended)
