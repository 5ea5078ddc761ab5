"""Adapters of an older PEFT: in the base's type, which the port says."""

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options
from porter.source.parsing import parse_module

from .porting import sft_script


def said(folder: Path, pins: str, text: str) -> list[str]:
    (folder / "requirements.txt").write_text(pins)
    ported = port_module(parse_module(text.encode(), str(folder / "train.py")), Options())
    return [finding.message for finding in ported.findings if "trains the adapters in" in finding.message]


PEFT = sft_script(imports="import torch\nfrom peft import LoraConfig", trainer=", peft_config=LoraConfig(r=4)")
HALF = PEFT.replace('dtype="bfloat16"', "torch_dtype=torch.bfloat16").replace("SFTConfig", "TrainingArguments")
OLD = (
    HALF.replace("processing_class", "tokenizer")
    .replace("Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B")
    .replace("from trl import TrainingArguments, ", "from transformers import TrainingArguments\nfrom trl import ")
)


@pytest.mark.parametrize(
    ("pins", "release"),
    [
        ("transformers==4.37.2\npeft==0.10.0\n", "0.10.0"),
        ("transformers==4.37.2\n", "0.8.2"),
        ("transformers==4.44.0\npeft==0.12.0\n", None),
        ("", None),
    ],
)
def test_older_adapters_have_the_type_of_a_half_base(tmp_path: Path, pins: str, release: str | None) -> None:
    found = said(tmp_path, pins, OLD)
    assert [message.split()[1] for message in found] == ([release] if release else [])
    assert all("base's bfloat16; here they are float32" in message for message in found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.bfloat16", "torch.float32"),
        ("torch_dtype=torch.bfloat16", "load_in_8bit=True, torch_dtype=torch.bfloat16"),
        ("trainer.train()", "for p in model.parameters():\n    p.data = p.data.float()\ntrainer.train()"),
        (", peft_config=LoraConfig(r=4)", ""),
    ],
)
def test_other_adapters_are_float32_there_too(tmp_path: Path, old: str, new: str) -> None:
    assert said(tmp_path, "transformers==4.37.2\npeft==0.10.0\n", OLD.replace(old, new)) == []
