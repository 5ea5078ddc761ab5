"""SFTTrainer with remove_unused_columns=False: texts stay in rows of which a collator makes tensors.

The collator is TRL's own before 0.16.1, which pads all columns, or one that the script gives and that pads by the
tokenizer. Unsloth's preparation kept the columns before 2026.2.1.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Argument, Phase, Site, step
from porter.packs.script import origins, plain_version, version_key
from porter.packs.training import Training

PART_OF = "trl"
OWN_COLLATOR = (0, 16, 1)  # the first release whose collator reads the columns that it needs
UNSLOTH_REMOVES = (2026, 2, 1)
PADS = ("DataCollatorForLanguageModeling", "DataCollatorForSeq2Seq", "DataCollatorWithPadding")
COMPLETION_ONLY = "DataCollatorForCompletionOnlyLM"


@step(
    Phase.READ,
    of="trainer",
    reads=("model", "config", "arguments", "arguments_object", "script values", "data.packing", "data.text_field"),
)
def say_kept_columns(porting: Training) -> None:
    """A warning where the source ends at its first batch, and the port trains."""
    site = porting.trainer
    release = plain_version(porting.versions.get("trl", ""))
    if site is None or site.qualified != "trl.SFTTrainer" or not release:
        return
    config = porting.config or porting.arguments
    asked = config.argument("remove_unused_columns") if config is not None else None
    packed = porting.value("data.packing")
    if asked is None or not asked.value.is_literal(False) or not (packed is None or packed.is_literal(None, False)):
        return
    if not _has_texts(porting, site):
        return
    collator, by_unsloth = site.argument("data_collator"), "unsloth" in porting.module.roots
    if collator is None or collator.value.is_literal(None):
        if by_unsloth or version_key(release) >= OWN_COLLATOR:
            return
        keeps, made = f"TRL {release}", "its collator"
        fix = "Say --source-trl VERSION if it ran on another: from 0.16.1 on it trains."
    else:
        made = _padding(porting, collator)
        unsloth = plain_version(porting.versions.get("unsloth", ""))
        if not made or (by_unsloth and version_key(unsloth) >= UNSLOTH_REMOVES):
            return
        keeps = f"Unsloth {unsloth}" if by_unsloth else f"TRL {release}"
        fix = "Leave remove_unused_columns out, with which it trains there, too."
    message = (
        f"remove_unused_columns=False: {keeps} leaves the text in its rows, of which {made} can make no tensor. The "
        "GPU run ends at its first batch; the port trains on the tokens."
    )
    porting.find(site.rule, "warning", message, fix, asked.line, asked.column)


def _has_texts(porting: Training, site: Site) -> bool:
    """Whether the trainer's rows are texts, none of the script's own tokens."""
    text = porting.module.text
    if "skip_prepare_dataset" in text:
        return False
    named = porting.given("data.text_field") or site.argument("formatting_func") is not None
    return bool(named) or "input_ids" not in text


def _padding(porting: Training, collator: Argument) -> str:
    """The collator's class, where it is one that makes a tensor of each column; an empty text for any other."""
    made = [node for node in origins(porting.module, collator.node) if isinstance(node, cst.Call)]
    found = porting.module.qualified(made[-1].func) if made else None
    package, _, name = (found or "").rpartition(".")
    known = package.startswith("trl") and name == COMPLETION_ONLY
    return name if known or (package.startswith("transformers") and name in PADS) else ""
