"""`split_batches=True` on one process, whose batch accelerate leaves whole.

On several a batch has the rows of all of them, and each its share; that is left to a person.
"""

from __future__ import annotations

from porter.packs.api import Phase, Value, step
from porter.packs.training import Training

PART_OF = "TP301"

SPLITS = "split_batches"
PLACE, CONFIG = "batch.split_batches", "batch.accelerator_config"
REASON = "one process: accelerate has nothing to split a batch for"


@step(Phase.READ, of="trainer", reads=("values", "arguments_object"), fills=(PLACE, CONFIG))
def settle_split_batches(porting: Training) -> None:
    """Of one process it is as if it weren't said."""
    if porting.arguments_object or porting.known("mesh.processes", 1) != 1:
        return
    if porting.known(PLACE) is True:
        _take_back(porting, PLACE, f".{SPLITS}")
    config = porting.known(CONFIG)
    if isinstance(config, dict) and set(config) == {SPLITS}:
        _take_back(porting, CONFIG, ".accelerator_config")


def _take_back(porting: Training, place: str, source: str) -> None:
    porting.withdraw(source)
    porting.change_fate(source, fate="dropped", target="", reason=REASON)
    porting.fill({place: Value("default", "None")})
