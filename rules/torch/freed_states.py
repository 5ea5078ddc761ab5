"""States of torch's training that a script lets go of behind it, for their memory: `trainer.optimizer = None`.

They go, as nothing else of the port reads them: Tunix's trainer trains on with its own where it is called again.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import role_uses
from porter.packs.training import is_behind

PART_OF = "TP510"
STATES = frozenset({"@trainer.optimizer=", "@trainer.lr_scheduler="})
REASON = "it frees what torch trained with"


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def drop_freed_states(porting: Porting) -> None:
    """Take the assignments out where nothing is trained behind them."""
    module = porting.module
    trained = [module.span(use.outer)[0] for use in role_uses(porting, "trainer") if use.match == "@trainer.train()"]
    for use in role_uses(porting, "trainer"):
        if use.match not in STATES or porting.covered(module.span(use.name)[0]):
            continue
        line = module.parents[module.parents[use.outer]]
        is_none = isinstance(line, cst.Assign) and len(line.targets) == 1 and module.code(line.value) == "None"
        behind = is_behind(porting, use.outer) and all(start < module.span(use.outer)[0] for start in trained)
        if is_none and behind:
            porting.remove_statement(use.outer, PART_OF, REASON)
