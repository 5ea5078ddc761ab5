"""Optimizers whose state bitsandbytes and torchao hold in fewer bits."""

from __future__ import annotations

import pytest

from porter.runtime.training.optimizers import hf_optimizer


@pytest.mark.parametrize(("name", "said"), [("paged_adamw_8bit", "not in 8 bits"), ("adamw_torch", "")])
def test_a_state_that_the_gpu_held_in_fewer_bits_is_said(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hf_optimizer(name, 1e-4)
    out = capsys.readouterr().out
    assert (said in out) if said else not out
