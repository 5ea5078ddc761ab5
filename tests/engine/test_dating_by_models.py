"""A release that can't load the script's model dates no script: pins of a README that were forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

TRAINS = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

{head}
model = AutoModelForCausalLM.from_pretrained({model}{more})
rows = load_dataset("x", split="train")
trainer = Trainer(model, args=TrainingArguments("out"), train_dataset=rows)
trainer.train()
"""
OF_ITS_USER = """import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="mistralai/Mistral-7B-v0.3")
args = parser.parse_args()
"""


def script(folder: Path, model: str, *, head: str = "", more: str = "") -> Path:
    path = folder / "train.py"
    path.write_text(TRAINS.format(head=head, model=model, more=more))
    return path


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("README.md", "pip install transformers==4.33.2\npip install peft==0.4.0\n"),
        ("README.md", "pip install transformers==4.30.0\npip install peft==0.4.0\n"),  # of before all that are known
        ("requirements.txt", "transformers==4.33.2\npeft==0.4.0\n"),
    ],
)
@pytest.mark.parametrize(
    ("model", "head"),
    [('"mistralai/Mistral-7B-v0.3"', ""), ("args.model", OF_ITS_USER), ("NAME", 'NAME = "x/mistral-7b"')],
)
def test_a_release_without_the_models_family_is_not_read(
    tmp_path: Path, file: str, text: str, model: str, head: str
) -> None:
    (tmp_path / file).write_text(text)
    versions = port_file(script(tmp_path, model, head=head, more=", load_in_4bit=True")).recipe.versions
    assert versions["trl"].startswith("0.27.2 (the newest release with from_pretrained(load_in_4bit=)")
    assert versions["transformers"].startswith("4.57 ") and versions["peft"].endswith("(newest table)")


@pytest.mark.parametrize(
    ("model", "pinned", "read"),
    [
        ("mistralai/Mistral-7B-v0.1", "4.34.0", True),
        ("mistralai/Mistral-Nemo-Base-2407", "4.42.4", False),
        ("meta-llama/Llama-2-7b-hf", "4.31.0", True),
        ("codellama/CodeLlama-7b-hf", "4.31.0", False),
        ("meta-llama/Llama-3.2-1B", "4.42.4", False),
        ("meta-llama/Llama-3.2-1B", "4.43.1", True),
        ("Qwen/Qwen3-0.6B", "4.50.3", False),
    ],
)
def test_the_first_release_is_that_of_the_model(tmp_path: Path, model: str, pinned: str, read: bool) -> None:
    (tmp_path / "requirements.txt").write_text(f"transformers=={pinned}\n")
    versions = port_file(script(tmp_path, repr(model))).recipe.versions
    assert versions["transformers"].startswith(f"{pinned} (requirements.txt") is read


def test_beside_an_older_trl_transformers_is_the_first_with_its_model(tmp_path: Path) -> None:
    """TRL 0.12.2 installs beside any later transformers; that of its day can't load the model."""
    path = tmp_path / "train.py"
    path.write_text(
        "# pip install trl==0.12.2\nfrom datasets import load_dataset\nfrom trl import SFTConfig, SFTTrainer\n\n"
        'rows = load_dataset("x", split="train")\n'
        'trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=rows)\ntrainer.train()\n'
    )
    versions = port_file(path).recipe.versions
    assert versions["transformers"] == "4.51.0 (the first release with Qwen/Qwen3-0.6B)"
