"""What a schedule refuses before it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.runtime.arguments import trl_arguments
from porter.runtime.training.schedules import hf_schedule, hf_warmup_steps


def test_a_rate_that_yaml_reads_as_text_is_said() -> None:
    with pytest.raises(TypeError, match="reads a number of the form 2e-4 as text"):
        hf_schedule("cosine", "2e-4", warmup_steps=0, steps=10)  # type: ignore[arg-type]


def test_a_ratio_of_one_is_all_steps_before_transformers_5() -> None:
    """As a count of steps it is one; TrainingArguments of transformers 4 refuse what is no share."""
    whole = hf_schedule("cosine", 1.0, warmup_ratio=1, steps=10)
    assert [float(whole(count)) for count in (0, 1, 5, 10)] == pytest.approx([0.0, 0.1, 0.5, 1.0])
    assert float(hf_schedule("cosine", 1.0, warmup_steps=1, steps=10)(1)) == 1.0
    with pytest.raises(ValueError, match=r"warmup_ratio must lie in range \[0,1\]"):
        hf_schedule("cosine", 1.0, warmup_ratio=10, steps=100)


@pytest.mark.parametrize(("transformers", "steps"), [("4.49.0", 260), ("5.12.1", 1)])
def test_arguments_with_a_ratio_of_one(tmp_path: Path, transformers: str, steps: int) -> None:
    config = trl_arguments("0.15.2" if transformers < "5" else "1.16.0", "SFTConfig", transformers=transformers)
    made = config(str(tmp_path / "out"), warmup_ratio=1)
    assert made.get_warmup_steps(260) == hf_warmup_steps(made.warmup_steps, 260) == steps
