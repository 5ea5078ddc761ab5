"""Trackers that the Trainer reports to and Tunix doesn't: a callback of the runtime does, or nothing is sent there, and
no run is begun.

TrainingArguments(report_to="trackio")
trackio.log({"answers": answers})    # in the run that the Trainer has begun

What transformers' W&B callback reads from the environment is done by no port, either:

os.environ["WANDB_LOG_MODEL"] = "checkpoint"
"""

from __future__ import annotations

import re

import libcst as cst

from ...engine.receipts.marking import mark
from ...engine.script.fill_from_tables import plain_version
from ...engine.script.porting import Porting
from ...engine.script.sites import facts_of
from ...runtime.facts.field_tables import version_key
from ...runtime.facts.releases.habits import names_runs

KEPT = ("tensorboard", "wandb", "all", "none")
# Those whose functions raise where nobody has begun a run.
NEED_A_RUN = {"swanlab": ("log", "finish"), "trackio": ("log", "finish")}
BEGINS = "init"
# By variable: what transformers does, and how a script does that itself.
OF_WANDB = {
    "WANDB_LOG_MODEL": (
        "uploads the model to W&B (each checkpoint, or the last)",
        'Behind the line that saves, wandb.init().log_artifact(folder, name="model", type="model") uploads a folder.',
    ),
    "WANDB_WATCH": ("sends W&B histograms of gradients or weights", "Leave it out, or send them in a TrainerCallback."),
}
TITLES = {"wandb": "W&B", "swanlab": "SwanLab"}  # what a port reports to and whose runs have a configuration
OFF = ("", "false")
SETS = ("setdefault", "putenv", "update")


def say_trackers(porting: Porting) -> None:
    """Name the trackers in `report_to` that a port sends nothing to, and calls that need the run of one."""
    site, value = porting.trainer, porting.value("log.report_to")
    if site is None or value is None:
        return
    names = (value.literal if isinstance(value.literal, list | tuple) else [value.literal]) if value.known else [None]
    if {None, "all", "wandb"} & {name for name in names if name is None or isinstance(name, str)}:
        _say_wandb(porting)
    _say_configuration(porting, [name for name in names if isinstance(name, str)])
    if not value.known:
        _say_all_where_none(porting)
        return
    for name in (name for name in names if isinstance(name, str) and name not in (*KEPT, *by_callback(porting))):
        message = f"report_to={name!r}: Tunix has no such tracker, and the port sends nothing to it."
        fix = "Send it what you need in a TrainerCallback of your own (on_log)."
        porting.find(site.rule, "warning", message, fix, site.line, site.column)
        _say_calls(porting, name)


def _say_configuration(porting: Porting, names: list[str]) -> None:
    """That the run of a tracker gets no configuration, which transformers' callback sends it.

    A callback of the runtime sends the arguments where they are an object.
    """
    site, callbacks = porting.trainer, {} if porting.arguments_object else dict(facts_of(porting.module).reports)
    for name, title in TITLES.items():
        own = callbacks.get(name, "").partition(".")[2].partition("(")[0]
        made = bool(own) and re.search(rf"\b{own}\(", porting.module.text) is not None
        if site is not None and (made or (name in names and (name in KEPT or own))):
            message = f"{title}'s run gets the log lines from the port, and not what transformers adds to its "
            message += "configuration: the arguments, and the model's own."
            fix = f"Give {name}.init(config=...) what you compare runs by."
            porting.find(site.rule, "info", message, fix, site.line, site.column)


def by_callback(porting: Porting) -> dict[str, str]:
    """The trackers of a known `report_to` that a callback of the runtime reports to, with what a pack says of it."""
    value = porting.value("log.report_to")
    if value is None or not value.known or porting.arguments_object:
        return {}
    names = value.literal if isinstance(value.literal, list | tuple) else [value.literal]
    known = dict(facts_of(porting.module).reports)
    return {name: known[name] for name in names if isinstance(name, str) and name in known}


def with_trackers(porting: Porting, callbacks: str) -> str:
    """The code of the callbacks with those that report to the trackers of `report_to`, but for what a script gives."""
    for said in by_callback(porting).values():
        module, _, call = said.partition(".")
        name, _, keyword = call.rstrip(")").partition("(")
        if re.search(rf"\b{name}\b", porting.module.text):
            continue
        porting.imports.add(f"from {porting.runtime_module(module)} import {name}")
        run = porting.value("log.run_name")
        given = f"{keyword}={porting.text('log.run_name')}" if run is not None and not run.is_literal(None) else ""
        made = f"{mark(porting, 'log.report_to')}{name}({given})"
        if not callbacks:
            callbacks = f"[{made}]"
        elif "#" not in callbacks and isinstance(cst.parse_expression(callbacks), cst.List):
            callbacks = f"{callbacks[:-1].rstrip().rstrip(',')}, {made}]"
        else:
            callbacks = f"[*{callbacks}, {made}]"
    return callbacks


def reports_to_all(porting: Porting) -> bool:
    """Whether None as report_to, or nothing, means all trackers that are installed: in transformers before 5."""
    version = plain_version(porting.versions.get("transformers", ""))
    return porting.loop is None and bool(version) and version_key(version) < (5,)


