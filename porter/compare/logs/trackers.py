"""What trackers keep of a run: TensorBoard's events, W&B's offline file, MLflow's file store."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import is_file, read_file
from .framed import Cut, leveldb_records, tensorflow_records
from .log import FLOAT32, LARGEST, VALUES, Found, Value, value, whole_lines
from .settings_beside import PARAMS, numbers

EVENTS = "events.out.tfevents."
WANDB = b":W&B"
LONGEST_PARAMETER = 1_000_000  # bytes
CUT = "ends in the middle of a record: the run was killed, or the copy isn't whole"


def read_events(files: Iterable[Path]) -> Found:
    """Scalars of TensorBoard's event files of one run. InputError without a package that knows the messages."""
    message = _message(("tensorboardX.proto.event_pb2", "tensorboard.compat.proto.event_pb2"), "Event", "tensorboard")
    by_step: dict[int, dict[str, Any]] = {}
    rows: list[dict[str, Any]] = []
    settings: dict[str, float] = {}
    notes = []
    for path in files:
        try:
            for record in tensorflow_records(read_file(path, LARGEST)):
                event = message.FromString(record)
                for each in event.summary.value:
                    if each.tag.startswith("args"):
                        settings |= _json_numbers(b"".join(each.tensor.string_val))
                    name = _name(each.tag)
                    scalar = _scalar(each) if name else None
                    if scalar is None:
                        continue
                    known = by_step.get(event.step)
                    if known is None or name in known:
                        by_step[event.step] = known = {"step": int(event.step)}
                        rows.append(known)
                    known[name] = Value(scalar, abs(scalar) * FLOAT32)
        except Cut:
            notes.append(f"{path.name} {CUT}")
        except (OSError, InputError):
            raise
        except Exception as error:
            raise InputError(f"is no file of TensorBoard's events ({type(error).__name__})", path) from error
    return Found("TensorBoard's events", tuple(rows), settings, tuple(notes))


def read_wandb(path: Path, data: bytes) -> Found:
    """The history of W&B's offline file, run-ID.wandb."""
    message = _message(("wandb.proto.wandb_internal_pb2",), "Record", "wandb")
    rows: list[dict[str, Any]] = []
    config: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    try:
        for part in leveldb_records(data, 7):
            record = message.FromString(part)
            kind = record.WhichOneof("record_type")
            if kind == "history":
                items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                step = items.get("train/global_step", items.get("_step"))
                given = {_name(key): _json_value(text) for key, text in items.items() if _name(key)}
                row = {name: value for name, value in given.items() if value is not None}
                rows.append({**row, "step": None if step is None else int(float(step))})
            elif kind in ("run", "config"):
                updates = record.run.config.update if kind == "run" else record.config.update
                config |= {item.key: _plain(item.value_json) for item in updates}
    except Cut:
        notes = (f"{path.name} {CUT}",)
    except Exception as error:
        raise InputError(f"is no W&B file ({type(error).__name__})", path) from error
    return Found("W&B's offline file", tuple(row for row in rows if "loss" in row), numbers(config), notes)


def read_mlflow(folder: Path) -> Found:
    """A run of MLflow's file store: metrics/NAME has lines of time, value and step, params/NAME a value.

    The lines stand as they were logged: those of a run that was restarted go back to an earlier step.
    """
    by_step: dict[tuple[int, int], dict[str, Any]] = {}
    notes = []
    for name in VALUES:
        places = (folder / "metrics" / name, folder / "metrics/train" / name)
        file = next((path for path in places if path.is_file()), None)
        times: dict[int, int] = {}
        text, cut = whole_lines(read_file(file, LARGEST).decode("utf-8", "replace") if file else "")
        if cut:
            notes.append(f"{name}: {cut}")
        for line in text.splitlines():
            parts = line.split()
            try:
                given, step = float(parts[1]), int(parts[2])
            except (IndexError, ValueError):
                continue
            times[step] = times.get(step, -1) + 1
            by_step.setdefault((times[step], step), {"step": step})[name] = Value(given)
    params = folder / "params"
    texts = {name: text for name in PARAMS if is_file(params / name) and (text := _parameter(params / name))}
    rows = tuple(row for row in by_step.values() if "loss" in row)
    return Found("MLflow's files", rows, numbers(texts), tuple(notes))


def _parameter(file: Path) -> str:
    try:
        return read_file(file, LONGEST_PARAMETER).decode("utf-8", "replace")[:100]
    except InputError:
        return ""


def _name(tag: str) -> str:
    """`loss` of train/loss; nothing for what is not of training."""
    parts = tag.strip("/").split("/")
    if "eval" in parts[:-1]:
        return ""
    return parts[-1] if parts[-1] in VALUES and (len(parts) == 1 or "train" in parts[:-1]) else ""


def _scalar(each: Any) -> float | None:
    kind = each.WhichOneof("value")
    if kind == "simple_value":
        return float(each.simple_value)
    if kind != "tensor":
        return None
    for values in (each.tensor.float_val, each.tensor.double_val):
        if len(values) == 1:
            return float(values[0])
    content = each.tensor.tensor_content
    return float(struct.unpack("<f", content)[0]) if len(content) == 4 else None


def _json_value(text: str) -> Value | None:
    given = _plain(text)
    if given in ("NaN", "Infinity"):
        return Value(math.nan)
    return value(given)


def _plain(text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found["value"] if isinstance(found, dict) and "value" in found else found


def _json_numbers(text: bytes) -> dict[str, float]:
    try:
        found = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return numbers(found) if isinstance(found, Mapping) else {}


def _message(modules: tuple[str, ...], name: str, package: str) -> Any:
    """The protobuf class, of the first package that is installed."""
    for module in modules:
        try:
            return getattr(import_module(module), name)
        except ImportError:
            continue
    raise InputError(f"the package {package} is needed to read this log", fix=f"pip install {package}, or export a CSV")
