"""What helpers of the runtime read of an arguments object."""
from __future__ import annotations
CONSUMED: dict[str, frozenset[str]] = {}
