"""What dates a script, and what doesn't: requirements of another script, keywords that the script renames itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from .porting import port
from .test_dating import SCRIPT


@pytest.mark.parametrize(
    ("script", "files", "version"),
    [
        (
            "sft/train/run.py",
            {"requirements-grpo.txt": "trl==0.18.2", "requirements-train.txt": "trl==0.29.0"},
            "0.29.0",
        ),
        ("run.py", {"requirements-a.txt": "trl==0.18.2", "requirements-b.txt": "datasets\ntrl==0.29.0"}, "0.29.0"),
        ("run.py", {"requirements-a.txt": "trl==0.18.2", "requirements-b.txt": "trl==0.29.0"}, "0.18.2"),
    ],
)
def test_the_requirements_that_speak_of_the_script_come_first(
    tmp_path: Path, script: str, files: dict[str, str], version: str
) -> None:
    (tmp_path / ".git").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / script).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / script).write_text(SCRIPT)
    found = port_file(tmp_path / script)
    assert found.recipe.versions["trl"].startswith(f"{version} ")


@pytest.mark.parametrize(("test", "version"), [('"eval_strategy" in known', "1.16.0"), ("len(sys.argv) > 1", "0.16.1")])
def test_a_keyword_that_the_script_renames_for_newer_releases_dates_nothing(test: str, version: str) -> None:
    text = f"""import inspect, sys
from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

settings = {{"output_dir": "out", "evaluation_strategy": "no"}}
known = inspect.signature(TrainingArguments.__init__).parameters
if {test}:
    settings["eval_strategy"] = settings.pop("evaluation_strategy")
args = TrainingArguments(**settings)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = Trainer(model, args, train_dataset=load_dataset("some/rows", split="train"))
trainer.train()
"""
    assert port(text).recipe.versions["trl"].startswith(f"{version} ")