def _say_all_where_none(porting: Porting) -> None:
    """`report_to="wandb" if use_wandb else None` means that W&B is there, and may be told without being asked.

    An object of the port's own arguments makes all trackers of None, as transformers 4 does: those that Tunix has.
    """
    given = porting.config.argument("report_to") if porting.config is not None else None
    chosen = given.node if given is not None else None
    if porting.trainer is None or not isinstance(chosen, cst.IfExp) or not reports_to_all(porting):
        return
    if any(isinstance(part, cst.Name) and part.value == "None" for part in (chosen.body, chosen.orelse)):
        to = "TensorBoard, and to W&B where that is installed" if porting.arguments_object else "none"
        message = f"report_to=None: transformers 4 reports to every tracker that is installed there, the port to {to}."
        line, column = porting.module.location(chosen)
        porting.find("TP101", "info", message, 'Say "none", or the tracker that is meant.', line, column)


def _say_calls(porting: Porting, name: str) -> None:
    module = porting.module
    called = {call: module.qualified(call.func) or "" for call in module.calls}
    needy = [call for call in called if called[call] in [f"{name}.{each}" for each in NEED_A_RUN.get(name, ())]]
    if needy and f"{name}.{BEGINS}" not in called.values():
        first = min(needy, key=lambda call: module.span(call)[0])
        message = f"{called[first]}(...) needs the run that the Trainer begins, which the port doesn't."
        porting.find("TP101", "error", message, f"Call {name}.{BEGINS}() in front of it.", *module.location(first))


def reporters(porting: Porting) -> list[str] | None:
    """The names in `report_to`; None when only the script knows.

    transformers 4, told nothing, reports to all that are installed, which W&B is where the script speaks of it.
    """
    value = porting.value("log.report_to")
    if value is not None and value.is_literal(None) and reports_to_all(porting):
        if _turns_wandb_off(porting.module.text):
            return []
        site = porting.trainer
        assert site is not None
        said = "report_to=None" if porting.given("log.report_to") else "report_to isn't set"
        wandb = "wandb" in porting.module.roots or "WANDB_" in porting.module.text
        to = "W&B alone" if wandb else "none"
        message = f"{said}: transformers 4 reports to every tracker that is installed, the port to {to}."
        fix = 'Set it, report_to="tensorboard", for a log of the port.' if not wandb else "Name those that you want."
        porting.find("TP101", "info", message, fix, site.line, site.column)
        if wandb:
            return ["wandb"]
    if value is None:
        return []
    if not value.known:
        return None
    found = value.literal
    names = [found] if isinstance(found, str) else list(found) if isinstance(found, list | tuple) else []
    return [name for name in names if name not in ("none", *by_callback(porting))]


def _turns_wandb_off(text: str) -> bool:
    """Whether a script sets WANDB_DISABLED or WANDB_MODE to what turns W&B off: not to "false", "online", nothing."""
    text = re.sub(r"(WANDB_(?:DISABLED|MODE)\b[\"']?\]?\s*[=,:]\s*)(?:\"\"|'')", r"\1'false'", text)
    given = re.findall(r"WANDB_(?:DISABLED|MODE)\b[\"']?\]?\s*[=,:]?\s*[\"']?(\w*)", text)
    return any(
        value.lower() not in ("false", "0", "no", "off", "online", "offline", "run", "shared") for value in given
    )


def _say_wandb(porting: Porting) -> None:
    """A warning for each setting of transformers' W&B callback that a script puts into the environment."""
    module = porting.module
    if not any(name in module.text for name in OF_WANDB):
        return
    for node in list(module.parents):
        name = node.evaluated_value if isinstance(node, cst.SimpleString) else None
        if not isinstance(name, str) or name not in OF_WANDB or (value := _put_there(porting, node)) is None:
            continue
        if isinstance(value, cst.SimpleString) and str(value.evaluated_value).lower() in OFF:
            continue
        does, fix = OF_WANDB[name]
        message = f"{name}={module.code(value)}: transformers {does} where it says so; the port doesn't."
        porting.find("TP101", "warning", message, fix, *module.location(node))


def _put_there(porting: Porting, key: cst.CSTNode) -> cst.BaseExpression | None:
    """The value of `os.environ[key] = value`, `os.environ.setdefault(key, value)`, `os.environ.update({key: value})`;
    None where the key is only read.
    """
    module = porting.module
    holder = module.parents[key]
    if isinstance(holder, cst.DictElement) and holder.key is key:
        call = next((each for each in module.ancestors(key) if isinstance(each, cst.Call)), None)
        return holder.value if call is not None and module.code(call.func).endswith("environ.update") else None
    if isinstance(holder, cst.Arg):
        around = module.parents[holder]
        if not isinstance(around, cst.Call) or module.code(around.func).rpartition(".")[2] not in SETS:
            return None
        return around.args[1].value if len(around.args) > 1 and around.args[0] is holder else None
    line = next((each for each in module.ancestors(key) if isinstance(each, cst.BaseSmallStatement)), None)
    if not isinstance(line, cst.Assign) or not module.code(line.targets[0].target).startswith("os.environ["):
        return None
    return line.value if not any(each is line.value for each in module.ancestors(key)) else None


def is_named_after_folder(porting: Porting) -> bool:
    """Whether the source's transformers calls a W&B run that has no name by its output_dir."""
    folder = porting.value("run.output_dir")
    day = plain_version(porting.versions.get("transformers", ""))
    return folder is not None and not folder.is_literal(None) and names_runs(day)
