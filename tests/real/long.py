"""Which of many whole trainings `make test` has time for; `make long` runs the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

long = pytest.mark.long


def mostly_long(values: Iterable[Any], *, short: Iterable[Any]) -> list[Any]:
    """Parameters of which only `short` run in `make test`."""
    kept = list(short)
    return [value if value in kept else pytest.param(value, marks=long) for value in values]
