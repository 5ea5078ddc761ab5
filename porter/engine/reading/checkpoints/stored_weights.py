"""A model whose name says that its weights are held in a quantised format.

Of Unsloth's mirrors in 4 bits the port loads the 16-bit weights that they were made from; of others nobody can tell by
the name where those are.
"""

from __future__ import annotations

from ....recipe import Origin, Value
from ....runtime.facts.stored_formats import base_name, unread_format
from ...script.training import Training

OF_STORED = "Load the model that was quantised, in bfloat16 or with a BitsAndBytesConfig."


def read_stored_weights(porting: Training) -> bool:
    """Fill `model.id` with the name of the 16-bit weights; whether the name was that of a mirror in 4 bits."""
    value = porting.value("model.id")
    if value is None or not value.known or not isinstance(value.literal, str):
        return False
    name, base = value.literal, base_name(value.literal)
    if base == name:
        check_stored_weights(porting, value)
        return False
    porting.fill({"model.id": Value("literal", repr(base), value.origin)})
    reason = "4-bit weights in bitsandbytes' layout: the port quantises the weights that they were made from"
    target = "rt.load_model: the 16-bit weights, quantised as they are loaded"
    porting.change_fate(".pretrained_model_name_or_path", fate="changed", target=target, reason=reason)
    message = f"{name} holds 4-bit weights in bitsandbytes' layout: the port loads {base}."
    fix = "All weights are quantised as they are loaded, also those that a dynamic mirror keeps in 16 bits."
    porting.find("TP601", "info", message, fix, *_place(value.origin))
    return True


def check_stored_weights(porting: Training, value: Value) -> None:
    """An error where a model's name says that its weights are held in a format that the runtime doesn't read."""
    held = unread_format(value.literal) if value.known and isinstance(value.literal, str) else ""
    if held:
        message = f"{value.literal} holds quantised weights ({held}), which rt.load_model doesn't read."
        porting.find("TP601", "error", message, OF_STORED, *_place(value.origin))


def _place(origin: Origin | None) -> tuple[int, int]:
    return (origin.line, origin.column) if origin is not None else (1, 1)
