"""Rows that Unsloth's trainer refuses, and a start that it doubles in them."""

from __future__ import annotations

import re

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


@pytest.mark.parametrize(
    ("packing", "model", "said"),
    [
        ("True", "unsloth/Llama-3.2-1B", False),
        ("False", "unsloth/Llama-3.2-1B", True),
        ("False", "unsloth/Qwen2.5-0.5B", False),  # has none
    ],
)
def test_a_doubled_start_is_said_of_rows_that_are_not_packed(packing: str, model: str, said: bool) -> None:
    text = f"""# pip install unsloth==2024.12.12 trl==0.11.1
{HEAD}model, tokenizer = {LOAD}{PUT_IN}args = SFTConfig('out', packing={packing}, dataset_text_field='text')
trainer = SFTTrainer(model, args=args, train_dataset=rows, tokenizer=tokenizer)
trainer.train()
"""
    found = port(re.sub(r"unsloth/[\w.-]+", model, text)).findings
    # The dataset's own texts: nobody sees how they begin.
    assert [each.severity for each in found if "leaves out a BOS" in each.message] == ["warning"] * said
    text = re.sub(r"unsloth/[\w.-]+", model, text)
    made = text.replace("model, tok", "rows = rows.map(lambda row: {'text': f'Below: {row}'})\nmodel, tok", 1)
    severities = [
        each.severity
        for before in ("", "START = tokenizer.bos_token\n")
        for each in port(made.replace("args = ", before + "args = ")).findings
        if "leaves out a BOS" in each.message
    ]
    assert severities == (["info", "warning"] if said else [])


BESIDE = "# pip install unsloth=={} trl=={}\n"


@pytest.mark.parametrize(
    ("trl", "prepares", "anew"),
    [("0.8.6", False, False), ("0.12.2", False, True), ("0.14.0", False, True), ("0.15.2", True, True)],
)
def test_rows_are_unsloths_where_its_preparation_fits_trls(trl: str, prepares: bool, anew: bool) -> None:
    """A packed run beside an older TRL ended at its start: the port tokenised as Unsloth, TRL packs texts alone."""
    text = script("'out', packing=True, dataset_text_field='text'")
    if not anew:
        own = "TrainingArguments('out'), packing=True, dataset_text_field='text', tokenizer=tokenizer)"
        text = re.sub(r"SFTConfig\(.*?\)(.*), processing_class.*", lambda made: own[:-1] + made[1] + ")", text)
        text = text.replace(
            "import SFTConfig, SFTTrainer", "import SFTTrainer\nfrom transformers import TrainingArguments"
        )
    found = port(BESIDE.format("2025.5.6", trl) + text)
    assert (' unsloth="2025.5.6"' in found.after) is prepares, found.after
    assert ("Read as Unsloth" in str(found.findings)) is anew
    llama = BESIDE.format("2025.5.6", trl) + text.replace("unsloth/Qwen3-0.6B", "unsloth/Llama-3.2-1B")
    assert ("leaves out a BOS" in str(port(llama).findings)) is (anew and not prepares)


TWO = "'out', per_device_train_batch_size=2"
MASKED = """\
from unsloth.chat_templates import train_on_responses_only
trainer = train_on_responses_only(trainer, instruction_part='### Q', response_part='### A')
trainer.train()"""
SEE = "a row then sees those in front of it in its micro-batch"


@pytest.mark.parametrize(
    ("unsloth", "trl", "config", "said"),
    [
        ("2026.1.3", "0.18.2", TWO, "switches padding_free on by itself"),
        ("2026.1.3", "0.18.2", "'out'", "switches"),  # by the default, 4
        ("2025.12.4", "0.18.2", TWO, "switches"),
        ("2026.10.9", "0.18.2", TWO, "may switch"),
        ("2026.1.3", "0.18.2", f"{TWO}, padding_free=False", "switches"),
        ("2026.1.3", "0.18.2", f"{TWO}, padding_free=True, max_length=None", "padding_free=True under Unsloth"),
        ("2026.4.4", "0.18.2", f"{TWO}, padding_free=False", ""),
        ("2025.12.1", "0.18.2", TWO, ""),
        ("2026.1.3", "0.19.1", TWO, ""),
        ("2026.1.3", "0.18.2", "'out', per_device_train_batch_size=1", ""),
        ("2026.1.3", "0.18.2", f"{TWO}, packing=True", ""),
    ],
)
def test_rows_that_saw_each_other_are_said(unsloth: str, trl: str, config: str, said: str) -> None:
    """Unsloth switches padding_free on by itself; the collator of TRL 0.18 brings it no lengths."""
    found = [each for each in port(BESIDE.format(unsloth, trl) + script(config)).findings if SEE in each.message]
    assert [each.severity for each in found] == ["warning"] * bool(said) and said in str(found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'unsloth/Qwen3-0.6B'", "'unsloth/gemma-2-2b'"),
        ("rows = ", "import os\nos.environ['UNSLOTH_DISABLE_AUTO_PADDING_FREE'] = '1'\nrows = "),
        ("import SFTConfig, SFTTrainer", "import SFTTrainer\nfrom transformers import TrainingArguments as SFTConfig"),
        (f"args=SFTConfig({TWO}), ", ""),
        ("FastLanguageModel", "FastModel"),  # whose models are transformers', which part rows by their positions
        ("tokenizer)", "tokenizer, data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False))"),
        ("trainer.train()", MASKED),
    ],
)
def test_rows_that_unsloth_left_apart_are_not_said(old: str, new: str) -> None:
    head = BESIDE.format("2026.1.3", "0.18.2") + "from transformers import DataCollatorForLanguageModeling\n"
    text = script(TWO)
    assert old in text and SEE in str(port(head + text).findings)
    assert SEE not in str(port(head + text.replace(old, new)).findings)


@pytest.mark.parametrize(
    ("unsloth", "text"),
    [
        ("2026.1.3", script(TWO, ", data_collator=None")),
        ("2025.12.4", script(TWO).replace("'unsloth/Qwen3-0.6B'", "'unsloth/gemma-2-2b'")),
        ("2026.1.3", script("'out', per_device_train_batch_size=1", ", eval_dataset=rows")),
    ],
    ids=["no collator", "Gemma 2 before 2025.12.5", "rows of an evaluation"],
)
def test_rows_that_saw_each_other_all_the_same(unsloth: str, text: str) -> None:
    assert SEE in str(port(BESIDE.format(unsloth, "0.18.2") + text).findings)
