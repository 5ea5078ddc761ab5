"""A module given alone whose model its caller makes."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

import porter.front.port_script
from porter.front.beside.with_modules import port_with_modules
from porter.front.port_script import port_script
from porter.port import Options

from .projects import project

TRAINER = """\
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer


def train(model, rows, tokenizer):
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(output_dir="out", learning_rate=1e-4),
        train_dataset=rows,
        processing_class=tokenizer,
        peft_config=LoraConfig(r=8),
    )
    trainer.train()
"""
MODELS = """\
from transformers import AutoModelForCausalLM


def load_model(name):
    return AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16")
"""
MAIN = """\
from datasets import load_dataset
from transformers import AutoTokenizer

from models import load_model
from trainers import train

name = "Qwen/Qwen3-0.6B"
train(load_model(name), load_dataset("some/rows", split="train"), AutoTokenizer.from_pretrained(name))
"""


def called(folder: Path, **files: str) -> Path:
    """A project of the modules; the one that trains."""
    modules = {"trainers": TRAINER, "models": MODELS, **files}
    project(folder, {f"{name}.py": text for name, text in modules.items()})
    return folder / "trainers.py"


def test_it_is_ported_as_its_caller_calls_it(tmp_path: Path) -> None:
    port = port_script(called(tmp_path, main=MAIN))
    assert port.status == "ported" and port.path.endswith("trainers.py")
    assert "def train(model, rows, tokenizer):" in port.after and "trl" not in port.after.replace('trl="', "")
    assert port.recipe.trainer == "trl.SFTTrainer"
    assert {row.source for row in port.fields} >= {"SFTConfig.learning_rate", "LoraConfig.r"}
    assert not port.modules  # the caller's own are its port's
    said = [(each.severity, each.line, each.message) for each in port.findings if "main.py" in each.message]
    assert said == [("warning", 1, "main.py makes the model of this module, and it is ported as that calls it.")]


def test_modules_of_its_own_are_written_with_it(tmp_path: Path) -> None:
    settings = "from peft import LoraConfig\n\n\ndef adapters(rank):\n    return LoraConfig(r=rank)\n"
    trainer = TRAINER.replace("from peft import LoraConfig\n", "from settings import adapters\n")
    trainer = trainer.replace("LoraConfig(r=8)", "adapters(8)")
    port = port_script(called(tmp_path, main=MAIN, trainers=trainer, settings=settings))
    assert port.status == "ported"
    assert "from settings_tunix import adapters" in port.after
    assert [module.beside for module in port.modules] == ["settings_tunix.py"]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"main": MAIN.replace("load_model(name)", "build(name)").replace("import load_model", "import build")},
        {"test_trainers": MAIN},
        {"main": MAIN.replace("from trainers import train", "def train(*given): ...")},
        {"main": MAIN, "trainers": f"{TRAINER}\n\nif __name__ == '__main__':\n    train(*given())\n"},
    ],
)
def test_without_a_caller_that_is_ported_a_person_is_asked(tmp_path: Path, files: dict[str, str]) -> None:
    port = port_script(called(tmp_path, **files))
    assert port.status == "partial"
    assert any("where this model comes from" in each.message for each in port.findings)


def test_a_caller_that_takes_too_long_costs_no_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object) -> None:
        while True:
            pass

    path = called(tmp_path, main=MAIN)
    alone = port_with_modules(path, Options())
    monkeypatch.setattr(porter.front.port_script, "port_by_caller", slow)
    start = monotonic()
    monkeypatch.setattr(porter.front.port_script, "port_with_modules", lambda *_: alone)
    assert port_script(path, Options(budget=2.0)) == alone
    assert monotonic() - start < 30


@pytest.mark.parametrize("line", ["!pip install trl", "%matplotlib inline", "print(f'{'a'}')"])
def test_a_partial_port_of_a_script_with_a_line_that_python_cant_parse(tmp_path: Path, line: str) -> None:
    """A notebook's line, or an f-string of Python 3.12."""
    script = tmp_path / "train.py"
    made = "def rows():\n    return load()\n\n\n" + TRAINER
    script.write_text(f"{line}\n{made}")
    assert port_script(script).status == "partial"
