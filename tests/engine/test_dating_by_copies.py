"""A library that lies in the project, from where the script imports it, is of the release that the copy names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from porter.front.port_file import port_file

from .dated_scripts import SCRIPT as TRL

ALONE = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}  # the machine's settings don't matter
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


BY_PATH = 'import sys\n\nsys.path.insert(0, "../modules/{}")\n{}'
E106972 = "e106972dd6d839f4a3d3fcaffc1f386b4fbe66bf"  # of TRL, behind 0.27.2


def hold(folder: Path, path: str, commit: str) -> None:
    """Make it a repository that holds another's commit."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    held = ["update-index", "--add", "--cacheinfo", f"160000,{commit},{path}"]
    for words in (["init", "-q"], ["add", "-A"], held, [*who, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=folder, env=ALONE, check=True)


@pytest.mark.parametrize(
    ("named", "url", "commit", "read"),
    [
        ("trl", "https://github.com/huggingface/trl.git", E106972, "0.27.2 (.gitmodules: trl>=0.27.2,<0.28.0)"),
        ("trl", "git@github.com:huggingface/trl", E106972, "0.27.2 (.gitmodules: trl>=0.27.2,<0.28.0)"),
        ("trl", "https://github.com/somebody/my-trl", E106972, "1.16.0 (newest table)"),  # a fork
        ("other", "https://github.com/huggingface/trl.git", E106972, "1.16.0 (newest table)"),  # named by nothing
        ("trl", "https://github.com/huggingface/trl.git", "0" * 39 + "1", "1.16.0 (newest table)"),
    ],
)
def test_a_submodule_is_of_its_commit(tmp_path: Path, named: str, url: str, commit: str, read: str) -> None:
    """A folder `trl` that `from trl import` names isn't meant: the script's path has to name it, or a file beside."""
    (tmp_path / ".gitmodules").write_text(f'[submodule "trl"]\n\tpath = modules/trl\n\turl = {url}\n')
    script = tmp_path / "sft" / "train.py"
    script.parent.mkdir()
    script.write_text(BY_PATH.format(named, TRL))
    hold(tmp_path, "modules/trl", commit)
    found = port_file(script)
    assert found.recipe.versions["trl"] == read
    assert any("at the commit 0000000, which is no release" in each.message for each in found.findings) == (
        commit != E106972
    )


@pytest.mark.parametrize(
    ("path", "command", "read"),
    [
        ("modules/trl", "pip install -e modules/trl", "0.27.2"),
        ("trl", "pip install -e trl", "0.27.2"),
        ("trl", "pip install trl", "1.16.0"),  # which is PyPI's
    ],
)
def test_a_submodule_that_a_command_installs(tmp_path: Path, path: str, command: str, read: str) -> None:
    url = "https://github.com/huggingface/trl.git"
    (tmp_path / ".gitmodules").write_text(f'[submodule "trl"]\n\tpath = {path}\n\turl = {url}\n')
    (tmp_path / "train.py").write_text(TRL)
    (tmp_path / "setup.sh").write_text(command)
    hold(tmp_path, path, E106972)
    assert port_file(tmp_path / "train.py").recipe.versions["trl"].startswith(read)
