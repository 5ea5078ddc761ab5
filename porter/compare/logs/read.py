"""Reads a log of any kind: what the path holds decides, not how it is called."""

from __future__ import annotations

from pathlib import Path

from ...errors import InputError
from ...files import read_file
from .log import LARGEST, Found, Log
from .order import in_order, needs_steps, steps_per_epoch
from .printed import read_printed
from .state_file import read_state
from .tables import is_table, read_csv
from .trackers import EVENTS, WANDB, read_events, read_mlflow, read_wandb

STATE = "trainer_state.json"
KINDS = "trainer_state.json, TensorBoard's events, W&B's .wandb or CSV, MLflow's run folder, or what the run printed"
# Bytes that no text has; escapes, tabs and carriage returns are in what terminals are sent.
BINARY = bytes(set(range(32)) - set(b"\t\n\r\x0b\x0c\x08\x1b\x07\x00"))


def read_logs(gpu: Path, tpu: Path) -> tuple[Log, Log]:
    """Both logs. A log whose lines have no steps gets them from the other one's steps an epoch."""
    found = [read(gpu), read(tpu)]
    paths = (gpu, tpu)
    known = [None if needs_steps(each) else in_order(path, each) for path, each in zip(paths, found, strict=True)]
    per_epoch = next((steps_per_epoch(log) for log in known if log is not None), None)
    first, second = (
        log or in_order(path, each, steps_per_epoch=per_epoch)
        for path, each, log in zip(paths, found, known, strict=True)
    )
    return first, second


def read_like(path: Path, like: Log) -> Log:
    """A further log of the same run's recipe."""
    return in_order(path, read(path), steps_per_epoch=steps_per_epoch(like))


def read(path: Path) -> Found:
    """What the file or folder holds. InputError for what is no log."""
    try:
        if path.is_dir():
            return _folder(path)
        if not path.exists():
            raise InputError("no such file or folder", path)
        return _file(path)
    except OSError as error:
        raise InputError(f"can't be read ({error.strerror or error})", path) from error


def _file(path: Path) -> Found:
    data = read_file(path, LARGEST)
    if not data.strip():
        raise InputError("is empty", path)
    if EVENTS in path.name:
        return read_events([path])
    if data[:4] == WANDB:
        return read_wandb(path, data)
    if b"\x00" in data[:100_000] or sum(data[:4000].count(bytes([byte])) for byte in BINARY) > 40:
        raise InputError("is no log: it holds binary data", path, fix=f"name {KINDS}")
    text = data.decode("utf-8-sig", errors="replace")
    if text.lstrip()[:1] == "{" and ('"log_history"' in text or path.suffix == ".json"):
        return read_state(path, text)
    if path.suffix == ".csv" or is_table(text):
        return read_csv(path, text)
    found = read_printed(text)
    if not found.rows:
        raise InputError("holds no line of training that is known", path, fix=f"name {KINDS}")
    return found


def _folder(path: Path) -> Found:
    """A run's output folder, a folder of events, or one of MLflow's."""
    if (path / STATE).is_file():
        return _file(path / STATE)
    checkpoints = sorted(path.glob(f"checkpoint-*/{STATE}"), key=lambda file: _number(file.parent.name))
    if checkpoints:
        return _file(checkpoints[-1])
    events: dict[Path, list[Path]] = {}
    for file in sorted(path.rglob(f"*{EVENTS}*")):
        events.setdefault(file.parent, []).append(file)
    if len(events) > 1:
        raise InputError(f"holds {len(events)} runs", path, fix=f"name one, such as {sorted(events)[-1]}")
    if events:
        return read_events(next(iter(events.values())))
    if (path / "metrics").is_dir():
        return read_mlflow(path)
    runs = [file.parent for file in sorted(path.glob("*/*/metrics"))] + [
        file.parent for file in sorted(path.glob("*/metrics"))
    ]
    if len(runs) == 1:
        return read_mlflow(runs[0])
    if runs:
        raise InputError(f"holds {len(runs)} runs of MLflow", path, fix=f"name one, such as {runs[-1]}")
    offline = sorted(path.rglob("*.wandb"))
    if len(offline) > 1:
        raise InputError(f"holds {len(offline)} runs of W&B", path, fix=f"name one, such as {offline[-1]}")
    if offline:
        return read_wandb(offline[0], read_file(offline[0], LARGEST))
    raise InputError("holds no log that is known", path, fix=f"name {KINDS}")


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else -1
