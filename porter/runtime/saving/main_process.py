"""What only the first process does."""

from __future__ import annotations

from typing import Any

import jax


def main_print(*values: Any, **settings: Any) -> None:
    """print on the first process, as accelerate's `Accelerator.print`."""
    if jax.process_index() == 0:
        print(*values, **settings)
