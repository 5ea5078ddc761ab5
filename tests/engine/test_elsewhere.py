"""Arguments and adapters' configs that another file makes, in the classes of the GPU's libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.front.tree import port_tree
from porter.port import Options, Port
from porter.source.parsing import parse_module

CONFIGS = """\
from peft import LoraConfig
from trl import SFTConfig, DPOConfig

class OurArguments(SFTConfig):
    pass

training_args = SFTConfig(output_dir="out", learning_rate=1e-5)
lora = LoraConfig(r=8)

def make_config(**more):
    return SFTConfig(output_dir="out", **more)
"""
SCRIPT = """\
from datasets import load_dataset
from peft import LoraConfig
from transformers import HfArgumentParser
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser
{imports}

{before}
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args={args}, train_dataset=load_dataset("some/rows", split="train"){more})
trainer.train()
"""
FUNCTION = """\
from trl import SFTConfig, SFTTrainer

def train(training_args: SFTConfig, rows):
    trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=training_args, train_dataset=rows)
    trainer.train()
"""


def ported(folder: Path, text: str) -> Port:
    return port_module(parse_module(text.encode(), str(folder / "train.py")), Options())


def said(port: Port) -> list[str]:
    """What is said of where a setting comes from."""
    return [finding.message for finding in port.findings if " own object" in finding.message]


def script(imports: str, args: str, before: str = "", more: str = "") -> str:
    return SCRIPT.format(imports=imports, args=args, before=before, more=more)


PARSED = "model_args, training_args = TrlParser((ModelConfig, {})).parse_args_and_config()"
ELSEWHERE = [
    (
        script("from configs import make_config", "make_config()"),
        "SFTTrainer.args=make_config(): it comes from configs.py",
    ),
    (script("import configs", "configs.training_args"), "args=configs.training_args: it comes from configs.py"),
    (script("import configs as c", "c.make_config(seed=3)"), "it comes from configs.py"),
    (script("from .configs import training_args", "training_args"), "it comes from configs.py"),
    (script("from configs import training_args as t", "args", "import copy\nargs = copy.deepcopy(t)"), "configs.py"),
    (script("from configs import OurArguments", "OurArguments(output_dir='x')"), "configs.py"),
    (script("from configs import OurArguments", "training_args", PARSED.format("OurArguments")), "configs.py"),
    (
        script(
            "from configs import OurArguments",
            "args",
            "args = HfArgumentParser(OurArguments).parse_args_into_dataclasses()[0]",
        ),
        "configs.py",
    ),
    (
        script(
            "from configs import OurArguments",
            "training_args",
            "class Mine(OurArguments): pass\n" + PARSED.format("Mine"),
        ),
        "configs.py",
    ),
    (
        script("from handbook import load", "cfg.training", "cfg = load('a.yaml')"),
        "comes from handbook.load, which can't",
    ),
    (
        script("from hydra.utils import instantiate", "instantiate(1)"),
        "comes from hydra.utils.instantiate, which can't",
    ),
    (
        script("from configs import lora", 'SFTConfig("out")', more=", peft_config=lora"),
        "peft_config=lora: it comes from",
    ),
    (FUNCTION, "args=training_args: train() is given it by another file"),
    (FUNCTION.replace("def train(", "def train(again, "), "train() is given it"),
]


@pytest.mark.parametrize(("text", "message"), ELSEWHERE)
def test_settings_of_another_file_are_said(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "configs.py").write_text(CONFIGS)
    found = ported(tmp_path, text)
    assert len(said(found)) == 1 and message in said(found)[0], found.findings
    assert found.status == "partial" and "own object" in found.after
    if "configs.py" in message:
        assert "Port the project's folder" in found.after


@pytest.mark.parametrize(
    "text",
    [
        script("", "training_args", PARSED.format("SFTConfig")),
        script("", "training_args", "class Mine(SFTConfig): pass\n" + PARSED.format("Mine")),
        script("import simple_parsing", "simple_parsing.parse(SFTConfig)"),
        script("import tyro", "config.training", "class C:\n    training: SFTConfig\nconfig = tyro.cli(C)"),
        script("from hub import load", "SFTConfig(**load())"),
        FUNCTION + "\ntrain(SFTConfig('out'), [])\ntrain(SFTConfig('out2'), [])\n",
        FUNCTION + "\nimport fire\nfire.Fire(train)\n",
    ],
)
def test_settings_of_this_file_are_not(tmp_path: Path, text: str) -> None:
    assert said(ported(tmp_path, text)) == []


@pytest.mark.parametrize("text", [text for text, message in ELSEWHERE if "configs.py" in message])
def test_a_folder_is_followed(tmp_path: Path, text: str) -> None:
    (tmp_path / "configs.py").write_text(CONFIGS)
    (tmp_path / "train.py").write_text(text)
    found = port_tree(tmp_path, Options(), jobs=1)
    assert said(found.ports[Path("train.py")]) == []
    for module in ("from trl", "from peft"):
        assert module not in found.ports[Path("configs.py")].after
