"""Supervised fine-tuning: what stands where the SFTTrainer stood.

Statements come in the order a Tunix user writes them: mesh, model, data, LoRA, optimizer, trainer.
"""

from __future__ import annotations

from ..engine.porting import Porting
from .layout import Arg, Call
from .parts import (
    Writing,
    assign,
    comment_for,
    eval_lines,
    joined,
    lora_lines,
    model_lines,
    optimizer_lines,
    run_arguments,
    seed_arguments,
    trainer_lines,
)

# Recipe place → rt.SFTBatches keyword and the value that the runtime takes when it is left out.
DATA = {
    "data.text_field": ("text_field", "text"),
    "data.formatting": ("formatting_func", None),
    "data.completion_only_loss": ("completion_only_loss", None),
    "data.assistant_only_loss": ("assistant_only_loss", False),
    "data.packing": ("packing", False),
    "data.packing_strategy": ("packing_strategy", "bfd"),
    "data.padding_free": ("padding_free", False),
    "data.shuffle": ("shuffle_dataset", False),
    "data.chat_template_path": ("chat_template_path", None),
    "data.eos_token": ("eos_token", None),
    "data.pad_token": ("pad_token", None),
    "data.truncation_mode": ("truncation_mode", "keep_start"),
    "data.num_proc": ("num_proc", None),
    "batch.drop_last": ("drop_last", False),
    "data.sampling": ("sampling", "random"),
    "batch.average_tokens_across_devices": ("average_tokens_across_devices", True),
    "data.pad_to_multiple_of": ("pad_to_multiple_of", None),
}


def trainer_block(porting: Porting, writing: Writing) -> str:
    """The statements that replace `trainer = SFTTrainer(...)`, the first without its indentation."""
    site = porting.trainer
    assert site is not None
    indent = site.indent
    groups = [
        model_lines(porting, writing, indent),
        _data_lines(porting, writing, indent),
        lora_lines(porting, writing, indent),
        optimizer_lines(porting, indent),
        trainer_lines(porting, indent),
    ]
    # One blank line parts the data and the adapters from how they are trained.
    before, after = groups[:3], groups[3:]
    return joined([before, after], indent)


def _data_lines(porting: Porting, writing: Writing, indent: str) -> list[str]:
    site = porting.trainer
    assert site is not None
    names = porting.names
    dataset = site.argument("train_dataset")
    data = dataset.text if dataset is not None else "None"
    runtime = porting.rt("SFTBatches")
    if porting.arguments_object:
        arguments = [Arg(porting.arguments_object), Arg(data), Arg(names.tokenizer), Arg(names.mesh)]
        if writing.processes > 1:
            arguments.append(Arg(str(writing.processes), "processes"))
        if porting.value("data.formatting") is not None and not porting.value("data.formatting").is_literal(None):  # type: ignore[union-attr]
            arguments.append(Arg(porting.text("data.formatting"), "formatting_func"))
        call = Call(f"{runtime}.from_args", arguments)
    else:
        call = Call(runtime, [Arg(data), Arg(names.tokenizer), Arg(names.mesh), *_batch_arguments(porting, writing)])
    lines = [assign(names.batches, call, indent)]
    lines += eval_lines(porting, writing, indent, site.argument("eval_dataset"))
    return lines


def _batch_arguments(porting: Porting, writing: Writing) -> list[Arg]:
    arguments = run_arguments(porting, writing)
    arguments.append(Arg(porting.text("data.max_length"), "max_length", comment_for(porting, "data.max_length")))
    for place, (keyword, default) in DATA.items():
        value = porting.value(place)
        if value is None or value.is_literal(default):
            continue
        if place == "data.packing_strategy" and porting.known("data.packing") is False:
            continue
        if value.is_literal("auto"):  # pad_to_multiple_of: none but on Neuron
            continue
        arguments.append(Arg(porting.text(place), keyword, comment_for(porting, place)))
    kwargs = porting.known("data.kwargs") or {}
    if isinstance(kwargs, dict) and kwargs.get("skip_prepare_dataset"):
        arguments.append(Arg("True", "skip_prepare"))
    return [*arguments, *seed_arguments(porting)]
