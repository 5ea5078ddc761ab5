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


def test_a_seed_of_torchs_gives_the_same_again_whatever_numpy_draws() -> None:
    draws = _Draws()
    draws.start(42)
    first = [draws.next(), draws.next()]
    assert first[0] != first[1]
    np.random.rand()
    draws.start(42)
    np.random.rand()
    assert [draws.next(), draws.next()] == first
    draws.start(-1)  # which torch takes, too
    assert draws.next() != first[0]
