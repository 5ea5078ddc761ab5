"""What a schedule refuses before it is made."""

from __future__ import annotations

import pytest

from porter.runtime.training.schedules import hf_schedule


def test_a_rate_that_yaml_reads_as_text_is_said() -> None:
    with pytest.raises(TypeError, match="reads a number of the form 2e-4 as text"):
        hf_schedule("cosine", "2e-4", warmup_steps=0, steps=10)  # type: ignore[arg-type]
