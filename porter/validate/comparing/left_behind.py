"""What the two runs leave behind or send: weights, tokenizers, uploads, checkpoints, evaluations, log lines.

Compared is what the scripts ask for. Formats that can't be equal are no difference; `not_compared` names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .tolerances import Tolerances
from .trace import Trace
from .verdict import Check

LEFT = "what the run leaves behind"
CUT = "the source's loop was ended after its steps: what follows it was not run"
FORMATS = {
    "checkpoints": "the files of checkpoints: Orbax writes other ones than torch (optimizer.pt, scheduler.pt, "
    "rng_state.pth, trainer_state.json, training_args.bin)",
    "weights": "training_args.bin and README.md beside the weights",
    "state": "trainer_state.json of save_state: the port's has a line for every step",
    "metrics": "the figures of log_metrics and save_metrics, in their tables and files",
    "card": "the model card",
}
SHOWN = 6  # steps of a list

Event = Mapping[str, Any]


def check_left_behind(source: Trace, port: Trace, tolerances: Tolerances) -> list[Check]:
    """One check over all events, with the first difference; none where the source's weren't watched."""
    ours, theirs = _events(source), _events(port)
    if ours is None:
        return []
    if theirs is None:
        return [Check(LEFT, "skipped", "the port's outputs were not watched")]
    for event in (*_of(ours, "cut"), *_of(theirs, "cut")):
        return [Check(LEFT, "skipped", str(event["items"][0]) if event["items"] else CUT)]
    found = [
        *_saved(ours, theirs, "weights"),
        *_saved(ours, theirs, "tokenizer"),
        *_uploads(ours, theirs),
        *_checkpoints(ours, theirs),
        *_trainings(ours, theirs, tolerances),
        *_evaluations(ours, theirs, tolerances),
        *_during(source, port),
        *_logs(ours, theirs),
    ]
    if not found:
        return [Check(LEFT, "equal", _counted(ours))]
    detail, cause, place = found[0]
    line, cell = place or (None, None)
    more = f" (and {len(found) - 1} more: {'; '.join(each[0] for each in found[1:])})" if len(found) > 1 else ""
    where = f"{f'cell {cell}, ' if cell else ''}line {line} of the source: " if line else ""
    return [Check(LEFT, "differs", f"{where}{detail}{more}", cause=cause, line=line, cell=cell)]


def not_compared(source: Trace, port: Trace) -> list[str]:
    """What both leave in formats that can't be equal, or only the source can leave at all."""
    ours = _events(source) or []
    empty = all(not event["items"] for event in _of(ours, "checkpoints"))
    lines = [text for kind, text in FORMATS.items() if _of(ours, kind) and not (kind == "checkpoints" and empty)]
    if _of(ours, "log") and not _of(_events(port) or [], "log"):
        lines.append("log lines: the port's are not the runtime's")
    return lines


def cut(trace: Trace, why: str) -> Trace:
    """A trace whose script was ended, or failed, after training: what it leaves behind can't be compared."""
    events = [*(_events(trace) or []), {"kind": "cut", "path": None, "items": [why], "when": "after", "line": None}]
    return replace(trace, config={**trace.config, "events": events})


Difference = tuple[str, str, tuple[int, int | None] | None]  # with the line, and its cell in a notebook


def _saved(ours: Sequence[Event], theirs: Sequence[Event], kind: str) -> Iterable[Difference]:
    """Weights or tokenizers that only one side saves, or elsewhere."""
    wanted = {(event["path"], *event["items"]): event for event in _of(ours, kind)}
    got = {(event["path"], *event["items"]): event for event in _of(theirs, kind)}
    uploaded = {event["path"] for event in _of(ours, "upload")} - {None}  # it lies there, too, though nothing saves it
    extra = [key for key in got if key not in wanted]
    for key, event in wanted.items():
        if key in got:
            continue
        what = event["items"][0] if event["items"] else kind
        moved = next((other for other in extra if other[1:] == key[1:]), None)
        same_place = next((other for other in extra if other[0] == key[0]), None)
        if moved is not None:
            extra.remove(moved)
            yield (
                f"the {what} goes to {key[0]} in the source, to {moved[0]} in the port",
                "another folder",
                _place(event),
            )
        elif same_place is not None:
            extra.remove(same_place)
            detail = f"the source saves the {what} in {key[0]}, the port the {same_place[1]}"
            yield (
                detail,
                "adapters are merged on one side only, or the port trains another kind of model",
                _place(event),
            )
        else:
            cause = "rt.save_model(..., tokenizer=)" if kind == "tokenizer" else "rt.save_model or rt.save_adapter"
            yield f"the source saves the {what} in {key[0]}, the port doesn't", f"no {cause} there", _place(event)
    for key in (key for key in extra if key[0] not in uploaded):
        what = key[1] if len(key) > 1 else kind
        yield f"the port saves the {what} in {key[0]}, the source doesn't", "a save too many", None


