"""Padding that transformers' Trainer trains: Unsloth's own models see it, as they train without the attention mask.

made = tokenizer(row["text"], padding="max_length", max_length=2048)
made["labels"] = made["input_ids"].copy()

The mask hides it in the port, from the tokens of the padding behind it, too.
"""

from __future__ import annotations

import re

from porter.packs.api import Phase, step
from porter.packs.training import Training, table_of

PART_OF = "TP703"
LOADS = "unsloth.FastLanguageModel"  # whose models are Unsloth's own; FastModel's are transformers'
FAMILIES = ("llama3", "mistral", "qwen2", "qwen3")
PADS = re.compile(r"""\bpadding\s*=\s*["']max_length["']""")
TRAINS = re.compile(r"""["']labels["']\s*\]?\s*[=:]\s*(?:list\()?\w+\[["']input_ids["']\]""")
OTHER_LABELS = re.compile(r"-\s*100\b|masked_fill|DataCollatorForLanguageModeling")  # padding has no label there


@step(Phase.READ, of="trainer", reads=("model", "family", "loaded_by"))
def say_trained_padding(porting: Training) -> None:
    """A warning where the script pads its rows and takes all of them for labels."""
    site, text = porting.trainer, porting.module.text
    if site is None or porting.loop is not None or not porting.loaded_by or table_of(porting, site).kind == "sft":
        return
    if porting.model is None or not porting.model.qualified.startswith(LOADS):
        return
    if porting.family is not None and porting.family.name not in FAMILIES:
        return
    if not site.qualified.startswith("transformers.") or not PADS.search(text) or not TRAINS.search(text):
        return
    if OTHER_LABELS.search(text):
        return
    message = "The padding is trained, and Unsloth's models train without the attention mask: a place in the padding"
    message += " sees what is padded in front of it on the GPU, and the text alone in the port."
    fix = "Give the padding labels of -100, on the GPU too: then both train the text alone."
    porting.find(PART_OF, "warning", message, fix, site.line, site.column)
