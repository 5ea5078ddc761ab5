"""The columns that a script reads are found in its source, and made-up rows have them."""

from __future__ import annotations

import pytest

from porter.validate.stand_ins.data.columns import (
    TOKENIZED,
    find_columns,
    find_reads,
    made_up_rows,
    rows_wanted,
)


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        ("trainer = SFTTrainer(train_dataset=load_dataset('x', split='train'))", {"messages": "messages"}),
        ("args = SFTConfig(completion_only_loss=True)", {"prompt": "text", "completion": "text"}),
        ("args = SFTConfig(dataset_text_field='body')", {"body": "text"}),
        (
            "d = load_dataset('x').map(lambda row: {'text': row['question'] + row['answer']})",
            {"question": "text", "answer": "text"},
        ),
        ("d = d.rename_column('content', 'text')", {"content": "text"}),
        (
            "d = d.filter(lambda r: r['stars'] > 3).map(lambda r: {'text': r['review']})",
            {"stars": "number", "review": "text"},
        ),
        # what a script writes into a text is one; the messages that it shows are a conversation all the same
        ("d = load_dataset('x').map(lambda row: {'text': f\"{row['dialogue']}\"})", {"dialogue": "text"}),
        ("d = load_dataset('x').map(lambda row: {'text': row['dialogue']})", {"dialogue": "messages"}),
        (
            "d = load_dataset('x')\nprint(f\"{d[0]['messages']}\")\nSFTTrainer(train_dataset=d)",
            {"messages": "messages"},
        ),
        # one of a pair is shown, both are trained on
        (
            "d = load_dataset('x')['train']\nprint(d[0]['prompt'], d[0]['chosen'])\nDPOTrainer(model, train_dataset=d)",
            {"prompt": "text", "chosen": "text", "rejected": "text"},
        ),
        # rows that have been tokenised
        (
            "Trainer(model=model, train_dataset=load_from_disk(args.data), data_collator=default_data_collator)",
            {"input_ids": "block", "attention_mask": "mask", "labels": "block"},
        ),
        ("Trainer(model=model, train_dataset=load_dataset('text', data_files='a.txt'))", {"messages": "messages"}),
        ("Trainer(model=model, train_dataset=load_from_disk(args.data).map(tokenize))", {"messages": "messages"}),
        ("def config(c):\n    return c['lr']\n", {"messages": "messages"}),
    ],
)
def test_columns_that_a_script_reads(source: str, columns: dict[str, str]) -> None:
    assert find_columns([source]) == columns


def test_a_function_given_by_name_and_what_it_makes() -> None:
    source = """
def to_messages(row):
    answer = row["response"].split("</think>")[-1]
    row["note"] = 1
    return {"messages": [{"role": "user", "content": row.get("prompt")}, {"role": "assistant", "content": answer}]}

dataset = load_dataset("x", split="train").map(to_messages, remove_columns=["prompt", "response", "source"])
"""
    assert find_columns([source]) == {"response": "text", "prompt": "text", "source": "text"}


def test_turns_with_their_own_keys() -> None:
    source = """
def convert(example):
    return {"messages": [{"role": turn["from"], "content": turn["value"]} for turn in example["dialog"]]}

d = d.map(convert)
"""
    assert find_columns([source]) == {"dialog": "sharegpt"}
    assert [turn["from"] for turn in made_up_rows({"dialog": "sharegpt"}, 1)[0]["dialog"]] == ["human", "gpt"]


def test_a_formatting_function() -> None:
    source = "def fmt(r):\n    return r['q'] + r['a']\ntrainer = SFTTrainer(model, formatting_func=fmt)\n"

    assert find_columns([source]) == {"q": "text", "a": "text"}


def test_a_text_field_from_the_command_line() -> None:
    assert find_columns([""], ["--dataset_text_field", "body"]) == {"body": "text"}


def test_a_source_that_does_not_parse() -> None:
    assert find_columns(["def ("]) == {"messages": "messages"}


def test_a_prompt_of_messages_has_answers_of_messages() -> None:
    source = """
from trl import DPOTrainer
rows = load_dataset("x")
print(rows["valid"]["prompt"][0][0]["content"])
trainer = DPOTrainer(model=model, train_dataset=rows["train"])
"""
    told = {"prompt": "message prompt", "chosen": "message answer", "rejected": "message answer"}
    assert find_columns([source]) == told


def test_enough_rows_for_select() -> None:
    assert rows_wanted(["d.select(range(10_000))"], 240) == 2_000
    assert rows_wanted(["d.select(range(min(len(d), 900)))"], 240) == 900
    assert rows_wanted(["range(n)"], 240) == 512
    assert rows_wanted([""], 3000) == 3000


def test_rows_are_made_the_same_twice_and_some_are_long() -> None:
    columns = find_columns(["d.map(lambda r: {'text': r['a']})"])
    rows = made_up_rows(columns, 40)

    assert rows == made_up_rows(columns, 40)
    lengths = sorted(len(row["a"].split()) for row in rows)
    assert lengths[0] < 17 and lengths[-1] >= 24


def test_a_document_that_is_a_list_of_conversations() -> None:
    source = """
def shown(talk):
    return "".join(f"<{turn['role']}>{turn['content']}" for turn in talk)

rows = {"prompt": [shown(talk) for talk in json.load(open(path))]}
"""
    (read,) = find_reads([source]).reads
    assert (read.form, read.document) == ("json", {"list": "messages"})


def test_tokenised_rows_have_one_length_and_learn_their_own_tokens() -> None:
    rows = made_up_rows(TOKENIZED, 8)
    assert all(row["labels"] == row["input_ids"] for row in rows) and rows[0] != rows[1]
    assert {len(row[name]) for row in rows for name in row} == {64}


def test_labels_that_are_compared_in_one_place_are_words_everywhere() -> None:
    source = """
import json
train = json.load(open("train.json"))
test = json.load(open("test.json"))
bad = [row for row in train if row["label"] == "clickbait"]
good = [row for row in train if row["label"] == "honest"]
found = [row["label"] for row in test] + [row["title"].strip() for row in test]
"""
    reads = find_reads([source]).reads
    assert [read.columns["label"] for read in reads] == [{"one of": ["clickbait", "honest"]}] * 2


def test_what_is_compared_with_a_length_is_a_number() -> None:
    source = """
import json
rows = json.load(open("rows.json"))
split = json.load(open("split.json"))
indices = split.get("train", [])
held = [rows[i]["prompt"] for i in indices if i < len(rows)]
"""
    document = find_reads([source]).reads[1].document
    assert document == {"fields": {"train": {"list": "number"}}}
