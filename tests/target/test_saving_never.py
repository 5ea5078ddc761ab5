"""Runs that save no checkpoint: Orbax divided by `save_steps=0`, and there is no best one to load."""

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


@pytest.mark.parametrize(("evaluates", "status"), [("no", "ported"), ("steps", "partial")])
def test_the_best_of_no_checkpoints_is_not_loaded(evaluates: str, status: str) -> None:
    given = f'save_strategy="no", eval_strategy="{evaluates}", load_best_model_at_end=True'
    script = (
        SCRIPT.format(pin="")
        .replace("save_steps=0", given)
        .replace("train_dataset", "eval_dataset=rows, train_dataset")
    )
    port = port_module(parse_module(script.encode(), "train.py"), Options(processes=1))
    assert port.status == status and "load_best" not in port.after.replace("load_best_model_at_end with", "")
    (row,) = (row for row in port.fields if row.source.endswith(".load_best_model_at_end"))
    assert row.fate == "exact"
    assert any("transformers ends at its start" in each.message for each in port.findings) is (status == "partial")
