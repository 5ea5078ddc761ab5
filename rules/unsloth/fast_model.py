"""Unsloth: `FastLanguageModel.from_pretrained`, which gives (model, tokenizer), and its `get_peft_model`.

What Unsloth decides itself is decided here as it does: 4 bits unless the call says no. Its trainers:
`patched_defaults.py`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from porter.packs.api import Origin, Site, Value, choice
from porter.packs.script import base_name, usual_texts, version_key
from porter.packs.training import Training, table_of

from ._release import unsloth_version

PART_OF = "unsloth"
TABLES = ("unsloth.FastLanguageModel.from_pretrained", "unsloth.FastLanguageModel.get_peft_model")

QUANTIZATION = "model.quantization"
CHECKPOINTING = "memory.library_gradient_checkpointing"
# Of these Unsloth loads its own copy, whose tokenizer ends texts with another token: <end_of_turn>, for <eos>.
ENDS_OTHERWISE = re.compile(r"google/(gemma-3-[\w.]+-it)", re.IGNORECASE)
ADAPTS_HEADS = (2026, 3, 1)
FOUR, EIGHT = "model.load_in_4bit", "model.load_in_8bit"


def filled(site: Site, porting: Training) -> None:
    """What Unsloth makes of the keywords: of a model's, or of its adapters'."""
    if site.role == "model":
        _read_model(porting, site)
    else:
        _read_adapters(porting, site)


def _read_model(porting: Training, site: Site) -> None:
    """What Unsloth makes of the keywords: quantisation, checkpointing."""
    identifier = porting.value("model.id")
    named = identifier.literal if identifier is not None and identifier.known else None
    if isinstance(named, str) and (copied := ENDS_OTHERWISE.fullmatch(named)):
        message = f"Unsloth loads its own copy of {named}, with <end_of_turn> as the tokenizer's eos_token, not <eos>."
        fix = f"Name unsloth/{copied[1]}: the port then has that tokenizer, too."
        porting.find("TP703", "warning", message, fix, site.line, site.column)
    _read_bits(porting)
    held = porting.value(QUANTIZATION)
    if identifier is not None and not identifier.known and (held is None or not held.is_literal("nf4")):
        _say_of_mirrors(porting, site, identifier.code)
    _read_checkpointing(porting)


def _say_of_mirrors(porting: Training, site: Site, code: str) -> None:
    """That the weights of a mirror stay in 4 bits, where the model's name is a run's to give and may be one."""
    names = usual_texts(porting.module, code)
    mirror = next((name for name in names if base_name(name) != name), "")
    if names and not mirror:
        return
    fix = "Give the name of 16-bit weights: of a -bnb-4bit mirror they are held in nf4 whatever load_in_4bit says."
    if mirror:
        porting.find(site.rule, "info", f"{code} is {mirror} unless a run says another.", fix, site.line, site.column)
    else:
        message = "The model's name is not known at port time."
        porting.find(site.rule, "warning", message, fix, site.line, site.column)


def _read_bits(porting: Training) -> None:
    """The format, as the keywords say it: of a mirror Unsloth loads the 16-bit weights under load_in_4bit=False."""
    full, half = porting.value("model.full_finetuning"), porting.value("model.load_in_16bit")
    four, eight = porting.recipe.values[FOUR], porting.recipe.values[EIGHT]
    if full is not None and full.is_literal(True):
        return
    if half is not None and half.is_literal(True):
        return
    held: Value | None = None
    if not eight.known:
        in_four = choice(four.text or four.code, '"nf4"', "None")
        held = Value("expression", choice(eight.text, '"int8"', f"({in_four})"), eight.origin)
    elif eight.is_literal(True):
        held = Value("literal", "'int8'", eight.origin)
    elif not four.known:
        held = Value("expression", choice(four.text, '"nf4"', "None"), four.origin)
    elif four.is_literal(True):
        held = Value("literal", "'nf4'", four.origin)
    if held is not None and half is not None and not half.known and not _is_the_other(half, four, eight):
        code = f'"{held.literal}"' if held.known else f"({held.code})"
        held = Value("expression", choice(half.text, "None", code), half.origin)
    if held is not None:
        porting.fill({QUANTIZATION: held})


def _is_the_other(half: Value, four: Value, eight: Value) -> bool:
    """`load_in_4bit=flag, load_in_16bit=not flag`."""
    return eight.is_literal(False) and not four.known and half.text == f"not {four.text}"


def _read_checkpointing(porting: Training) -> None:
    """`"unsloth"` and True ask for the same recomputation."""
    value = porting.value(CHECKPOINTING)
    if value is not None and value.known:
        porting.fill({CHECKPOINTING: replace(value, code=repr(value.literal not in (False, None, "none", "False")))})


def _read_adapters(porting: Training, site: Site) -> None:
    """`FastLanguageModel.get_peft_model(model, target_modules=None)` puts them into the layers that it names itself.

    `"all-linear"` means the same: PEFT's has a Gemma 4's gates and projections of embeddings by layer, too.
    """
    rule = table_of(porting, site)
    targets = porting.value("lora.targets")
    if targets is not None and targets.is_literal(None, "all-linear"):
        row = rule.table.row("target_modules")
        assert row is not None and row.default is not None
        own = Value("default", row.default, Origin(rule.table.name, 0, 0, rule.id))
        if not targets.is_literal(None):
            own = Value("literal", row.default, targets.origin)
        porting.fill({"lora.targets": own})
    _say_of_full_finetuning(porting, site)
    _say_of_heads(porting, site)
    _read_checkpointing(porting)


def _say_of_heads(porting: Training, site: Site) -> None:
    """`target_modules=[..., "lm_head"]`: before `ADAPTS_HEADS` Unsloth trains and saves the whole head instead."""
    targets, release = porting.value("lora.targets"), unsloth_version(porting)
    named = targets.literal if targets is not None and targets.known else None
    if not isinstance(named, list | tuple) or "lm_head" not in named or version_key(release) >= ADAPTS_HEADS:
        return
    message = (
        f'target_modules with "lm_head": Unsloth {release} trains and saves the whole head, as of modules_to_save;'
    )
    fix = "Take it out in both, or say the release, 2026.3.1 or later, that puts an adapter there."
    porting.find(site.rule, "error", f"{message} the port an adapter on it.", fix, site.line, site.column)


def _say_of_full_finetuning(porting: Training, site: Site) -> None:
    """`get_peft_model` has no effect behind a load with `full_finetuning=True`: every weight is trained and saved."""
    full = porting.value("model.full_finetuning")
    if full is None or full.is_literal(False, None):
        return
    message = (
        f"full_finetuning={full.text or full.code}: Unsloth puts no adapters in then, and trains every weight; the"
    )
    if full.known:
        fix = "Take this line out to train every weight, or full_finetuning to train adapters."
        porting.find(site.rule, "error", f"{message} port trains these adapters.", fix, site.line, site.column)
    else:
        fix = "Put this line under the condition that full_finetuning is false."
        porting.find(site.rule, "warning", f"{message} port trains adapters on both ways.", fix, site.line, site.column)
