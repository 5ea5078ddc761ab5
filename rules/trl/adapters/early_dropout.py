"""DPO before TRL 0.6, which had no `disable_dropout`: the adapters' dropout is on while it trains.

    DPOTrainer(model, ref_model, args=args, peft_config=LoraConfig(lora_dropout=0.05), ...)

0.7 is the first release whose defaults are known here, and it switches dropout off.
"""

from __future__ import annotations

import datetime
from dataclasses import replace

from porter.packs.api import Phase, step
from porter.packs.script import written_before
from porter.packs.training import Training, table_of

PART_OF = "TP104"

SWITCHES_OFF, DAY = "0.6.0", datetime.date(2023, 8, 24)
SWITCH, DROPOUT = "lora.disable_dropout", "lora.dropout"


@step(Phase.READ, of="trainer", reads=("script values", DROPOUT), fills=(SWITCH,))
def keep_dropout(porting: Training) -> None:
    """Leave the adapters their dropout in a script of those days."""
    trainer, switch, dropout = porting.trainer, porting.value(SWITCH), porting.value(DROPOUT)
    if trainer is None or switch is None or porting.given(SWITCH) or table_of(porting, trainer).kind != "dpo":
        return
    if not written_before(porting, "trl", SWITCHES_OFF, DAY):
        return
    porting.fill({SWITCH: replace(switch, code="False", text="")})
    if dropout is not None and not dropout.is_literal(0, 0.0):
        message = f"DPOTrainer before TRL {SWITCHES_OFF} has no disable_dropout: the adapters' dropout is on while it "
        message += "trains, and so it is in the port."
        fix = "Give disable_dropout=True, and name a release from 0.6 on, if it ran with one."
        porting.find(PART_OF, "info", message, fix, trainer.line, trainer.column)
