"""The type of a model whose library has one of its own where none is said: Unsloth's None is bfloat16."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options
from porter.source.parsing import parse_module

OLDER = "trl==0.15.2\ntransformers==4.51.3\nunsloth==2025.4.1\n"
NEWER = "trl==0.24.0\ntransformers==5.5.0\nunsloth==2026.8.19\n"
SCRIPT = """\
import argparse
from dataclasses import dataclass

import torch
from transformers import HfArgumentParser
from unsloth import FastLanguageModel, FastModel
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
import settings

{before}model, tokenizer = {load}
model = FastLanguageModel.get_peft_model(model, r=8)
rows = load_dataset("some/rows", split="train")
trainer = SFTTrainer(model, args=SFTConfig("out", bf16=True), train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""
PARSED = 'parser = argparse.ArgumentParser()\nparser.add_argument("--dtype"{})\nargs = parser.parse_args()\n'
FIELD = (
    "@dataclass\nclass Args:\n    dtype: str = None\n\nargs, = HfArgumentParser(Args).parse_args_into_dataclasses()\n"
)
BUILT = '{}kwargs = {{"load_in_4bit": False}}\nif args.dtype:\n    kwargs["dtype"] = torch.bfloat16\n'


def loaded(folder: Path, pins: str, load: str, before: str) -> str:
    """What `rt.load_model` is given behind the mesh."""
    (folder / "requirements.txt").write_text(pins)
    (folder / "settings.py").write_text("DTYPE = None\nNAMED = 'bfloat16'\n")
    text = SCRIPT.format(load=load, before=before)
    found = port_module(parse_module(text.encode(), str(folder / "train.py")), Options())
    assert not [finding for finding in found.findings if finding.severity == "error"], found.findings
    return next(line for line in found.after.splitlines() if "rt.load_model(" in line).partition("mesh, ")[2]


def asked(dtype: str, of: str = "FastLanguageModel") -> str:
    return f'{of}.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False{dtype})'


@pytest.mark.parametrize("pins", [OLDER, NEWER])
@pytest.mark.parametrize(
    ("load", "before", "given"),
    [
        (asked(""), "", "dtype=jnp.bfloat16)"),
        (asked(", dtype=None"), "", "dtype=jnp.bfloat16)"),
        (asked(", dtype=settings.DTYPE"), "", 'dtype=settings.DTYPE or "bfloat16")'),
        (asked(", dtype=settings.DTYPE", "FastModel"), "", 'dtype=settings.DTYPE or "bfloat16")'),
        (asked(", dtype=settings.NAMED"), "", "dtype=settings.NAMED)"),
        (asked(", dtype=args.dtype"), PARSED.format(""), 'dtype=args.dtype or "bfloat16")'),
        (asked(", dtype=args.dtype"), PARSED.format(', default="bfloat16"'), "dtype=args.dtype)"),
        (asked(", dtype=args.dtype"), FIELD, 'dtype=args.dtype or "bfloat16")'),
        (asked(", **kwargs").replace("load_in_4bit=False, ", ""), BUILT.format(FIELD), '"bfloat16")'),
        (asked(", dtype=torch.float32"), "", "dtype=jnp.bfloat16)"),
    ],
)
def test_an_unsloth_model_of_no_type_is_bfloat16(tmp_path: Path, pins: str, load: str, before: str, given: str) -> None:
    assert loaded(tmp_path, pins, load, before).endswith(given)
