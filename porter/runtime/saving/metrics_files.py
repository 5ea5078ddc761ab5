"""`Trainer.log_metrics` and `Trainer.save_metrics`: the figures of a run as a table, and as JSON files."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from typing import Any

import jax
from etils import epath  # type: ignore[import-untyped]


def log_metrics(split: str, metrics: Mapping[str, Any]) -> None:
    """Print the table that transformers' Trainer prints, on the first process: a line for each metric, by name."""
    if jax.process_index() != 0:
        return
    shown = {name: _shown(name, value) for name, value in metrics.items()}
    names, values = (max(map(len, map(str, each)), default=0) for each in (shown, shown.values()))
    print(f"***** {split} metrics *****")
    for name in sorted(shown):
        print(f"  {name: <{names}} = {shown[name]:>{values}}")


def save_metrics(
    output_dir: str | os.PathLike[str], split: str, metrics: Mapping[str, Any], combined: bool = True
) -> None:
    """Write `{split}_results.json` into the folder, and what it has anew into `all_results.json` where `combined`.

    As transformers' Trainer does it: the first process writes the numbers unrounded, sorted by name.
    """
    if jax.process_index() != 0:
        return
    folder = epath.Path(os.path.expanduser(os.fspath(output_dir)))
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"{split}_results.json", metrics)
    if combined:
        whole = folder / "all_results.json"
        before = json.loads(whole.read_text()) if whole.exists() else {}
        _write(whole, {**before, **metrics})


def _write(file: Any, metrics: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(dict(metrics), indent=4, sort_keys=True))


def _shown(name: str, value: Any) -> Any:
    """transformers' `metrics_format`: seconds as h:mm:ss.ss, floats with four digits."""
    if "_runtime" in name:
        return f"{datetime.timedelta(seconds=int(value))}.{int((value - int(value)) * 100):02d}"
    return round(value, 4) if isinstance(value, float) else value
