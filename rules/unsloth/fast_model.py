"""Unsloth: `FastLanguageModel.from_pretrained`, which gives (model, tokenizer), and its `get_peft_model`.

What Unsloth decides itself is decided here as it does: 4 bits unless the call says no, bfloat16 where no type is
given, and the name of the 16-bit weights that a `-bnb-4bit` mirror was made from. Its trainers: `patched_defaults.py`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from porter.packs.api import Origin, Site, Value
from porter.packs.training import Training, table_of

PART_OF = "unsloth"
TABLES = ("unsloth.FastLanguageModel.from_pretrained", "unsloth.FastLanguageModel.get_peft_model")

QUANTIZATION = "model.quantization"
CHECKPOINTING = "memory.unsloth_gradient_checkpointing"
MIRROR = re.compile(r"(?:-unsloth)?-bnb-4bit$", re.IGNORECASE)
# Of these Unsloth loads its own copy, whose tokenizer ends texts with another token: <end_of_turn>, for <eos>.
ENDS_OTHERWISE = re.compile(r"google/(gemma-3-[\w.]+-it)", re.IGNORECASE)
FOUR, EIGHT = "model.load_in_4bit", "model.load_in_8bit"


def base_name(identifier: str) -> str:
    """The name of a model's 16-bit weights: `unsloth/Qwen3-4B` of `unsloth/Qwen3-4B-unsloth-bnb-4bit`.

    Unsloth keeps both under its own organisation, with its tokenizer's padding token and chat template.
    """
    return MIRROR.sub("", identifier)


def filled(site: Site, porting: Training) -> None:
    """What Unsloth makes of the keywords: of a model's, or of its adapters'."""
    if site.role == "model":
        _read_model(porting, site)
    else:
        _read_adapters(porting, site)


def _read_model(porting: Training, site: Site) -> None:
    """What Unsloth makes of the keywords: base name, weights' type, quantisation, checkpointing."""
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
        if copied := ENDS_OTHERWISE.fullmatch(base):
            message = (
                f"Unsloth loads its own copy of {base}, with <end_of_turn> as the tokenizer's eos_token, not <eos>."
            )
            fix = f"Name unsloth/{copied[1]}: the port then has that tokenizer, too."
            porting.find("TP703", "warning", message, fix, site.line, site.column)
    elif identifier is not None and not identifier.is_literal(None):
        message = "The model's name is not known at port time."
        fix = "Give the name of 16-bit weights: -bnb-4bit mirrors can't be loaded."
        porting.find(site.rule, "warning", message, fix, site.line, site.column)
    dtype = porting.value("model.dtype")
    if dtype is None or dtype.is_literal(None):
        porting.fill({"model.dtype": Value("default", "'bfloat16'", dtype.origin if dtype else None)})
    _read_bits(porting, mirror)
    _read_checkpointing(porting)


def _read_bits(porting: Training, mirror: bool) -> None:
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


def _read_checkpointing(porting: Training) -> None:
    """`"unsloth"` and True ask for the same recomputation."""
    value = porting.value(CHECKPOINTING)
    if value is not None and value.known:
        porting.fill({CHECKPOINTING: replace(value, code=repr(value.literal not in (False, None, "none", "False")))})


def _read_adapters(porting: Training, site: Site) -> None:
    """`FastLanguageModel.get_peft_model(model, target_modules=None)` puts them into the layers that it names itself."""
    rule = table_of(porting, site)
    targets = porting.value("lora.targets")
    if targets is not None and targets.is_literal(None):
        row = rule.table.row("target_modules")
        assert row is not None and row.default is not None
        porting.fill({"lora.targets": Value("default", row.default, Origin(rule.table.name, 0, 0, rule.id))})
    _read_checkpointing(porting)
