"""A step's rows packed into few micro-batches train as one by one: against TRL, through `validate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from porter.validate import compare as checks
from porter.validate.tolerances import FLOAT32

pytestmark = pytest.mark.real

BATCHES = "    max_length=128,\n"
SHAPES = "    step_packing=[(4, 128), (8, 128), (4, 256)],\n"


def test_packed_steps_are_trls(recorded: Callable[..., Any]) -> None:
    """Gemma 4 with local, global and K=V layers: windows, positions and masks of rows that share one."""
    source = recorded("sft_lora_gemma4", steps=3, mesh=(4, 2), processes=2)
    text = source.port.read_text(encoding="utf-8")
    assert text.count(BATCHES) == 1
    port = source.run(text.replace(BATCHES, BATCHES + SHAPES), steps=3)
    found = checks.compare(source.trace, port, FLOAT32)
    assert [check for check in found if check.status == "differs"] == []
    assert all(sum(step.micro) == 16 for step in port.steps)
    assert max(len(step.micro) for step in port.steps) < 4  # GPU micro-steps of four rows
