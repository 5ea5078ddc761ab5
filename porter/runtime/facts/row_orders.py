"""How the releases of transformers and accelerate drew the random order of an epoch's rows.

Made by running each accelerate's `prepare_data_loader` on one and two processes; the names are `batches.order`'s.
"""

from __future__ import annotations

from .field_tables import version_key

ASKS_FOR_SEEDS = (4, 38, 0)  # transformers' first release whose Trainer asks accelerate for a seeded order


def shuffling_of(transformers: str, accelerate: str, processes: int = 1) -> str:
    """The `shuffling` of a Trainer run in so many processes: `seeded` as today, `drawn`, `summed`, `zero` or `shared`.

    accelerate 0.25 always seeded; its sum of seeds lasted to 0.26, and until 0.29 nothing seeded several processes.
    """
    release = version_key(accelerate)
    if version_key(transformers) >= ASKS_FOR_SEEDS:
        if release < (0, 27, 0):
            return "summed"
        return "drawn" if processes > 1 and release < (0, 29, 0) else "seeded"
    if (0, 25, 0) <= release < (0, 26, 0):
        return "summed"
    if processes == 1 or (0, 26, 0) <= release < (0, 30, 0):
        return "drawn"
    return "zero" if (0, 24, 0) <= release < (0, 25, 0) else "shared"
