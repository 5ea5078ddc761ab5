"""Which release a script was written for: pins in the script and in files beside it, and what it uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.engine.dating import _in_file, _in_script
from porter.port import port_file

SCRIPT = """from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=load_dataset("x", split="train"))
trainer.train()
"""


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("!pip install -q trl==0.8.6 peft", [("==", "0.8.6")]),
        ('# pip install "trl>=0.7,<0.9"', [(">=", "0.7"), ("<", "0.9")]),
        ('assert trl.__version__ == "0.8.6"', [("==", "0.8.6")]),
        ("git+https://github.com/huggingface/trl.git@v0.7.10", [("==", "0.7.10")]),
        ('if trl.__version__ < "0.9":', []),
        ("pip install trlx==0.7", []),
    ],
)
def test_a_script_pins_a_release(text: str, pins: list[tuple[str, str]]) -> None:
    assert _in_script(text, "trl") == pins


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("torch\ntrl>=0.8\n", [(">=", "0.8")]),
        ('trl = "^0.8.6"\n', [(">=", "0.8.6"), ("<", "0.9")]),
        ('name = "trl"\nversion = "0.9.6"\n', [("==", "0.9.6")]),
        ("  - trl=0.8.6\n", [("==", "0.8.6")]),
        ('dependencies = [\n  "trl~=0.8.1",\n', [("~=", "0.8.1")]),
    ],
)
def test_a_file_pins_a_release(text: str, pins: list[tuple[str, str]]) -> None:
    assert _in_file(text, "trl") == pins


@pytest.mark.parametrize(
    ("requirement", "version"),
    [("trl==0.11.4", "0.11.4"), ("trl<0.12", "0.11.4"), ("trl>=0.9", "1.16.0"), ("trl~=0.9.3", "0.9.6")],
)
def test_requirements_beside_the_script_date_it(tmp_path: Path, requirement: str, version: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch\n{requirement}\n")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    said = port_file(script).recipe.versions["trl"]
    assert said.split(" ")[0] == version
    assert ("requirements.txt" in said) is (version != "1.16.0")


def test_what_stands_in_a_try_dates_nothing(tmp_path: Path) -> None:
    guarded = "try:\n    from trl import DataCollatorForCompletionOnlyLM\nexcept ImportError:\n    pass\n"
    script = tmp_path / "train.py"
    script.write_text(guarded + SCRIPT)
    assert port_file(script).recipe.versions["trl"].startswith("1.16.0")
    script.write_text("from trl import DataCollatorForCompletionOnlyLM\n" + SCRIPT)
    assert not port_file(script).recipe.versions["trl"].startswith("1.16.0")


@pytest.mark.parametrize(
    "said",
    [
        "Successfully installed accelerate-0.30.1 transformers-4.41.1 trl-0.8.6 tyro-0.8.4\\n",
        "  Downloading trl-0.8.6-py3-none-any.whl (245 kB)\\n",
        "Requirement already satisfied: trl in /usr/lib/python3/dist-packages (from -r needs.txt) (0.8.6)\\n",
    ],
)
def test_what_a_notebook_installed_dates_it(tmp_path: Path, said: str) -> None:
    code = json.dumps(SCRIPT.splitlines(keepends=True))
    printed = f'{{"name": "stdout", "output_type": "stream", "text": ["{said}"]}}'
    cells = ",".join(
        f'{{"cell_type": "code", "metadata": {{}}, "execution_count": 1, "outputs": [{out}], "source": {source}}}'
        for out, source in ((printed, '["!pip install trl"]'), ("", code))
    )
    path = tmp_path / "train.ipynb"
    path.write_text(f'{{"cells": [{cells}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}')
    assert port_file(path).recipe.versions["trl"].startswith("0.8.6 (what the notebook installed")
    pinned = path.read_text().replace("!pip install trl", "!pip install trl==0.9.6")
    path.write_text(pinned)
    assert port_file(path).recipe.versions["trl"].startswith("0.9.6 (the script")
