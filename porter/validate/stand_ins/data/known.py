"""The table of often used Hub datasets: what columns and splits each has."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from .shapes import Kind

TABLE = Path(__file__).with_name("known_datasets.toml")


def known_dataset(name: str) -> tuple[dict[str, Kind], tuple[str, ...]] | None:
    """Columns and splits of Hub dataset `name`, in any capitals; None for one that the table hasn't."""
    row = _table().get(name.lower())
    if row is None:
        return None
    return dict(row["columns"]), tuple(row.get("splits", ("train",)))


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    try:
        import tomllib
    except ImportError:  # Python 3.10, which an old release's environment may have; every pip brings tomli
        from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["dataset"]
    return {name.lower(): row for row in rows for name in row["names"]}
