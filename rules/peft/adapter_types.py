"""In which type PEFT made the adapters of a base in half precision: before 0.12 in the base's, from then on in float32.

The port's are float32. In bfloat16, gradients and the optimizer's state are bfloat16, too, and small updates are lost.
"""

from __future__ import annotations

import re

from porter.packs.api import Phase, Porting, step
from porter.packs.script import TORCH_TYPES, date, history, plain_version

PART_OF = "peft"
RULE = "TP202"

# What makes trained parameters float32 by itself.
CASTS = re.compile(r"\.float\(\)|\.to\(torch\.float(32)?\b|prepare_model_for_|autocast_adapter_dtype")


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def name_adapter_types(porting: Porting) -> None:
    """A finding where the GPU run's adapters were in half precision."""
    site, quantization = porting.trainer, porting.value("model.quantization")
    adapters = porting.lora is not None or porting.lora_object or porting.inject is not None
    if site is None or not adapters or (quantization is not None and not quantization.is_literal(None)):
        return
    said = porting.value("model.dtype")
    base = TORCH_TYPES.get(str(said.literal).removeprefix("torch.")) if said is not None and said.known else None
    release = peft_release(porting)
    if base not in ("bfloat16", "float16") or release is None or CASTS.search(porting.module.text):
        return
    if history().takes("peft", release, "peft.get_peft_model", "autocast_adapter_dtype"):
        return
    message = f"PEFT {release} trains the adapters in the base's {base}; here they are float32, as PEFT's from 0.12 on."
    fix = "Expect other losses: in half precision small updates are rounded away."
    porting.find(RULE, "info", message, fix, site.line, site.column)


def peft_release(porting: Porting) -> str | None:
    """The PEFT that the project pins or the script's use of it tells, else that of the day of an older TRL."""
    found = date(porting, "peft")
    if found is not None:
        return found.version
    trl, peft = porting.versions.get("trl", ""), history().record("peft")
    if not trl or trl.endswith("(newest table)"):
        return None
    return peft.releases[peft.at_day(history().date("trl", plain_version(trl)))]
