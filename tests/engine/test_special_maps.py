"""`special_tokens_map` of tokenizers, which has no additional tokens in transformers 5."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_script import port_script
from porter.runtime.rows.tokenizer_setup import special_tokens_map
from tests.runtime.byte_tokens import byte_tokenizer

SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, default_data_collator
{imports}
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
{lines}
rows = load_dataset("json", data_files="rows.jsonl", split="train")
args = TrainingArguments("out", report_to="none")
Trainer(model=model, args=args, train_dataset=rows, data_collator=default_data_collator).train()
"""
OF_4, OF_5 = "transformers==4.47.1\n", "transformers==5.0.0\n"


def after(folder: Path, lines: str, pins: str = "", imports: str = "") -> str:
    (folder / "requirements.txt").write_text(pins)
    (folder / "train.py").write_text(SCRIPT.format(lines=lines, imports=imports))
    return port_script(folder / "train.py").after


@pytest.mark.parametrize(
    ("read", "same"),
    [
        ('found = tokenizer.special_tokens_map["additional_special_tokens"][1:3]', False),
        ('found = tokenizer.special_tokens_map.get("additional_special_tokens", [])', False),
        ('found = "additional_special_tokens" in tokenizer.special_tokens_map', False),
        ("found = [*tokenizer.special_tokens_map.values()]", False),
        ("found = {**tokenizer.special_tokens_map}", False),
        ('found = tokenizer.special_tokens_map["eos_token"]', True),
        ('found = tokenizer.special_tokens_map.get("eos_token")', True),
        ('found = "eos_token" not in tokenizer.special_tokens_map', True),
        ('print("held", tokenizer.special_tokens_map)', True),
        ('print(f"held {tokenizer.special_tokens_map}")', True),
    ],
)
def test_what_reads_the_additional_tokens_gets_those_of_transformers_4(tmp_path: Path, read: str, same: bool) -> None:
    mended = read.replace("tokenizer.special_tokens_map", "rt.special_tokens_map(tokenizer)")
    assert f"\n{read if same else mended}\n" in after(tmp_path, read, OF_4)
    assert f"\n{read}\n" in after(tmp_path, read, OF_5)


def test_the_key_itself_tells_transformers_4(tmp_path: Path) -> None:
    lines = 'held = tokenizer.special_tokens_map\nfound = held["additional_special_tokens"]'
    assert "held = rt.special_tokens_map(tokenizer)\n" in after(tmp_path, lines)


@pytest.mark.parametrize("asked", ["additional_special_tokens", "additional_special_tokens_ids"])
def test_a_question_by_name_has_todays(tmp_path: Path, asked: str) -> None:
    lines = f'found = getattr(tokenizer, "{asked}", None) if hasattr(tokenizer, "{asked}") else []'
    assert lines.replace("additional", "extra") in after(tmp_path, lines)
    other = f'found = getattr(args, "{asked}", None)'
    assert other in after(tmp_path, other)


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_module_that_reads_them_is_ported_with_the_script(tmp_path: Path, is_asked: bool) -> None:
    (tmp_path / "fill.py").write_text(
        "def ids(tokenizer):\n    try:\n"
        '        first, last = tokenizer.special_tokens_map[\n            "additional_special_tokens"\n        ][:2]\n'
        "    except KeyError:\n        return None\n    return tokenizer.convert_tokens_to_ids([first, last])\n\n\n"
        "def other(tokenizer):\n    return tokenizer.eos_token\n"
    )
    name = "ids" if is_asked else "other"
    (tmp_path / "requirements.txt").write_text(OF_4)
    (tmp_path / "train.py").write_text(
        SCRIPT.format(lines=f"found = {name}(tokenizer)", imports=f"from fill import {name}")
    )
    found = port_script(tmp_path / "train.py")
    assert [Path(each.path).name for each in found.modules] == ["fill.py"] * is_asked
    assert all("first, last = rt.special_tokens_map(tokenizer)[" in each.after for each in found.modules)


def test_the_map_is_that_of_transformers_4() -> None:
    tokenizer = byte_tokenizer()
    named = {"eos_token": "</s>", "pad_token": "<pad>"}
    assert special_tokens_map(tokenizer) == named
    with pytest.raises(KeyError):
        special_tokens_map(tokenizer)["additional_special_tokens"]
    further = ["<|user|>", "<|assistant|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": further})
    assert "additional_special_tokens" not in tokenizer.special_tokens_map
    assert special_tokens_map(tokenizer) == named | {"additional_special_tokens": further}
