"""A model of a family that Tunix has not, a script that loads one by its name, and files that tell the name."""

from __future__ import annotations

from pathlib import Path

PHI = "microsoft/Phi-3-mini-4k-instruct"
SCRIPT = """from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
from datasets import load_dataset
{before}
trainer = SFTTrainer(
    model=AutoModelForCausalLM.from_pretrained({name}),
    args=SFTConfig(output_dir="out"),
    train_dataset=load_dataset("a/b", split="train"),
    processing_class=AutoTokenizer.from_pretrained({name}),
)
trainer.train()
"""


def folder(path: Path, model: str) -> Path:
    (path / "conf.py").write_text(f"MODEL_ID = {model!r}\n")
    (path / "config.yaml").write_text(f"model:\n  name: {model}\n")
    (path / "config.json").write_text(f'{{"model": {{"name": "{model}"}}}}')
    return path / "train.py"
