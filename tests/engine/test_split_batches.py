"""`split_batches=True`: of one process nothing is split, of several a person divides the batch size."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options

SCRIPT = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments, default_data_collator

rows = load_dataset("x", split="train")
args = TrainingArguments("out", max_steps=5, report_to="none", {said})
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = Trainer(model, args, train_dataset=rows, data_collator=default_data_collator)
trainer.train()
"""


@pytest.mark.parametrize(
    ("said", "release"),
    [("split_batches=True", "4.40.2"), ("accelerator_config={'split_batches': True}", "4.57.1")],
)
@pytest.mark.parametrize(("processes", "refused"), [(1, False), (None, False), (2, True)])
def test_nothing_is_split_on_one_process(
    tmp_path: Path, said: str, release: str, processes: int | None, refused: bool
) -> None:
    (tmp_path / "requirements.txt").write_text(f"transformers=={release}\n")
    (tmp_path / "train.py").write_text(SCRIPT.format(said=said))
    ported = port_file(tmp_path / "train.py", Options(processes=processes))
    errors = [each.message for each in ported.findings if each.severity == "error"]
    assert any("split_batches" in each for each in errors) is refused and (refused or not errors), errors
    [row] = [row for row in ported.fields if row.source.endswith((".split_batches", ".accelerator_config"))]
    assert row.fate == ("manual" if refused else "dropped")
