"""`model.get_memory_footprint()` of a quantised base that PEFT has prepared: what isn't quantised is float32 there."""

from __future__ import annotations

from porter.packs.api import Phase, Porting, step
from porter.packs.script import role_uses
from porter.packs.training import when_quantised

PART_OF = "TP602"
CHAIN = "get_memory_footprint"


@step(Phase.ANSWER, of="trainer", reads=("model.quantization", "preparation"))
def say_prepared_footprint(porting: Porting) -> None:
    """An info where the figure is larger on the GPU than the port's."""
    when = when_quantised(porting)
    prepared = [site.start for site in porting.of_role("prepare")]
    if not prepared or when is False:
        return
    module = porting.module
    for use in role_uses(porting, "model"):
        if use.kind != "call" or not use.chain.endswith(CHAIN) or module.span(use.outer)[0] < min(prepared):
            continue
        message = (
            f"The GPU run's figure is larger here{'' if when else ' where it quantises the base'}: "
            "prepare_model_for_kbit_training has made embeddings, head and norms float32, which the port keeps as they "
            "are loaded."
        )
        porting.find(PART_OF, "info", message, "", *module.location(use.outer))
