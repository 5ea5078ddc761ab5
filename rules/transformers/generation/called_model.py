"""The trained model called by itself, for its loss or its logits.

    outputs = model(**inputs, labels=inputs["input_ids"])

becomes `rt.causal_lm_output(model, **inputs, labels=inputs["input_ids"])`, which takes and gives torch's tensors on the
host: what is made of them stays as it is. Not where a gradient is taken of them, or more is asked for.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.runtime import OF_FORWARD
from porter.packs.script import function_around
from porter.packs.writing import settle_places

from ._generation import trained
from ._reload_arguments import is_off

PART_OF = "TP311"
OUTPUTS = (".loss", ".logits", '["loss"]', '["logits"]', "['loss']", "['logits']")
INPUTS = ("input_ids", "attention_mask", "labels")
# What trains by hand, and what Tunix's model doesn't give.
MORE = re.compile(r"\.backward\(|\bautograd\b|past_key_values|\.hidden_states|\.attentions")


@step(Phase.ANSWER, of="trainer", reads=("reloaded models",), fills=("claimed uses",))
def port_calls(porting: Porting) -> None:
    """Calls of the model that this trainer trains, and of those that the port loads again."""
    module = porting.module
    for model in trained(porting) if any(word in module.text for word in OUTPUTS) else ():
        call = module.parents[model.node]
        if isinstance(call, cst.Call) and call.func is model.node and not porting.covered(module.span(model.node)[0]):
            _port(porting, call, model.text)


def _port(porting: Porting, call: cst.Call, model: str) -> None:
    """A call of the model, if all that it is told and all that is made of it has a counterpart."""
    if not is_known_call(porting, call):
        return
    module = porting.module
    porting.edit(*module.span(call.func), porting.rt("causal_lm_output"), PART_OF, "the same logits and loss")
    start = module.span(call.args[0])[0]
    porting.edit(start, start, f"{model}, ", PART_OF, "the model is an argument")
    for argument in call.args:
        settle_places(porting, argument.value, PART_OF)


def is_known_call(porting: Porting, call: cst.Call) -> bool:
    """Whether the port's function takes every argument of the call, and gives all that is made of its answer."""
    function = function_around(porting.module, call)
    around = porting.module.code(function) if function is not None else porting.module.text
    if porting.loop is not None or MORE.search(around) or not call.args:
        return False
    for place, argument in enumerate(call.args):
        name = argument.keyword.value if argument.keyword is not None else ""
        if argument.star == "*" or (not name and not argument.star and place):
            return False
        if not name or name in INPUTS:
            continue
        is_told = name.startswith("output_") or name == "return_dict"
        if name not in OF_FORWARD or (is_told and is_off(porting, argument.value) != name.startswith("output_")):
            return False
    return True
