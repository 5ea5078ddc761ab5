"""The envelope's own runs: what sets them apart is what is said to, on the script as it is."""

from __future__ import annotations

import pytest

from porter.compare.logs.log import Log
from porter.compare.stand_in import stand_in_runs

from .outside import SCRIPTS

pytestmark = pytest.mark.real

SCRIPT = SCRIPTS / "sft_lora_qwen3.py"
STEPS = 8


def apart(one: Log, other: Log) -> list[float]:
    return [abs(b.loss.number - a.loss.number) / a.loss.number for a, b in zip(one.lines, other.lines, strict=True)]


def test_runs_of_one_chance_differ_by_rounding_and_others_by_more() -> None:
    said: list[str] = []
    runs = stand_in_runs(SCRIPT, runs=3, launch_config=None, timeout=3000, say=said.append)(STEPS)
    bf16, single, other = runs
    assert [run.chance for run in runs] == [1, 1, 2] and all(len(run.lines) == STEPS for run in runs)
    rounding, chance = apart(bf16, single), apart(bf16, other)
    assert 0 < rounding[0] < 2e-3, "bf16 against float32, before the weights have moved"
    assert chance[0] < 1e-6, "the same base, rows and mask; adapters start at B = 0"
    assert chance[-1] > 2 * rounding[-1], "adapters that start elsewhere, and other masks"
    assert any("run 1 of 3, bf16" in line for line in said)
