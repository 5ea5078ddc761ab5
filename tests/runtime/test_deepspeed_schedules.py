"""DeepSpeed's schedules at every step, against what DeepSpeed itself gave (tests/fixtures)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from porter.runtime.training.schedules import hf_schedule

MADE = json.loads(Path(__file__).parents[1].joinpath("fixtures", "deepspeed_schedules.json").read_text())


@pytest.mark.parametrize("case", MADE["cases"], ids=lambda case: f"{case['name']}-{case['warmup']}-{case['kwargs']}")
def test_every_rate_is_deepspeeds(case: dict[str, Any]) -> None:
    schedule = hf_schedule(
        case["name"], MADE["peak"], warmup_steps=case["warmup"], steps=MADE["steps"], kwargs=case["kwargs"]
    )
    got = [float(schedule(count)) for count in range(MADE["steps"] + 1)]
    assert got == pytest.approx(case["rates"], rel=1e-6, abs=1e-12)
