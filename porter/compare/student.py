"""Student's t: how far a value may lie out, given a spread that was measured on few others."""

from __future__ import annotations

import math


def two_sided(probability: float, freedom: float) -> float:
    """The t that a value of `freedom` degrees of freedom is beyond with this probability, either way."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle, freedom) > probability else (low, middle)
    return high


def beyond(t: float, freedom: float) -> float:
    """P(|T| > t)."""
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Numerical Recipes, 6.4)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    found = d
    for m in range(1, 300):
        for up in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + up * d or tiny)
            c = 1 + up / c or tiny
            found *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return found
