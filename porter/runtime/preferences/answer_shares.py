"""What a token of an answer counts in what a TRL trainer logs of answers: entropy, accuracy and mean logits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..facts.releases.lines import Lines

SHARES = {"entropy": "entropy", "answers": "logits"}  # by what `Lines` have them for


def answer_shares(
    lines: Lines, dealt: Sequence[Sequence[int]], tokens: np.ndarray, kinds: np.ndarray
) -> dict[str, np.ndarray]:
    """By name as `Inputs.for_metrics` has them, (rows, documents), so that sums over a step are means of its
    micro-steps'.

    `entropy` is over all answers of a micro-step, `answers` over those of a kind; of each process's own where the
    release averages these. `dealt`: the rows that each process has of each micro-step. `tokens` of each
    document's answer; `kinds`: 0 for chosen ones, 1 for rejected, -1 for one that isn't counted.
    """
    found = {name: np.zeros(tokens.shape) for name, metric in SHARES.items() if getattr(lines, metric)}
    start = 0
    for of_processes in dealt:
        ends = start + np.cumsum([0, *of_processes])
        for name, share in found.items():
            bounds = ends if SHARES[name] in lines.of_processes else ends[[0, -1]]
            for first, end in itertools.pairwise(bounds):
                part = slice(first, end)
                of = kinds[part] if name == "answers" else np.minimum(kinds[part], 0)
                for kind in np.unique(of[of >= 0]):
                    total = max(tokens[part][of == kind].sum(), 1)
                    share[part][of == kind] = 1 / (total * (len(bounds) - 1) * len(dealt))
        start = ends[-1]
    return found
