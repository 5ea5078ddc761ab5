"""What is made of a compile's figures. No compiler."""

from __future__ import annotations

import pytest

from porter.tpu.results import step_of
from porter.tpu.slices import slice_named, xla_seconds
from tests.tpu.test_plan import gemma4

V5P = slice_named("v5p-8")


@pytest.mark.parametrize("unknown", [0, 1, 2])
def test_instructions_of_unknown_time_are_taken_out(unknown: int) -> None:
    """As libtpu 0.0.42 counted one layer of Gemma 4 31B, 1 x 3072 tokens on v5p: 0.0194 - 2 seconds."""
    flops, moved = 5942498295808.0, 15732668416.0
    found = gemma4(flops=flops, bytes=moved, seconds=0.0194 - unknown).to_dict()
    step = step_of(found, V5P, cached=False)
    assert step.seconds == pytest.approx(0.0194)
    assert step.seconds == pytest.approx(xla_seconds(flops, moved, V5P), rel=0.01)


def test_a_step_that_was_not_compiled_has_no_time() -> None:
    assert step_of(gemma4().to_dict(), V5P, cached=True).seconds == 0.0
