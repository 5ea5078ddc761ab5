"""TRL's own k-bit preparation of a quantised base that a trainer puts adapters into: said, as PEFT's own call is.

`prepare_model_for_kbit_training` makes norms, embeddings and head float32, and TRL makes embeddings and head of a base
of 4 bits bfloat16 again where it trains under bf16. Tunix's norms compute in float32 whatever they are held in.
"""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, passes_over_config, say_float32_between

from .adapter_casts import CAST_SINCE

PART_OF = "trl"
NEVER = (99,)
TRAINERS = ("SFTTrainer", "DPOTrainer", "KTOTrainer", "ORPOTrainer", "CPOTrainer")

# Trainers that prepare the base, and the releases from which on they don't; see adapter_casts.
UNTIL = {name: CAST_SINCE.get(name, NEVER) for name in TRAINERS}


@step(Phase.READ, of="trainer", reads=("model", "model.quantization", "config", "inject", "lora"))
def say_prepared_base(porting: Training) -> None:
    """A reason at `peft_config`: embeddings and head are float32 in the source, and the weights' type in the port."""
    held, trainer = porting.value("model.quantization"), porting.trainer
    if held is None or held.is_literal(None) or trainer is None or not trainer.qualified.startswith("trl."):
        return
    name, release = trainer.qualified.rpartition(".")[2], plain_version(porting.versions.get("trl", ""))
    given = trainer.argument("peft_config")
    if given is None or given.value.is_literal(None) or "unsloth" in porting.module.roots:
        return
    if passes_over_config(porting):  # it prepares what it puts adapters into, not a model that has some
        return
    if name not in UNTIL or version_key(release or "98") >= UNTIL[name] or porting.of_role("prepare"):
        return
    bf16, fp16 = porting.known("precision.bf16", "?"), porting.known("precision.fp16", "?")
    under_bf16 = bf16 is True or (bf16 is None and fp16 is not True)
    if under_bf16 and not held.is_literal("int8"):
        return
    when = " but under bf16" if bf16 == "?" else ""
    reason = (
        f"TRL {release} prepares a quantised base itself: embeddings and head are float32 there{when}, here they keep "
        "the weights' type"
    )
    source = f"{name}.peft_config"
    dropped = [row.reason for row in porting.fields if row.source == source and row.fate == "dropped"]
    if dropped:  # the model has adapters of the same config
        porting.change_fate(source, reason=f"{dropped[0]}; {reason}")
    else:
        porting.add_reason(source, reason)
    if not under_bf16 and fp16 not in (True, "?") and bf16 != "?":
        say_float32_between(porting, trainer.rule, given.line, given.column)
