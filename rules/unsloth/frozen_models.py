"""What Unsloth trains of a model that no `get_peft_model` has put adapters into, which a port would train whole.

FastModel freezes every weight unless `full_finetuning=True`, and so does FastLanguageModel where it hands the model on
to it: what has no class of Unsloth's own (Gemma 3), and `load_in_8bit=True`. Its own classes freeze nothing, but their
norms get no gradient. `peft_config=` at a trainer is taken out of TRL's trainers by Unsloth from 2025.2 on.
"""

from __future__ import annotations

import re

from porter.packs.api import Phase, Porting, step

from ._release import is_before

PART_OF = "TP701"
# Families with a class of Unsloth's own; the others are loaded by FastModel.
OWN = frozenset("llama llama3 mistral gemma gemma2 qwen2 qwen3".split())
ADAPTS = re.compile(r"(?m)^[^#\n]*(get_peft_model\w*\(|PeftModel\w*\.\w+\(|add_adapter\()")
FIX = "Put adapters in with get_peft_model behind the load, or write full_finetuning=True there, in source and port."


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def check_frozen(porting: Porting) -> None:
    """An error where the GPU run trains nothing, a warning where it leaves the norms."""
    site, load = porting.trainer, porting.model
    if site is None or load is None or not load.qualified.startswith("unsloth."):
        return
    full = porting.value("model.full_finetuning")
    if full is not None and not full.is_literal(False, None):
        return
    if porting.inject is not None or porting.branch_injects or ADAPTS.search(porting.module.text):
        return
    given = site.argument("peft_config")
    if given is not None and not given.value.is_literal(None):
        if not is_before(porting, "2025.2"):
            message = "peft_config: Unsloth takes it out of TRL's trainers, so that the GPU run has no adapters."
            porting.find(PART_OF, "error", message, FIX, given.line, given.column)
        return
    held = porting.value("model.quantization")
    if held is not None and not held.is_literal(None):  # frozen as any base of 4 or 8 bits, which is said of each
        return
    own = porting.family is not None and porting.family.name in OWN
    if own and load.qualified.startswith("unsloth.FastLanguageModel."):
        message = (
            "No adapters and no full_finetuning=True: Unsloth's kernels give norms no gradient, the port trains them."
        )
        porting.find(PART_OF, "warning", message, FIX, load.line, load.column)
        return
    if porting.family is None and load.qualified.startswith("unsloth.FastLanguageModel."):
        message = (
            "No adapters and no full_finetuning=True: Unsloth trains all but the norms, or nothing of a model that"
        )
        message += " it has no class for (Gemma 3); the port trains all."
        porting.find(PART_OF, "warning", message, FIX, load.line, load.column)
        return
    message = (
        "No adapters and no full_finetuning=True: Unsloth freezes every weight, so that the GPU run trains nothing."
    )
    porting.find(PART_OF, "error", message, f"{FIX} Of a folder with adapters, load its base.", load.line, load.column)
