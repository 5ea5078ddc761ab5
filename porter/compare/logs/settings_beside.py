"""What lies beside a GPU log and says what the run was asked for: `training_args.bin` and `adapter_config.json`.

`training_args.bin` is a pickle. It is read without running anything: whatever class it names becomes an empty one.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SETTINGS = (
    "max_grad_norm", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "r", "lora_alpha",
)  # fmt: skip
LARGEST = 2_000_000  # bytes


def settings_beside(path: Path) -> dict[str, float]:
    """`SETTINGS` as far as the log's folder, its checkpoints or its saved adapter tell them."""
    folder = path.parent
    places = [folder, *sorted(folder.glob("checkpoint-*"), key=lambda p: p.stat().st_mtime, reverse=True)[:1]]
    found: dict[str, float] = {}
    for place in places:
        for name, read in (("training_args.bin", _arguments), ("adapter_config.json", _adapter)):
            file = place / name
            if file.is_file() and file.stat().st_size <= LARGEST:
                found = {**read(file), **found}
    return found


def numbers(given: Mapping[str, Any]) -> dict[str, float]:
    """`SETTINGS` among values that may be numbers, or numbers as text (MLflow's)."""
    found = {}
    for name in SETTINGS:
        try:
            found[name] = float(given[name])
        except (KeyError, TypeError, ValueError):
            continue
    return found


def _adapter(path: Path) -> dict[str, float]:
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return numbers(given) if isinstance(given, dict) else {}


def _arguments(path: Path) -> dict[str, float]:
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
            if archive.getinfo(name).file_size > LARGEST:
                return {}
            made = _Reader(io.BytesIO(archive.read(name))).load()
    except Exception:  # whatever a broken or hostile file does to a reader
        return {}
    return numbers(getattr(made, "state", {}) or {})


class _Empty:
    """Stands for an object of any class; keeps the state that it was given."""

    state: Mapping[str, Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self.state = state if isinstance(state, dict) else None


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _Empty

    def persistent_load(self, pid: Any) -> Any:
        return None
