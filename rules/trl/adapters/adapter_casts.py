"""TRL's cast of adapters to bfloat16 over a quantised base: said, since a port's adapters are float32.

From `CAST_SINCE` on a trainer casts everything that it trains on a base of 4 or 8 bits, whoever put it in. Before 0.9
TRL did so under bf16 with the adapters that it put into a base of 4 bits itself; the releases between cast none.
"""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, when_quantised

PART_OF = "trl"

CAST_SINCE = {
    "SFTTrainer": (0, 26, 0),
    "GKDTrainer": (0, 26, 0),
    "GRPOTrainer": (0, 26, 0),
    "RewardTrainer": (0, 26, 0),
    "RLOOTrainer": (0, 27, 0),
    "DPOTrainer": (0, 29, 0),
    "KTOTrainer": (1, 4, 0),
}
UNDER_BF16 = ((0, 7, 5), (0, 9, 0))
PLACE = "model.quantization"


@step(Phase.READ, of="trainer", reads=("model", "loads", PLACE, "config", "arguments_object", "script values"))
def say_adapters_type(porting: Training) -> None:
    """Tell that the source's adapters are bfloat16, where its release casts those of a quantised base."""
    quantised, trainer = when_quantised(porting), porting.trainer
    if quantised is False or trainer is None or not trainer.qualified.startswith("trl."):
        return
    name, release = trainer.qualified.rpartition(".")[2], plain_version(porting.versions.get("trl", ""))
    day = version_key(release or "99")
    if name in CAST_SINCE and day >= CAST_SINCE[name]:
        base, when = "a quantised base", "" if quantised else " where the script quantises it"
    elif UNDER_BF16[0] <= day < UNDER_BF16[1] and (under := _put_in_under_bf16(porting)) is not False:
        base, when = "a base of 4 bits", "" if quantised else " where the script holds it so"
        when += "" if under else f"{' and' if when else ' where it'} trains under bf16=True"
    else:
        return
    if name in CAST_SINCE and day >= CAST_SINCE[name] and porting.known("precision.fp16") is True:
        message = (
            f"TRL {release} makes the adapters of {base} bfloat16{when}, which fp16=True's loss scaling can't take "
            "on a GPU: the script was for an older release, whose adapters are float32, as the port's are."
        )
        fix = "Say --source-trl VERSION."
        porting.find(trainer.rule, "info", message, fix, trainer.line, trainer.column)
        return
    message = (
        f"TRL {release} trains and saves the adapters of {base} in bfloat16{when}; the port's are float32, as PEFT"
    )
    message += " makes them, and keep the small updates that bfloat16 rounds away."
    porting.find(trainer.rule, "info", message, "", trainer.line, trainer.column)


def _put_in_under_bf16(porting: Training) -> bool | None:
    """Whether the trainer puts the adapters in, into a base that may be of 4 bits, and trains under bf16; None where
    only the run knows its precision (`bf16=args.bf16`, `TrainingArguments(**settings)`). It takes no `peft_config` of a
    model that has its adapters."""
    if porting.of_role("inject"):
        return False
    given, held = porting.trainer.argument("peft_config") if porting.trainer else None, porting.value(PLACE)
    if given is None or given.value.is_literal(None) or held is None or held.is_literal("int8"):
        return False
    own = porting.config.argument("bf16") if porting.arguments_object and porting.config is not None else None
    if own is not None:
        return own.value.is_literal(True) or (False if own.value.kind == "literal" else None)
    if porting.arguments_object and (porting.config is None or porting.config.unknown_keywords):
        return None
    asked = porting.value("precision.bf16")
    return asked is not None and (asked.is_literal(True) or (False if asked.known else None))
