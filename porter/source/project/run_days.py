"""The day on which a notebook's cells last ran, as it was saved: what was released later they can't have run on.

A notebook is often committed long after its run. Its cells' metadata has the time of each run (Colab's, Kaggle's,
JupyterLab's); its outputs name folders, files and lines of a log by it: `run-20240412_112258-qggzi6fn`.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import plain_text
from .printed import tables_of, texts_of

LARGEST = 30_000_000  # bytes of a notebook: outputs hold images
LATEST = 10**13  # milliseconds: what is noted beyond is no time of a run
FIRST = datetime.date(2019, 1, 1)
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
DAY, CLOCK = r"(20\d\d)-([01]\d)-([0-3]\d)", r"[ T][0-2]\d:[0-5]\d:[0-5]\d"
# A tracker's folder of a run; a log's line, be it C++'s or Python's; a download's; what the script says of its time.
DAYS = re.compile(
    rf"\brun-(20\d\d)([01]\d)([0-3]\d)_\d{{6}}-\w{{6,}}"
    rf"|(?m:^){DAY}{CLOCK}\.\d{{6}}: [IWEF] "
    rf"|(?m:^)\[?(?:\w+\|[\w.]+:\d+\] )?{DAY}{CLOCK},\d{{3}}\b"
    rf"|(?m:^)--{DAY}{CLOCK}--  "
    rf"|(?i:\b(?:start(?:ed)?|end(?:ed)?|finish(?:ed)?|current)(?:[ _](?:time|date|at))+ ?[:=]? ?){DAY}{CLOCK}"
)
IN_WORDS = re.compile(
    rf"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ({'|'.join(MONTHS)}) +(\d+) [0-2]\d:[0-5]\d:[0-5]\d (20\d\d)\b"
)
SECONDS = re.compile(r"events\.out\.\w+\.(1\d{9})\.|(?m:^)[IWEF]\d{4} \d\d:\d\d:(1\d{9})\.\d+ ")


@lru_cache(maxsize=64)
def last_run(script: Path) -> datetime.date | None:
    """None of what is no notebook, or tells no day."""
    if script.suffix != ".ipynb":
        return None
    try:
        notebook = json.loads(plain_text(script, LARGEST))
        cells = [cell for cell in notebook["cells"] if cell.get("cell_type") == "code"]
        own = [day for cell in cells for day in (*_of_outputs(cell), *_of_metadata(cell["metadata"]))]
        noted = [day for cell in cells for day in _noted(cell["metadata"])]
        # Jupyter keeps what Colab has noted of a run, and names its Python where Colab doesn't.
        if not own and "version" in notebook["metadata"].get("language_info", {}):
            return None
    except (OSError, InputError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    today = datetime.datetime.now(datetime.UTC).date()
    return max((day for day in (*own, *noted) if FIRST <= day <= today), default=None)


def _noted(metadata: Mapping[str, Any]) -> Iterator[datetime.date]:
    """`"executionInfo": {"timestamp": 1712920978000}`."""
    told = metadata.get("executionInfo", {}).get("timestamp")
    if isinstance(told, int) and 0 < told < LATEST:
        yield _of_seconds(told // 1000)


def _of_metadata(metadata: Mapping[str, Any]) -> Iterator[datetime.date]:
    """`"execution": {"iopub.status.idle": "2024-04-12T11:22:58.123Z"}`."""
    for told in metadata.get("execution", {}).values():
        if isinstance(told, str) and re.match(rf"{DAY}T", told):
            yield datetime.date.fromisoformat(told[:10])


def _of_outputs(cell: Mapping[str, Any]) -> Iterator[datetime.date]:
    for text in (*texts_of(cell.get("outputs")), *tables_of(cell.get("outputs"))):
        yield from days_in(text)


def days_in(text: str) -> Iterator[datetime.date]:
    """The days that lines of a run's output name as those of the run."""
    named = [tuple(filter(None, found)) for found in DAYS.findall(text)]
    named += [(year, str(MONTHS.index(month) + 1), day) for month, day, year in IN_WORDS.findall(text)]
    for year, month, day in named:
        try:
            yield datetime.date(int(year), int(month), int(day))
        except ValueError:
            continue
    for found in SECONDS.findall(text):
        yield _of_seconds(int("".join(found)))


def _of_seconds(seconds: int) -> datetime.date:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).date()