def _uploads(ours: Sequence[Event], theirs: Sequence[Event]) -> Iterable[Difference]:
    wanted, got = _repositories(ours), _repositories(theirs)
    for name, event in wanted.items():
        if not any(_same_repository(name, other) for other in got):
            other = f"to {', '.join(got)}" if got else "nothing"
            yield f"the source uploads to {name or 'the Hub'}, the port {other}", "rt.push_to_hub", _place(event)
    for name in got:
        if not any(_same_repository(name, other) for other in wanted):
            yield f"the port uploads to {name or 'the Hub'}, the source doesn't", "an upload too many", None


def _repositories(events: Sequence[Event]) -> dict[str, Event]:
    return {str(event["items"][0] if event["items"] else ""): event for event in _of(events, "upload")}


def _same_repository(a: str, b: str) -> bool:
    """Whether two ids are one repository; the account may be left out."""
    return a == b or not a or not b or (("/" not in a or "/" not in b) and a.rsplit("/")[-1] == b.rsplit("/")[-1])


def _checkpoints(ours: Sequence[Event], theirs: Sequence[Event]) -> Iterable[Difference]:
    """The steps of the whole run at which each side was asked to save, how many it keeps, and where."""
    wanted, got = next(iter(_of(ours, "checkpoints")), None), next(iter(_of(theirs, "checkpoints")), None)
    if wanted is None or not wanted["items"]:
        if got is not None and wanted is not None and (got["items"] or got.get("by")):
            yield f"the source saves no checkpoint, the port {_steps(got['items'])}", "save_strategy", None
        return
    place = _place(wanted)
    if got is None or not (got["items"] or got.get("by")):
        detail = f"the source saves checkpoints at {_steps(wanted['items'])}, the port none"
        yield detail, "TrainingConfig's checkpoint_root_directory", place
        return
    if got.get("by"):
        detail = f"the source saves checkpoints at {_steps(wanted['items'])}, the port by {got['by']}"
        yield detail, "Tunix' default: give checkpointing_options a FixedIntervalPolicy", place
    else:
        last = max(wanted.get("horizon") or 0, *wanted["items"])
        # Tunix always saves the last step, transformers before 4.42 only where it is due.
        if {*wanted["items"]} - {last} != {*got["items"]} - {last} or last in {*wanted["items"]} - {*got["items"]}:
            detail = f"checkpoints at {_steps(wanted['items'])} in the source, at {_steps(got['items'])} in the port"
            yield detail, "save_strategy, save_steps or the run's length", place
    if "by policy" not in (wanted.get("kept"), got.get("kept")) and wanted.get("kept") != got.get("kept"):
        many = [str(each.get("kept") or "all") for each in (wanted, got)]
        yield f"of the checkpoints the source keeps {many[0]}, the port {many[1]}", "save_total_limit", place
    if bool(wanted.get("best")) != bool(got.get("best")):
        side = "source" if wanted.get("best") else "port"
        yield f"only the {side} keeps the best checkpoint", "load_best_model_at_end: rt.KeepBest", place
    if wanted["path"] != got["path"]:
        detail = f"checkpoints go to {wanted['path']} in the source, to {got['path']} in the port"
        yield detail, "output_dir", place


