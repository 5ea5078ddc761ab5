"""What a script draws without a seed is drawn alike in both processes: `dataset.shuffle()`, `random.shuffle(rows)`.

Else the two sides would train on other rows, or on the same in another order, and be said to differ.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

SEED = 42
NOTE = "what the script shuffles without a seed was shuffled alike on both sides"


def draw_alike(note: Callable[[str], None]) -> None:
    """Seed what this process draws from, and shuffles and splits of datasets that have no seed; `note` hears these."""
    from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict

    random.seed(SEED)
    np.random.seed(SEED)
    for cls in (Dataset, DatasetDict, IterableDataset, IterableDatasetDict):
        for name in ("shuffle", "train_test_split"):
            if name in vars(cls):
                setattr(cls, name, _seeded(getattr(cls, name), name, note))


def _seeded(original: Callable[..., Any], name: str, note: Callable[[str], None]) -> Callable[..., Any]:
    by_place = 0 if name == "shuffle" else 4  # words before the seed

    @functools.wraps(original)
    def seeded(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = any(kwargs.get(word) is not None for word in ("seed", "seeds", "generator", "generators"))
        if not given and len(args) <= by_place and kwargs.get("shuffle", True):
            note(NOTE)
            kwargs["seed"] = SEED
        return original(self, *args, **kwargs)

    return seeded
