"""`group_by_length=True`: rows of like length come together, in the order that the runtime repeats."""

from __future__ import annotations

from porter.packs.api import Phase, Value, choice, step
from porter.packs.training import Training, table_of

PART_OF = "transformers"

OLDER, NEWER = "data.group_by_length", "data.sampling"
GROUPED = "'group_by_length'"
# How a trainer trains → whether rt.SFTBatches or rt.TrainerBatches order its rows.
ORDERED = ("sft", "causal-lm", "loop")
OWN_ORDER = ("grpo", "rloo")


@step(Phase.READ, of="trainer", reads=("script values", "arguments_object"), fills=("data.sampling",))
def read_row_order(porting: Training) -> None:
    """The older keyword becomes the newer one's value; trainers whose rows are pairs or prompts refuse or ignore it."""
    trainer = porting.trainer
    assert trainer is not None
    kind = table_of(porting, trainer).kind
    asked = porting.value(OLDER)
    if kind in ORDERED:
        if asked is None or porting.arguments_object or asked.is_literal(False, None):
            return
        code = GROUPED if asked.known else choice(asked.text or asked.code, '"group_by_length"', '"random"')
        porting.fill({NEWER: Value("literal" if asked.known else "expression", code, asked.origin)})
        return
    sampling = porting.value(NEWER)
    for value, keyword in ((asked, ".group_by_length"), (sampling, ".train_sampling_strategy")):
        if value is None or value.is_literal(False, None, "random", "sequential") or not porting.given(_place(keyword)):
            continue
        if porting.arguments_object and value.code.startswith(f"{porting.arguments_object}."):
            continue  # judged when the script starts
        if kind in OWN_ORDER:
            porting.change_fate(keyword, fate="dropped", target="", reason="the trainer draws its prompts itself")
            continue
        reason = "grouping is for rows of one text; leave it out for the random order"
        porting.change_fate(keyword, fate="manual", target="", reason=reason)
        line, column = (value.origin.line, value.origin.column) if value.origin else (trainer.line, trainer.column)
        name = keyword.removeprefix(".")
        porting.find(trainer.rule, "error", f"{name}={value.text or value.code}: {reason}.", "", line, column)


def _place(keyword: str) -> str:
    return OLDER if keyword == ".group_by_length" else NEWER
