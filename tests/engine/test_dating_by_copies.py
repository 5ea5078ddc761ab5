"""A library that lies in the project, from where the script imports it, is of the release that the copy names."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

SCRIPT = """from datasets import load_dataset
from transformers import Trainer, TrainingArguments
from {package} import FastLanguageModel

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/llama-3-8b", max_seq_length=512, load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=8)
trainer = Trainer(model, TrainingArguments("out"), train_dataset=load_dataset("x", split="train"), tokenizer=tokenizer)
trainer.train()
"""


def versions(folder: Path, package: str, names: str, says: str = '__version__ = "2024.6"\n') -> dict[str, str]:
    file = folder / names
    file.parent.mkdir(parents=True)
    file.write_text(f"# Copyright\n{says}")
    (folder / "requirements.txt").write_text("unsloth==2025.5.6\n")
    script = folder / "train.py"
    script.write_text(SCRIPT.format(package=package))
    return port_file(script).recipe.versions


@pytest.mark.parametrize(
    ("package", "names"),
    [("unsloth.unsloth", "unsloth/unsloth/models/_utils.py"), ("unsloth", "unsloth/__init__.py")],
)
def test_a_copy_in_the_project_is_what_runs(tmp_path: Path, package: str, names: str) -> None:
    found = versions(tmp_path, package, names)
    assert found["unsloth"] == f"2024.6 ({names}: unsloth==2024.6)"
    assert found["trl"].startswith("0.8.6 (the newest release beside unsloth 2024.6"), found["trl"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("unsloth/notes.py", '__version__ = "2024.6"\n'),
        ("other/unsloth/__init__.py", '__version__ = "2024.6"\n'),  # not what the script imports
        ("unsloth/__init__.py", "from ._version import __version__\n"),
    ],
)
def test_a_folder_that_names_no_release_says_nothing(tmp_path: Path, names: str, says: str) -> None:
    assert versions(tmp_path, "unsloth", names, says)["unsloth"].startswith("2025.5.6 (requirements.txt")


def test_the_copy_that_lies_deeper_is_the_one_imported(tmp_path: Path) -> None:
    deep = tmp_path / "unsloth" / "unsloth" / "models"
    deep.mkdir(parents=True)
    (deep / "_utils.py").write_text('__version__ = "2024.6"\n')
    names = "from unsloth.unsloth import is_bfloat16_supported\nfrom unsloth"
    (tmp_path / "unsloth" / "__init__.py").write_text('__version__ = "2025.1.1"\n')
    (tmp_path / "requirements.txt").write_text("unsloth==2025.5.6\n")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("from {package}", names))
    assert port_file(script).recipe.versions["unsloth"].startswith("2024.6 (unsloth/unsloth/models/_utils.py")


def test_a_copy_that_a_comment_imports_is_none(tmp_path: Path) -> None:
    package = "unsloth import FastLanguageModel  # from copies.unsloth"
    found = versions(tmp_path, package, "copies/unsloth/__init__.py")
    assert found["unsloth"].startswith("2025.5.6 (requirements.txt")
