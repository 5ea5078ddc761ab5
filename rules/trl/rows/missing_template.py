"""SFT before TRL 0.6 with DataCollatorForCompletionOnlyLM: a row without the response template ended the run.

From 0.6 on such a row isn't trained, and so it is in the port, whose first known release is 0.7.
"""

from __future__ import annotations

import datetime

from porter.packs.api import Phase, step
from porter.packs.script import written_before
from porter.packs.training import Training, table_of

PART_OF = "TP102"

COLLATOR = "DataCollatorForCompletionOnlyLM"


@step(Phase.READ, of="trainer", reads=("script values",))
def say_missing_templates(porting: Training) -> None:
    """Say it of a script of those days, by its pin or its last commit."""
    trainer = porting.trainer
    if trainer is None or table_of(porting, trainer).kind != "sft" or trainer.argument("data_collator") is None:
        return
    if COLLATOR in porting.module.text and written_before(porting, "trl", "0.6.0", datetime.date(2023, 8, 24)):
        message = (
            f"{COLLATOR} before TRL 0.6 ends the run at a row that lacks the response template; the port, as later "
        )
        message += "releases, leaves such a row untrained and goes on."
        porting.find(PART_OF, "info", message, "", trainer.line, trainer.column)
