"""More rows drawn than made-up data have are all that they have: `table.sample(n=6000)`, `random.sample(rows, 6000)`.

The number is the real data's, which has more.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

from .plan import users_frame

OURS = ("pandas",)
NOTE = "{asked} rows were to be drawn of {there} made-up ones: all of them were, in the order that was drawn"


def patch_draws(is_made_up: Callable[[], bool], note: Callable[[str], None]) -> None:
    """pandas' and Python's draws without putting back, in this process, while there is made-up data."""
    import pandas  # type: ignore[import-untyped]

    def fitting(asked: Any, there: int) -> Any:
        if not isinstance(asked, int) or asked <= there or not there or not is_made_up() or users_frame(OURS) is None:
            return asked
        note(NOTE.format(asked=asked, there=there))
        return there

    table, some = pandas.DataFrame.sample, random.sample

    @functools.wraps(table)
    def sample(self: Any, n: Any = None, *args: Any, **kwargs: Any) -> Any:
        again = kwargs.get("replace") or (len(args) > 1 and args[1])
        return table(self, n if again else fitting(n, len(self)), *args, **kwargs)

    @functools.wraps(some)
    def drawn(population: Any, k: int, **kwargs: Any) -> Any:
        return some(population, fitting(k, len(population)) if not kwargs else k, **kwargs)

    pandas.DataFrame.sample, random.sample = sample, drawn
