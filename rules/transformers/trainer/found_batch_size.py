"""`auto_find_batch_size=True`: the GPU run went on with fewer rows where its memory ran out, and nothing in the script
says whether it did.
"""

from __future__ import annotations

from porter.packs.api import Phase, Porting, step

PART_OF = "TP301"
KEYWORD = "auto_find_batch_size"


@step(Phase.NAME, of="trainer")
def say_found_batch_size(porting: Porting) -> None:
    """A warning: the port trains with the batch that the script asks for."""
    given = porting.config.argument(KEYWORD) if porting.config is not None else None
    if given is None or given.value.is_literal(None, False):
        return
    rows = porting.known("batch.per_device")
    written = f"per_device_train_batch_size={rows}" if isinstance(rows, int) else "per_device_train_batch_size"
    message = f"{KEYWORD}: the GPU run went on with fewer rows if its memory ran out; the port trains with {written}."
    fix = (
        "The GPU run's trainer_state.json says what it came to (train_batch_size): write that number if it is another."
    )
    porting.find(PART_OF, "warning", message, fix, given.line, given.column)
