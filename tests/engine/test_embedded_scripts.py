"""Training that a file doesn't run by name: in a text, in a cell that writes a file, by a class without an import."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.port import Options, Port
from porter.source.parsing import read_module
from tests.notebooks import saved

from .porting import port

SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

rows = load_dataset("x", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = SFTTrainer(model=model, train_dataset=rows, args=SFTConfig(output_dir="out"))
trainer.train()
"""


def said(found: Port) -> str:
    assert found.status == "unsupported" and found.after == found.before
    return " ".join(finding.message for finding in found.findings if finding.severity == "error")


@pytest.mark.parametrize("quotes", ["'''", "f'''"])
def test_a_text_that_is_a_script_is_not_silence(quotes: str) -> None:
    text = f"import subprocess\n\nopen('t.py', 'w').write({quotes}{SCRIPT}''')\nsubprocess.run(['python', 't.py'])\n"
    assert "is a script that trains (SFTTrainer)" in said(port(text))


def test_what_only_explains_or_only_predicts_trains_nothing() -> None:
    explained = f"'''How to use this file:\n\n{SCRIPT}'''\nprint(1)\n"
    predicts = f"TEXT = '''{SCRIPT.replace('trainer.train()', 'print(trainer)')}'''\n"
    assert [port(text).status for text in (explained, predicts)] == ["unchanged", "unchanged"]


def test_a_cell_that_writes_a_script_is_named(tmp_path: Path) -> None:
    from porter.engine.pipeline import port_module

    sources = ["!pip install trl", f"%%writefile train.py\n{SCRIPT}", "!accelerate launch train.py"]
    path = saved(tmp_path / "run.ipynb", *sources)
    assert "Cell 2, which writes train.py, is a script that trains" in said(port_module(read_module(path), Options()))


def test_a_trainer_that_nothing_imports_is_named() -> None:
    assert "nothing imports it" in said(port(SCRIPT.replace("from trl import SFTConfig, SFTTrainer\n", "")))
