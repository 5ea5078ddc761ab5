"""Rows that Unsloth's trainer refuses, and a start that it doubles in them."""

from __future__ import annotations

import pytest

from .porting import port
from .unsloth_scripts import HEAD, LOAD, PUT_IN, script


@pytest.mark.parametrize(
    ("column", "trainer", "refused"),
    [
        ("messages", "", True),
        ("text", "", False),
        ("messages", ", formatting_func=len", False),
        ("input_ids", "", False),
    ],
)
def test_rows_that_unsloth_refuses_are_said(column: str, trainer: str, refused: bool) -> None:
    """The port's batches refuse them as well: it was `ported`, and ended there."""
    text = script(trainer=trainer).replace("import load_dataset", "import Dataset")
    made = f"def make():\n    return Dataset.from_dict({{'{column}': [1, 2]}})\n\nrows = make()"
    found = port(text.replace("rows = load_dataset('x', split='train')", made))
    said = [finding for finding in found.findings if "refuses these rows" in finding.message]
    assert [finding.severity for finding in said] == ["error"] * refused
    own = "class Plain:\n    pass\n\n" + text.replace("from unsloth import FastLanguageModel\n", "")
    assert "refuses these rows" not in str(port(own.replace(LOAD, "load()\n").replace(PUT_IN, "")).findings)


AS_CHAT = "def as_chat(text):\n    return {'conversations': [{'role': 'user', 'content': text}]}\n\n"


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        ("[as_chat(each) for each in 'ab']", True),
        ("[as_chat('a'), as_chat('b')]", True),
        ("[as_chat(each) for each in 'ab']\nprint(lines[0])", True),
        ("[{**as_chat(each), 'text': each} for each in 'ab']", False),
        ("[]\nlines.append(as_chat('a'))", False),
        ("[{'conversations': []}]\nlines[0]['text'] = 'a'", False),
    ],
)
def test_rows_of_a_variable_or_a_function_are_seen(made: str, refused: bool) -> None:
    text = script().replace("import load_dataset", "import Dataset")
    lines = f"{AS_CHAT}lines = {made}\nrows = Dataset.from_list(lines)"
    found = port(text.replace("rows = load_dataset('x', split='train')", lines))
    assert ("refuses these rows" in str(found.findings)) == refused, found.findings


@pytest.mark.parametrize(("packing", "said"), [("True", False), ("False", True)])
def test_a_doubled_start_is_said_of_rows_that_are_not_packed(packing: str, said: bool) -> None:
    text = f"""# pip install unsloth==2024.12.12 trl==0.11.1
{HEAD}model, tokenizer = {LOAD}{PUT_IN}args = SFTConfig('out', packing={packing}, dataset_text_field='text')
trainer = SFTTrainer(model, args=args, train_dataset=rows, tokenizer=tokenizer)
trainer.train()
"""
    found = port(text).findings
    assert any("leaves out a BOS" in each.message for each in found) is said
