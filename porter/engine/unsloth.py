"""Unsloth: `FastLanguageModel.from_pretrained`, which gives (model, tokenizer), and its `get_peft_model`.

What Unsloth decides itself is decided here as it does: 4 bits unless the call says no, bfloat16 where no type is
given, and the name of the 16-bit weights that a `-bnb-4bit` mirror was made from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..recipe import Origin, Value
from .porting import Porting, in_reach
from .reading import fill_defaults, fill_site, short_name, table_of
from .sites import Site

QUANTIZATION = "model.quantization"
CHECKPOINTING = "memory.unsloth_gradient_checkpointing"
MIRROR = re.compile(r"(?:-unsloth)?-bnb-4bit$", re.IGNORECASE)
FOUR, EIGHT = "model.load_in_4bit", "model.load_in_8bit"


def base_name(identifier: str) -> str:
    """The name of a model's 16-bit weights: `unsloth/Qwen3-4B` of `unsloth/Qwen3-4B-unsloth-bnb-4bit`.

    Unsloth keeps both under its own organisation, with its tokenizer's padding token and chat template.
    """
    return MIRROR.sub("", identifier)


def read_fast_model(porting: Porting, site: Site) -> None:
    """What Unsloth makes of the keywords: base name, weights' type, quantisation, checkpointing; how it reads rows."""
    identifier = porting.value("model.id")
    mirror = False
    if identifier is not None and identifier.known and isinstance(identifier.literal, str):
        base = base_name(identifier.literal)
        mirror = base != identifier.literal
        if mirror:
            porting.fill({"model.id": Value("literal", repr(base), identifier.origin)})
            message = f"{identifier.literal} holds 4-bit weights in bitsandbytes' layout: the port loads {base}."
            fix = "All weights are quantised as they are loaded, also those that a dynamic mirror keeps in 16 bits."
            porting.find(site.rule, "info", message, fix, site.line, site.column)
    elif identifier is not None:
        message = "The model's name is not known at port time."
        fix = "Give the name of 16-bit weights: -bnb-4bit mirrors can't be loaded."
        porting.find(site.rule, "warning", message, fix, site.line, site.column)
    dtype = porting.value("model.dtype")
    if dtype is None or dtype.is_literal(None):
        porting.fill({"model.dtype": Value("default", "'bfloat16'", dtype.origin if dtype else None)})
    _read_bits(porting, mirror)
    _read_checkpointing(porting)
    if porting.trainer is not None and table_of(porting, porting.trainer).kind == "sft":
        _read_length(porting, site)
        _say_rows(porting, site)


def _read_bits(porting: Porting, mirror: bool) -> None:
    full, half = porting.value("model.full_finetuning"), porting.value("model.load_in_16bit")
    four, eight = porting.recipe.values[FOUR], porting.recipe.values[EIGHT]
    if full is not None and full.is_literal(True):
        return
    if mirror:
        porting.fill({QUANTIZATION: Value("literal", "'nf4'", four.origin)})
        return
    if half is not None and half.is_literal(True):
        return
    if not eight.known:
        code = f'"int8" if {eight.text} else ("nf4" if {four.text or four.code} else None)'
        porting.fill({QUANTIZATION: Value("expression", code, eight.origin)})
    elif eight.is_literal(True):
        porting.fill({QUANTIZATION: Value("literal", "'int8'", eight.origin)})
    elif not four.known:
        porting.fill({QUANTIZATION: Value("expression", f'"nf4" if {four.text} else None', four.origin)})
    elif four.is_literal(True):
        porting.fill({QUANTIZATION: Value("literal", "'nf4'", four.origin)})


def _read_checkpointing(porting: Porting) -> None:
    """`"unsloth"` and True ask for the same recomputation."""
    value = porting.value(CHECKPOINTING)
    if value is not None and value.known:
        porting.fill({CHECKPOINTING: replace(value, code=repr(value.literal not in (False, None, "none", "False")))})


def _read_length(porting: Porting, site: Site) -> None:
    """Unsloth's SFTTrainer cuts rows at the model's max_seq_length, unless it is given a max_seq_length itself; a
    max_length beside it doesn't count."""
    trainer, length = porting.trainer, porting.value("model.max_seq_length")
    assert trainer is not None
    sites = (trainer, porting.config)
    named = [each.argument("max_seq_length") for each in sites if each is not None]
    if length is None or any(argument is not None and not argument.value.is_literal(None) for argument in named):
        return
    name = short_name(site)
    code = length.text or length.code
    if porting.arguments_object or not (length.known or in_reach(site.scope, trainer.scope)):
        message = f"{name}.max_seq_length={code}: Unsloth cuts rows at this length, whatever max_length says."
        fix = "Give the training config this max_length."
        porting.find(site.rule, "warning", message, fix, site.line, site.column, todo=True)
        return
    porting.fill({"data.max_length": replace(length, kind="literal") if length.known else length})
    target, reason = "rt.SFTBatches(max_length=)", "Unsloth cuts rows at the model's length"
    porting.change_fate(f"{name}.max_seq_length", fate="exact", target=target, reason=reason)
    porting.change_fate("SFTConfig.max_length", fate="dropped", target="", reason=f"{reason}, whatever this says")


def _say_rows(porting: Porting, site: Site) -> None:
    message = (
        "Unsloth prepares text rows itself: no end-of-text token is added, and no BOS where the text begins with it "
        "or the chat template has it; the port prepares them as TRL does."
    )
    fix = (
        "End each text with tokenizer.eos_token, and take off a BOS that apply_chat_template wrote "
        "(.removeprefix(tokenizer.bos_token)): then both train on the same tokens."
    )
    porting.find(site.rule, "warning", message, fix, site.line, site.column)


def read_adapters(porting: Porting, site: Site, versions: Mapping[str, str]) -> None:
    """`FastLanguageModel.get_peft_model(model, r=16, ...)` is the adapters' config and puts them in."""
    porting.lora = site
    porting.lora_certain = True
    rule = table_of(porting, site)
    fill_site(porting, site, rule, versions)
    fill_defaults(porting, rule, versions)
    targets = porting.value("lora.targets")
    if targets is not None and targets.is_literal(None):
        row = rule.table.row("target_modules")
        assert row is not None and row.default is not None
        porting.fill({"lora.targets": Value("default", row.default, Origin(rule.table.name, 0, 0, rule.id))})
    _read_checkpointing(porting)
