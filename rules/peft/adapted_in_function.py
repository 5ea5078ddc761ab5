"""Adapters that a function puts into its caller's model, which goes on under the caller's name.

    def train(model, rows):
        SFTTrainer(model, peft_config=lora, train_dataset=rows).train()

    train(model, rows)
    print(model.generate(**inputs))

PEFT puts them into the model that it is given; what the port's function gives its own name is another object, and the
caller's is the base still. What the caller does with it behind the call is an error.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Use, calls_of, function_around, role_uses, shortened

PART_OF = "TP202"


@step(Phase.NAME, of="trainer", reads=("checkpoints",))
def name_bases_of_callers(porting: Porting) -> None:
    """An error at the first such use."""
    module, holder = porting.module, porting.inject or porting.trainer
    puts_in = porting.inject is not None or porting.lora is not None or porting.lora_object not in ("", "None")
    function = function_around(module, holder.node) if holder is not None and puts_in else None
    if function is None:
        return
    calls = [call for call in calls_of(module, function) if function_around(module, call) is not function]
    for use in role_uses(porting, "model"):
        call = next((each for each in calls if _is_behind(porting, use, each)), None)
        if call is None or any(edit.removes for edit in porting.around(module.span(use.name)[0])):
            continue
        name = module.code(use.name)
        message = f"{shortened(module.code(use.outer))}: {function.name.value}() puts adapters into its model, in PEFT "
        message += "into this one, too; in the port this is the base still."
        fix = f"Have {function.name.value}() give the model back, and `{name}` be that."
        porting.find(PART_OF, "error", message, fix, *module.location(use.name))
        return


def _is_behind(porting: Porting, use: Use, call: cst.Call) -> bool:
    """Whether a name is read behind a call in its own scope, and nothing gives it another value there."""
    module, name = porting.module, use.name
    if not isinstance(name, cst.Name) or module.scope(name) is not module.scope(call):
        return False
    if module.span(name)[0] < module.span(call)[1] or isinstance(module.parents[name], cst.Del | cst.Comparison):
        return False
    meant, start = module.meaning(name), module.span(module.statement(call))[0]
    return meant is not None and all(module.span(binding.node)[0] < start for binding in meant[1])
