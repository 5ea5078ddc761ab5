"""Columns of a dataset where only a list will do: datasets 4 gives another object."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
import json, random
from datasets import Dataset, load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("some/rows", split="train")
both = load_dataset("some/rows")
{line}
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ('tokenizer(rows["text"], truncation=True)', 'tokenizer(list(rows["text"]), truncation=True)'),
        ('tokenizer.apply_chat_template(rows["messages"])', 'apply_chat_template(list(rows["messages"])'),
        ('tokenizer(both["train"]["text"])', 'tokenizer(list(both["train"]["text"]))'),
        ('tokenizer(rows.shuffle(seed=1).select(range(9))["text"])', 'select(range(9))["text"]))'),
        (
            'split = rows.train_test_split(0.1)\ntokenizer(split["test"]["text"])',
            'tokenizer(list(split["test"]["text"]))',
        ),
        ('Dataset.from_list([])["x"] + [1]', 'list(Dataset.from_list([])["x"]) + [1]'),
        ('texts = rows["text"]\nrandom.shuffle(texts)', 'texts = list(rows["text"])'),
        ('texts = rows["text"]\ntexts[0] = "x"', 'texts = list(rows["text"])'),
        ('texts = rows["text"]\ntexts.append("x")', 'texts = list(rows["text"])'),
        ('json.dumps(rows["text"])', 'json.dumps(list(rows["text"]))'),
        ('rows = rows.map(len)\ntokenizer(rows["text"])', 'tokenizer(list(rows["text"]))'),
        ('if len(rows) > 9:\n    rows = rows.select([1])\ntokenizer(rows["text"])', 'tokenizer(list(rows["text"]))'),
        ('for _ in "ab":\n    rows = rows.map(len)\ntokenizer(rows["text"])', 'tokenizer(list(rows["text"]))'),
        ('both = both["train"]\nboth = both.map(len)\ntokenizer(both["text"])', 'tokenizer(list(both["text"]))'),
        ('frame = 1\nframe = Dataset.from_pandas(frame)\ntokenizer(frame["x"])', 'tokenizer(list(frame["x"]))'),
        ('def encode(some):\n    some = some.map(len)\n    tokenizer(some["x"])\n\nencode(rows)', 'list(some["x"])'),
        ('def short():\n    return rows.select([1])\n\ntokenizer(short()["x"])', 'tokenizer(list(short()["x"]))'),
        ('texts: list[str] = rows["text"]\ntokenizer(texts)', 'texts: list[str] = list(rows["text"])'),
        ('some: Dataset = rows.map(len)\ntokenizer(some["x"])', 'tokenizer(list(some["x"]))'),
        ('labels = rows["label"]\nlabels += [1]', 'labels = list(rows["label"])'),
        ('x = rows["x"]\nx.append(1)\nx = tuple(x)', 'x = list(rows["x"])'),
        ('one = load_dataset("x", None, None, None, "train")\ntokenizer(one["x"])', 'tokenizer(list(one["x"]))'),
        ('some = load_dataset("x", split=NAME)["train"]\ntokenizer(some["x"])', 'tokenizer(list(some["x"]))'),
        ('tokenizer(rows["text"])\nparts = [rows for rows in both]', 'tokenizer(list(rows["text"]))'),
    ],
)
def test_a_list_where_a_list_is_needed(line: str, becomes: str) -> None:
    for release in ("0.12.2", "1.16.0"):
        found = port(SCRIPT.format(line=line), source_trl=release)
        assert becomes in found.after, found.after
        assert port(found.data).edits == ()


@pytest.mark.parametrize(
    "line",
    [
        'len(rows["text"]), set(rows["text"]), rows["text"][0], rows["text"][:3]',
        '[tokenizer(text) for text in rows["text"]]',
        '"\\n".join(rows["text"])',
        'texts = rows["text"]\nprint(max(len(text) for text in texts))',
        'rows.map(lambda batch: tokenizer(batch["text"]), batched=True)',
        'def encode(batch):\n    return tokenizer(batch["text"])\n\nrows.map(encode, batched=True)',
        'tokenizer(rows[0]["text"])',
        'tokenizer({"text": ["a"]}["text"])',
        'both["train"].save_to_disk("x")',
        'rows.set_format("numpy")\ntokenizer(rows["text"])',
        'rows = rows.map(len)\nrows = {"text": ["a"]}\ntokenizer(rows["text"])',
        'if len(rows) > 9:\n    rows = {"text": ["a"]}\ntokenizer(rows["text"])',
        'for _ in "ab":\n    tokenizer(rows["text"])\n    rows = rows.to_dict()',
        '[tokenizer(rows["text"]) for rows in batches]',
        'x = rows["x"]\nx = [1]\nx.append(1)',
        'def tokens(rows):\n    return tokenizer(rows["text"])\n\ntokens(rows), tokens({"text": ["a"]})',
    ],
)
def test_what_reads_a_column_as_well_stays(line: str) -> None:
    for release in ("0.12.2", "1.16.0"):
        assert "list(" not in port(SCRIPT.format(line=line), source_trl=release).after


@pytest.mark.parametrize(
    "line",
    [
        'raw = load_dataset("imdb", split=None)\nprepare(raw["train"])',
        'raw = load_dataset("imdb", split=NAME)\nprepare(raw["train"])',
        'raw = load_dataset("imdb", split=None)\nparts = {"train": raw["train"], "own": raw["own"]}',
    ],
)
def test_a_split_is_no_column(line: str) -> None:
    text = SCRIPT.format(line=f"def prepare(some):\n    return some.map(len)\n\n{line}")
    assert line in port(text, source_trl="0.12.2").after


def test_code_of_the_script_gets_the_list_that_its_release_gave() -> None:
    line = 'def prepare(texts):\n    return texts\n\nprepare(rows["text"])'
    assert 'prepare(list(rows["text"]))' in port(SCRIPT.format(line=line), source_trl="0.12.2").after
    assert 'prepare(rows["text"])' in port(SCRIPT.format(line=line), source_trl="1.16.0").after
    pinned = '# pip install datasets==4.1.0\ntokenizer(rows["text"])'
    assert 'tokenizer(rows["text"])' in port(SCRIPT.format(line=pinned), source_trl="0.12.2").after
