"""Unsloth that a flag of the script chooses: the port is of the way that is the default."""

from __future__ import annotations

import pytest

from porter.port import Port

from .porting import port

SCRIPT = """\
import argparse
import os

from datasets import load_dataset

parser = argparse.ArgumentParser()
parser.add_argument("--fast", action="store_true")
parser.add_argument("--plain", action="store_true")
parser.add_argument("--lr", type=float, default=1e-4)
args = parser.parse_args()


def fast():
    from unsloth import FastLanguageModel

    model, tokenizer = FastLanguageModel.from_pretrained("Qwen/Qwen3-0.6B", max_seq_length=512)
    return FastLanguageModel.get_peft_model(model, r=8), tokenizer


def plain():
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
    return get_peft_model(model, LoraConfig(r=8)), AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


if {test}:
    model, tokenizer = fast()
else:
    model, tokenizer = plain()

from trl import SFTConfig, SFTTrainer

rows = load_dataset("some/rows", split="train")
config = SFTConfig("out", report_to="none", learning_rate=args.lr)
trainer = SFTTrainer(model, args=config, train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""


def said(found: Port) -> list[tuple[str, str]]:
    return [(each.severity, each.message) for each in found.findings if "the port is of the way" in each.message]


@pytest.mark.parametrize(
    ("test", "unsloth", "severity", "words"),
    [
        ("args.fast", False, "warning", "is of the way without it"),
        ("not args.plain", True, "warning", "is of the way with it"),
        ("os.path.exists('fast')", True, "error", "Only the run knows"),
    ],
)
def test_the_port_is_of_the_way_that_is_the_default(test: str, unsloth: bool, severity: str, words: str) -> None:
    found = port(SCRIPT.format(test=test))
    assert ('unsloth="' in found.after) is unsloth, found.after
    assert ("3407" in found.after) is unsloth or unsloth
    [(level, message)] = said(found)
    assert level == severity and words in message


def test_a_flag_that_trains_chooses_no_way() -> None:
    head, tail = SCRIPT.format(test="True").split("if True:\n")
    script = (
        head + "def main():\n    " + "\n    ".join(f"model, tokenizer = fast()\n{tail.split('plain()')[1]}".split("\n"))
    )
    found = port(f"{script}\n\nif args.fast:\n    main()\n")
    assert 'unsloth="' in found.after, found.after


def test_what_no_condition_chooses_is_not_named() -> None:
    text = SCRIPT.format(test="args.fast").replace("import argparse\n", "import argparse\nimport unsloth\n", 1)
    found = port(text)
    assert 'unsloth="' in found.after and said(found) == []
