"""BitsAndBytesConfig where it stands: one whose format stands at the model goes, one that stays names its types."""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, Site, step
from porter.packs.script import read_value
from porter.packs.writing import quoted, stays

PART_OF = "TP601"
PLACE = "model.quantization"
TYPES = ("bnb_4bit_compute_dtype", "bnb_4bit_quant_storage")


@step(Phase.WRITE, of="trainer", reads=("written",))
def write_quantization(porting: Porting) -> None:
    """A config that is spread goes; one that stays names its types."""
    config = porting.quantization
    if config is not None and config.variable is not None:
        porting.remove_statement(config.node, config.rule, "the model says itself how it is held")
    for site in porting.of_role("quantization"):
        if site is not config:  # another model's
            stays(porting, site.arguments)
    for site in porting.of_role("quantization"):
        if not porting.covered(site.start):
            _without_torch(porting, site)


def _without_torch(porting: Porting, config: Site) -> None:
    """The kept config's types by name, which torch's class takes too: `"bfloat16"` for `torch.bfloat16`."""
    for name in TYPES:
        argument = config.argument(name)
        if argument is None or not isinstance(argument.node, cst.Attribute):
            continue
        value = read_value(porting.module, argument.node)
        if value.known:
            start, end = porting.module.span(argument.node)
            porting.edit(start, end, quoted(str(value.literal)), config.rule, "the type by its name")


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def check_adapters(porting: Porting) -> None:
    """A finding where a quantised base is trained without adapters: what was loaded has to be an adapter's folder."""
    value, site = porting.value(PLACE), porting.trainer
    if value is None or value.is_literal(None) or site is None:
        return
    adapters = porting.lora is not None or porting.lora_object or porting.lora_conditional or porting.inject is not None
    if adapters or re.search(r"(?m)^[^#\n]*(get_peft_model|PeftModel|add_adapter)", porting.module.text):
        return
    name = porting.text("model.id") if porting.value("model.id") is not None else "the model"
    held = f"held as {value.literal}" if value.known else f"held in 4 or 8 bits ({value.text or value.code})"
    message = f"{name}: a base {held} is frozen, and this file puts no adapters in."
    fix = (
        "If it is an adapter's folder, load its base, and train the adapter on with rt.apply_adapter; otherwise add a "
    )
    fix += "peft_config, or load it in bfloat16."
    line, column = (value.origin.line, value.origin.column) if value.origin else (site.line, site.column)
    porting.find(PART_OF, "error" if value.known else "warning", message, fix, line, column)
