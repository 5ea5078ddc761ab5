"""How adapters are drawn, compared by the spread of their values: two libraries never draw the same numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

# Kaiming's and he_uniform's A differ by 2.45. Two draws of one distribution stay within 0.15 where there are many
# elements; the standard error of a deviation is at most 0.71 / sqrt(n), of two draws' ratio 1 / sqrt(n).
SPREAD = 0.15
STANDARD_ERRORS = 4

Starts = Mapping[str, Sequence[float]]


def starts_of(tensors: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """(elements, standard deviation) of all A and of all B of one shape together: `{"A [8, 64]": [2048, 0.07]}`."""
    alike: dict[str, list[np.ndarray]] = {}
    for name, array in sorted(tensors.items()):
        for kind in "AB":
            if f".lora_{kind}." in name:
                alike.setdefault(f"{kind} {json.dumps(list(array.shape))}", []).append(np.ravel(array))
    return {kind: [sum(part.size for part in parts), _spread(parts)] for kind, parts in alike.items()}


def unlike(source: Starts, port: Starts) -> str:
    """What the port draws otherwise, of the shapes that both have; empty when nothing."""
    for kind in sorted(set(source) & set(port)):
        (count, wanted), (_, got) = source[kind], port[kind]
        allowed = max(SPREAD, STANDARD_ERRORS / math.sqrt(count))
        if (wanted == 0) != (got == 0) or not abs(got - wanted) <= allowed * wanted:
            ratio = f", {got / wanted:.2f} times as much" if wanted and got else ""
            return f"initial {kind[0]} of shape {kind[2:]}: deviation {wanted:.4g} in the source, {got:.4g}{ratio}"
    return ""


def _spread(parts: Sequence[np.ndarray]) -> float:
    return float(np.std(np.concatenate(parts), dtype=np.float64))
