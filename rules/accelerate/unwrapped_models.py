"""trainer.accelerator.unwrap_model(trainer.model) → trainer.model.

What it does: writes what the call is given; what is done with the model behind it is done to the port's.
Why: the Trainer's accelerator wraps the torch model for its processes; Tunix's model is not wrapped.
Example: `trainer.accelerator.unwrap_model(trainer.model).save_pretrained("out")`
Use instead: `trainer.model`
Safety: exact.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, Site, step
from porter.packs.script import role_uses

ID = "TP436"
MATCHES = ("@trainer.accelerator.unwrap_model()",)
CHAIN, REASON = "accelerator.unwrap_model", "Tunix's model is not wrapped"


def apply(site: Site, porting: Porting) -> None:
    """What is done with the model that it gives is answered first."""


@step(Phase.ANSWER, of="trainer", reads=("answered uses",))
def unwrap_models(porting: Porting) -> None:
    """What is left of the calls becomes what they are given."""
    module = porting.module
    for use in role_uses(porting, "trainer"):
        call = use.outer
        if use.chain != CHAIN or not isinstance(call, cst.Call) or not call.args:
            continue
        (start, end), (first, last) = module.span(call), module.span(call.args[0].value)
        if not porting.covered(start):
            porting.edit(start, first, "", ID, REASON)
            porting.edit(last, end, "", ID, REASON)
