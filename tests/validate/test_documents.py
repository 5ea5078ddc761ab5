"""JSON documents that scripts read: a made-up one has the shape that the reading code goes through."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from porter.validate.observing.settings import Settings
from porter.validate.stand_ins.data.columns import find_reads
from porter.validate.stand_ins.data.missing_files import write_file
from porter.validate.stand_ins.data.plan import DOCUMENT, DataPlan
from porter.validate.stand_ins.data.repair import propose_repair

LOADS = 'data = json.load(open("data.json"))\n'
READS = {
    "a mapping by its items": "rows = [f\"{key}: {row['question']}\" for key, row in data.items()]",
    "a mapping of lists": 'rows = [each["q"] + each["a"] for key, group in data.items() for each in group]',
    "a mapping by its keys": (
        'rows = []\nfor key in data:\n    entry = data[key]\n    rows.append(entry["title"] + " ".join(entry["parts"]))'
    ),
    "a mapping by its sorted keys": 'rows = [data[name]["body"].strip() for name in sorted(data.keys())]',
    "a mapping inside": (
        'rows = []\nfor node in data["mapping"].values():\n    said = node["message"]\n'
        '    rows.append(said["author"]["role"] + "".join(said["content"]["parts"]))'
    ),
    "pairs": 'rows = [question + " " + answer for question, answer in data]',
    "triples in a loop": "rows = []\nfor one, two, three in data:\n    rows.append(one + two + three)",
    "a third item": 'rows = [row["answers"][3] + row["answers"][0] for row in data]',
    "lists of turns": 'rows = [turn["speaker"] + ": " + turn["text"] for talk in data for turn in talk]',
    "four levels": (
        'rows = [answer["text"][:9] for group in data["data"] for part in group["paragraphs"] for ask in part["qas"]\n'
        '        for answer in ask["answers"]]'
    ),
    "turns of a conversation": 'rows = [row["conversations"][0]["value"] for row in data]',
    "an id beside texts": 'rows = [row["question"] + row["query"] + row["db_id"] for row in data]',
}


def made(source: str, columns: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """What the plan decides for the first file that `source` reads."""
    settings = Settings(steps=4, work=str(tmp_path), sources=(source,), columns=columns)
    plan = DataPlan(settings, "source", [])
    return plan.entry("data.json", next(read for read in plan.found.reads if read.kind == "file"))


def run(source: str, entry: dict[str, Any], tmp_path: Path) -> list[Any]:
    """The rows that `source` makes of a file of this entry."""
    write_file(tmp_path / "data.json", ".json", {**entry, "count": 8})
    names: dict[str, Any] = {"json": json, "random": random, "Path": Path}
    code = source.replace('"data.json"', repr(str(tmp_path / "data.json")))
    exec(compile(code, str(tmp_path / "train.py"), "exec"), names)
    return list(names["rows"])


@pytest.mark.parametrize("form", READS)
def test_reading_finds_the_shape_of_a_document(form: str, tmp_path: Path) -> None:
    source = LOADS + READS[form] + "\n"
    assert len(run(source, made(source, {}, tmp_path), tmp_path)) >= 4


def test_a_document_that_a_path_reads_whole(tmp_path: Path) -> None:
    source = 'data = json.loads(Path("data.json").read_text())\nrows = [row["meta"]["title"].strip() for row in data]\n'
    assert find_reads([source]).reads[0].names[-1] == "data.json"
    assert len(run(source, made(source, {}, tmp_path), tmp_path)) == 8


@pytest.mark.parametrize(
    ("body", "form"),
    [
        ("rows = getattr(data, 'items')()", "mapping"),
        ("rows = [data[0]]", "list"),
        ("rows = data['train']", {"under": ["train"]}),
    ],
)
def test_running_tells_the_form_that_reading_missed(body: str, form: Any, tmp_path: Path) -> None:
    """Where the way of the data is lost, the crash asks for the other form, and the next run has it."""
    (tmp_path / "train.py").write_text(LOADS + body)
    wrong = {"fields": {"a": "text"}} if form == "list" else None
    entry = {"columns": {"text": "text"}, "form": "json", "document": wrong, "seed": 0, "limit": None}
    with pytest.raises((AttributeError, KeyError, TypeError)) as crash:
        run(LOADS + body, entry, tmp_path)
    import traceback

    frames = [frame for frame in traceback.extract_tb(crash.value.__traceback__) if frame.name == "<module>"]
    asked = propose_repair(crash.value, frames, {"data.json": entry})
    assert asked is not None and (asked["column"], asked["kind"]) == (DOCUMENT, form)
    again = made(LOADS + "rows = [row['text'] for row in data]", {DOCUMENT: form}, tmp_path)
    assert len(run(LOADS + body, again, tmp_path)) >= 1
