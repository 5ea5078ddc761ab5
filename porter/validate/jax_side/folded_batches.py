"""Batches of a port whose source ran folded: N processes as one, with their rows together."""

from __future__ import annotations

import functools
import inspect
from typing import Any

TOKENS = "average_tokens_across_devices"


def fold_batches(batches: Any, fold: int, seen: dict[str, Any]) -> None:
    """The runtime's batches tell in `seen` for which processes they were made, and are made for one where `fold` > 1,
    and without NEFTune's noise.

    What several processes do apart (fill up a short last batch, average each over its own rows) the folded source
    can't show: the port would differ from it although it is right.
    """
    original = batches.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if not seen:
            seen["processes"] = int(kwargs.get("processes", 1))
            seen["average_tokens"] = bool(kwargs.get(TOKENS, True))
        if fold > 1:
            kwargs["processes"] = 1
            if {TOKENS} & {*kwargs, *inspect.signature(original).parameters}:
                kwargs[TOKENS] = True
        noisy = kwargs.pop("neftune_noise_alpha", None)  # two libraries never draw the same noise
        original(self, *args, **kwargs)
        if noisy:
            self.neftune_noise_alpha = 0.0

    batches.__init__ = init
