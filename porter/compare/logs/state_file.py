"""`trainer_state.json`: transformers' own, of `save_state` or a checkpoint, and the record that a port keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...errors import InputError
from .log import RECORD, Found, row
from .settings_beside import numbers, settings_beside

OURS = "tpu_port"


def read_state(path: Path, text: str) -> Found:
    """InputError for text that is no state file, or only the beginning of one."""
    try:
        state = json.loads(text)
    except (ValueError, RecursionError) as error:
        cut = isinstance(error, json.JSONDecodeError) and not text.rstrip().endswith("}")
        what = "ends in the middle: the file was cut off" if cut else f"is no JSON ({_short(error)})"
        raise InputError(what, path, fix="name a whole trainer_state.json, or what the run printed") from error
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        raise InputError("has no log_history", path, fix="name the trainer_state.json of a run")
    rows = [row(line, _step(line.get("step"))) for line in history if isinstance(line, dict) and "loss" in line]
    ours = _of(_of(_of(state, "stateful_callbacks"), OURS), "attributes")
    steps = state.get("max_steps")
    return Found(
        RECORD if ours else "trainer_state.json",
        tuple(rows),
        numbers(_of(ours, "settings")) if ours else settings_beside(path),
        max_steps=steps if isinstance(steps, int) and steps > 0 else None,
    )


def _step(given: Any) -> int | None:
    if isinstance(given, float) and given.is_integer():
        return int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _of(whole: Any, name: str) -> dict[str, Any]:
    found = whole.get(name) if isinstance(whole, dict) else None
    return found if isinstance(found, dict) else {}


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:100] if str(error) else type(error).__name__