def _trainings(ours: Sequence[Event], theirs: Sequence[Event], tolerances: Tolerances) -> Iterable[Difference]:
    """Trainings behind the first: as many, of as many steps, and with the same mean losses."""
    wanted, got = _of(ours, "training"), _of(theirs, "training")
    if len(wanted) != len(got):
        cause = "rt.start_anew, or a trainer of its own"
        detail = f"the source trains {len(wanted) + 1} times, the port {len(got) + 1} times"
        yield detail, cause, _place(wanted[len(got)]) if len(wanted) > len(got) else None
    for a, b in zip(wanted, got, strict=False):
        (number, steps), (_, others) = a["items"], b["items"]
        one, other = a["loss"], b["loss"]
        if steps != others:
            detail = f"training {number} has {steps} steps in the source, {others} in the port"
            yield detail, "num_train_epochs, max_steps or the rows", _place(a)
        elif not abs(one - other) <= 10 * tolerances.evaluation * max(abs(one), 0.1):
            detail = f"training {number}: mean loss {one:.7f} in the source, {other:.7f} in the port"
            yield detail, "the weights, moments or schedule that it begins with, or its rows", _place(a)


def _evaluations(ours: Sequence[Event], theirs: Sequence[Event], tolerances: Tolerances) -> Iterable[Difference]:
    """`trainer.evaluate()` beside training: as often, and with the same losses."""
    for when in ("before", "after"):
        wanted = [event for event in _of(ours, "evaluation") if event["when"] == when]
        got = [event for event in _of(theirs, "evaluation") if event["when"] == when]
        if len(wanted) > len(got):
            detail = f"the source evaluates {len(wanted)} times {when} training, the port {len(got)} times"
            yield detail, "rt.evaluate", _place(wanted[len(got)])
        for a, b in zip(wanted, got, strict=False):
            one, other = a.get("loss"), b.get("loss")
            if one is None or other is None:
                continue
            if not abs(one - other) <= 10 * tolerances.evaluation * max(abs(one), 0.1):
                detail = f"the evaluation {when} training: loss {one:.7f} in the source, {other:.7f} in the port"
                yield detail, "the evaluation's rows, or the weights that it sees", _place(a)


def _during(source: Trace, port: Trace) -> Iterable[Difference]:
    """Evaluations within training, at the steps that both ran; the first of all is Tunix' own."""
    steps = min(len(source.steps), len(port.steps))
    wanted = {step for step, _ in source.evaluations if 0 < step <= steps}
    got = {step for step, _ in port.evaluations if 0 < step <= steps}
    if wanted and got and wanted != got:
        detail = f"evaluations at {_steps(sorted(wanted))} in the source, at {_steps(sorted(got))} in the port"
        yield detail, "eval_strategy or eval_steps: eval_every_n_steps", None


def _logs(ours: Sequence[Event], theirs: Sequence[Event]) -> Iterable[Difference]:
    wanted, got = next(iter(_of(ours, "log")), None), next(iter(_of(theirs, "log")), None)
    if wanted is not None and got is not None and wanted["items"] and got["items"] and wanted["items"] != got["items"]:
        a, b = (f"every {event['items'][0]:g} steps" for event in (wanted, got))
        yield f"log lines {a} in the source, {b} in the port", "logging_steps: rt.log_every", _place(wanted)


def _counted(events: Sequence[Event]) -> str:
    names = {
        "weights": "saves of weights",
        "tokenizer": "of tokenizers",
        "upload": "uploads",
        "training": "trainings behind the first",
        "evaluation": "evaluations beside training",
    }
    counts = [f"{len(_of(events, kind))} {name}" for kind, name in names.items() if _of(events, kind)]
    saved = next((event["items"] for event in _of(events, "checkpoints") if event["items"]), None)
    counts += [f"checkpoints at {_steps(saved)}"] if saved else []
    return ", ".join(counts) or "nothing on either side"


def _steps(steps: Sequence[int]) -> str:
    if not steps:
        return "no step"
    shown = ", ".join(str(step) for step in steps[:SHOWN])
    return f"step{'s' if len(steps) > 1 else ''} {shown}" + (f" ... {steps[-1]}" if len(steps) > SHOWN else "")


def _events(trace: Trace) -> list[Event] | None:
    found = trace.config.get("events")
    return None if found is None else list(found)


def _of(events: Sequence[Event], kind: str) -> list[Event]:
    return [event for event in events if event["kind"] == kind]


def _place(event: Event) -> tuple[int, int | None] | None:
    line = event.get("line")
    return (line, event.get("cell")) if isinstance(line, int) else None
