"""fp16 where the GPU has no bfloat16: `fp16=not torch.cuda.is_bf16_supported()` on a T4.

What it does: says that such a run of Unsloth's, on a GPU that the notebook's outputs, its metadata or Modal's `gpu=`
name, trained in float16 with loss scaling, and the port in bfloat16. (torch itself, from 2.4 on, counts emulation.)
Why: the question is answered as on an Ampere GPU, so that fp16 is False in the port.
Example: `TrainingArguments(fp16=not torch.cuda.is_bf16_supported())`
Use instead: nothing: a TPU computes in bfloat16
Safety: the steps that loss scaling left out are made in the port.
"""

from __future__ import annotations

import re

from porter.packs.api import Phase, Porting, step
from porter.packs.script import gpu_of_run

PART_OF = RULE = "TP538"
FIRST_WITH_BFLOAT16 = (8, 0)
WITHOUT = "unsloth"  # has torch answer without emulation
ASKS = re.compile(r"\bis_(?:torch_)?(?:bf16|bfloat16)_(?:gpu_)?(?:supported|available)\(")


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def say_float16(porting: Porting) -> None:
    """A finding, and what becomes of the keyword."""
    gpu, site = gpu_of_run(porting.module), porting.trainer
    if site is None or not gpu.name or gpu.capability >= FIRST_WITH_BFLOAT16 or WITHOUT not in porting.module.roots:
        return
    asked = [row for row in porting.fields if row.source.endswith(".fp16") and ASKS.search(row.value)]
    if not asked:
        return
    reason = f"a {gpu.name} has no bfloat16: float16 with loss scaling there, bfloat16 here"
    porting.change_fate(".fp16", fate="changed", target="bfloat16", reason=reason)
    message = f"{asked[0].source}={asked[0].value} was True on a {gpu.name} ({gpu.named_by}): float16 with loss "
    message += "scaling, which leaves out steps that overflow; the port trains in bfloat16."
    fix = "Expect losses that differ by the rounding, or compare with a run on a GPU with bfloat16."
    porting.find(RULE, "info", message, fix, asked[0].line, asked[0].column)
