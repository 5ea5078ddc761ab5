"""The seeds of sampled completions: another for each call, and what a script draws from NumPy stays as on the GPU."""

from __future__ import annotations

import numpy as np

from porter.runtime.generation.completions import _Draws


def test_calls_differ_and_numpys_generator_is_left_alone() -> None:
    np.random.seed(7)
    expected = np.random.RandomState(7).randint(1000, size=5).tolist()
    draws = _Draws()
    first = [draws.next() for _ in range(3)]
    assert len(set(first)) == 3
    assert np.random.randint(1000, size=5).tolist() == expected
    np.random.seed(7)
    assert _Draws().next() == first[0]  # in another process
    np.random.seed(8)
    assert draws.next() != first[0]
