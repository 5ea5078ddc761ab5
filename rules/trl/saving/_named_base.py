"""The model that a trainer was given beside `peft_config=`, by its own name: what PEFT puts into it, it isn't told.

model = AutoModelForCausalLM.from_pretrained(name)
trainer = SFTTrainer(model=model, peft_config=lora)    trainer.model is a PeftModel around it,
model.save_pretrained("out")                           model the base with PEFT's layers in it

The same of the base that get_peft_model was given, by its own name.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Porting, Site
from porter.packs.script import binding_origins, origins, reaching


def is_named_base(porting: Porting, site: Site) -> bool:
    """Whether a method is called on a base, by its own name, into which the trainer or get_peft_model puts adapters."""
    trainer, func, inject = porting.trainer, getattr(site.node, "func", None), porting.inject
    given = trainer.argument("peft_config") if trainer is not None else None
    by_trainer = given is not None and not given.value.is_literal(None)
    by_script = inject is not None and inject.scope is site.scope and inject.end <= site.start
    if not (by_trainer or by_script) or not porting.saves_adapter or not isinstance(func, cst.Attribute):
        return False
    loads = [load.node for load in porting.of_role("model")]
    values = [list(binding_origins(porting.module, binding)) for binding in reaching(porting.module, func.value)]
    found = values or [list(origins(porting.module, func.value))]
    wrapped = [wrap.node for wrap in porting.of_role("inject")]
    return all(any(node in loads for node in path) and not any(node in wrapped for node in path) for path in found)


def say_named_base(porting: Porting, site: Site, method: str) -> None:
    """That the source writes the whole base, under names that nothing loads, where the port writes the adapter."""
    message = (
        f"{method}: the model by its own name is the base with PEFT's layers in it. transformers writes it whole, as "
        "base_layer.weight and lora_A.default.weight, without an adapter_config.json; the port writes the adapter."
    )
    fix = "As PEFT reads it; `trainer.save_model(...)` does so in the source."
    porting.find(site.rule, "info", message, fix, site.line, site.column)
