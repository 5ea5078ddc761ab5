"""The receipt of a keyword in a port, and the lines of the port that it names."""

from __future__ import annotations

from porter.port import Port
from porter.recipe import Receipt

SCRIPT = """from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

{before}trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig(
        output_dir="out",
        {keywords},
    ),
    train_dataset=load_dataset("some/rows", split="train"),
)
trainer.train()
"""


def row(found: Port, source: str) -> Receipt:
    [one] = [row for row in found.fields if row.source == source]
    return one


def lines(found: Port, source: str) -> list[str]:
    """The texts of a keyword's places, which are the port's lines of their numbers."""
    text = found.after.splitlines()
    places = row(found, source).places
    assert [text[place.line - 1].strip() for place in places] == [place.text for place in places]
    return [place.text for place in places]
