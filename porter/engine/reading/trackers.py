"""Trackers that the Trainer reports to and Tunix doesn't: nothing is sent there, and no run is begun.

TrainingArguments(report_to="swanlab")
swanlab.log({"answers": answers})    # in the run that the Trainer has begun
"""

from __future__ import annotations

from ..script.porting import Porting

KEPT = ("tensorboard", "wandb", "all", "none")
# Those whose functions raise where nobody has begun a run.
NEED_A_RUN = {"swanlab": ("log", "finish"), "trackio": ("log", "finish")}
BEGINS = "init"


def say_trackers(porting: Porting) -> None:
    """Name the trackers in `report_to` that a port sends nothing to, and calls that need the run of one."""
    site, value = porting.trainer, porting.value("log.report_to")
    if site is None or value is None or not value.known:
        return
    names = value.literal if isinstance(value.literal, list | tuple) else [value.literal]
    for name in (name for name in names if isinstance(name, str) and name not in KEPT):
        message = f"report_to={name!r}: Tunix has no such tracker, and the port sends nothing to it."
        fix = "Send it what you need in a TrainerCallback of your own (on_log)."
        porting.find(site.rule, "warning", message, fix, site.line, site.column)
        _say_calls(porting, name)


def _say_calls(porting: Porting, name: str) -> None:
    module = porting.module
    called = {call: module.qualified(call.func) or "" for call in module.calls}
    needy = [call for call in called if called[call] in [f"{name}.{each}" for each in NEED_A_RUN.get(name, ())]]
    if needy and f"{name}.{BEGINS}" not in called.values():
        first = min(needy, key=lambda call: module.span(call)[0])
        message = f"{called[first]}(...) needs the run that the Trainer begins, which the port doesn't."
        porting.find("TP101", "error", message, f"Call {name}.{BEGINS}() in front of it.", *module.location(first))
