"""save_steps=0: transformers saves no checkpoint but the last; Orbax divided by it."""

from __future__ import annotations

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options
from porter.source.parsing import parse_module

SCRIPT = """
{pin}
from transformers import Trainer, TrainingArguments, AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
trainer = Trainer(model, TrainingArguments("out", report_to="none", save_steps=0), train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("pin", "want"),
    [
        ("", "FixedIntervalPolicy(batches.steps)"),
        ("# pip install transformers==4.40.2", "SaveOnlyEvery(batches.steps + 1)"),
    ],
)
def test_no_checkpoint_is_due(pin: str, want: str) -> None:
    port = port_module(parse_module(SCRIPT.format(pin=pin).encode(), "train.py"), Options(processes=1))
    assert want in port.after
