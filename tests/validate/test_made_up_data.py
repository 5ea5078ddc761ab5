"""Made-up datasets: every way of reading them, the same rows in the port, and giving way when running asks."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from .observed import Project

SCRIPT = """
import csv, json, os, sys
import pandas as pd
from datasets import Dataset, load_dataset, load_from_disk

name = "extra" + chr(95) + "column"  # static reading must not see it
rows = load_dataset("nobody/nowhere", split="train[:1%]").shuffle(seed=3).filter(lambda row: row["lang"] == "none such")
rows = rows.map(lambda row: {"text": row["question"] + row[name]}, remove_columns=["not there", "lang"], num_proc=2)
print(json.dumps(rows[:5]))
print(load_dataset("nobody/other")["train_sft"][0]["body"].strip())
assert os.path.exists("data/a.jsonl")
print([json.loads(line)["messages"][0]["content"] for line in open("data/a.jsonl")][-1])
print(pd.read_csv("b.csv")["review"].str.len().max())
print(load_from_disk("c")["train"]["story"][0])
print(Dataset.from_json("d.json")["tale"][0])
if not os.path.exists("runs/sft"):
    sys.exit("no checkpoint")
print(os.path.exists("cache"), os.path.exists("cache.json"), next(csv.DictReader(open("e.csv")))["name"])
"""


def test_rows_that_are_drawn_by_the_real_data_s_number(project: Project) -> None:
    lines = (
        "import random",
        "import pandas as pd",
        "assert not pd.DataFrame({'a': [1]}).empty",
        "try: random.sample([1, 2], 3)",
        "except ValueError: print('nothing is made up yet')",
        "rows = pd.read_csv('nowhere.csv')",
        "drawn = rows.sample(n=60000, random_state=42)",
        "assert sorted(drawn.index) == list(rows.index) and len(rows.sample(3)) == 3",
        "assert len(rows.sample(60000, replace=True)) == len(rows.sample(60000, None, True)) == 60000",
        "assert len(random.sample(rows.to_dict('records'), 60000)) == len(rows)",
    )
    run = project.run("\n".join(lines))
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "nothing is made up yet"
    assert "60000 rows were to be drawn" in run.stderr


@pytest.mark.real
def test_every_way_of_reading_and_the_same_rows_in_the_port(project: Project) -> None:
    source, port = project.run(SCRIPT), project.again("port")

    assert source.returncode == 0, source.stderr
    assert port.returncode == 0, port.stderr
    assert source.stdout.splitlines()[1:] == port.stdout.splitlines()[1:]
    ours, theirs = (json.loads(run.stdout.splitlines()[0]) for run in (source, port))
    assert ours["text"] == theirs["text"] and len(set(ours["text"])) == 5
    assert "column extra_column was added" in source.stderr and "column extra_column was added" not in port.stderr
    assert "stood in for data/a.jsonl" in source.stderr
    assert [path for path in project.folder.rglob("*") if path.is_file()] == [project.script]


FILTERED = """
from datasets import load_dataset
batch = dict(per_device_train_batch_size=2, gradient_accumulation_steps=8)
print(len(load_dataset("nobody/nowhere", split="train").filter(lambda row: len(row["lang"]) > 10**9)))
"""


@pytest.mark.real
def test_a_filter_leaves_rows_for_all_steps(project: Project) -> None:
    """Four steps of 16 rows, and a quarter more that the script may hold out."""
    assert project.run(FILTERED).stdout.split() == ["80"]


@pytest.mark.real
def test_a_crash_proposes_what_to_add_and_a_missing_configuration_is_named(project: Project) -> None:
    text = "import json\nrows = json.load(open('a.json'))\nprint(rows[0]['q'])\nfor row in rows:\n    row[chr(98)]\n"
    assert project.run(text).returncode == 1
    proposal = json.loads((project.work / "source" / "repair.json").read_text())
    assert (proposal["column"], proposal["kind"]) == ("b", "text")

    (project.work / "source").rename(project.work / "before")
    run = project.run("import yaml\nyaml.safe_load(open('train.yaml'))\n")
    assert "the configuration train.yaml, which train.py:2 reads, is not there" in run.stderr


@pytest.mark.real
def test_rows_that_are_held_out_by_the_real_data_s_size(project: Project) -> None:
    lines = (
        "from datasets import load_dataset",
        "rows = load_dataset('nobody/nowhere', split='train').shuffle(seed=3)",
        "count = len(rows)",
        "assert len(rows.select(range(5000))) == count",
        "parts = [rows.select(range(5000, 5020)), rows.select(range(5000, count)), rows.skip(5000)]",
        "print(*map(len, parts), count)",
        "print(*map(len, rows.train_test_split(test_size=10**6, train_size=10**7, shuffle=False).values()))",
        "assert len(rows.select(range(0))) == len(rows.select([])) == 0",
        "assert len(rows.select(range(2))) == 2",
        "assert rows[30000] == rows[30000 % count] and [row for row in rows][-1] == rows[-1]",
        "assert len(rows.select(range(int(0.004 * len(rows))))) > 8",  # a share of many more
        "assert rows.add_column(rows.column_names[0], [7] * count)[0][rows.column_names[0]] == 7",
    )
    run = project.run("\n".join(lines))
    assert run.returncode == 0, run.stderr
    first, second = ([int(word) for word in line.split()] for line in run.stdout.splitlines())
    assert first[0] == 20 and first[1] == first[2] == -(-first[3] // 4)
    assert sum(second) == first[3] and min(second) > 0


@pytest.mark.real
def test_what_is_asked_of_a_dataset_before_it_is_loaded(project: Project) -> None:
    lines = (
        "from datasets import get_dataset_config_names, get_dataset_split_names, load_dataset, load_dataset_builder",
        "names = get_dataset_config_names('nobody/nowhere')",
        "builder = load_dataset_builder('nobody/nowhere')",
        "print(builder.info.description, builder.info.splits['train'].num_examples, builder.info.config_name)",
        "print(names, 'train' in get_dataset_split_names('nobody/nowhere', 'main'))",
        "rows = load_dataset('nobody/nowhere', split='train')",
        "other = load_dataset('nobody/other', split='train').map(lambda row: {'text': row['story']})",
        "print([row['tale'] for row in rows][:2] == builder.as_dataset(split='train')['tale'][:2])",
        "print(sorted(builder.info.features), rows.column_names)",
    )
    for side in ("source", "port"):
        run = project.run("\n".join(lines), side)
        assert run.stdout.splitlines() == [" 512 default", "['default'] True", "True", "['tale'] ['tale']"], run.stderr


@pytest.mark.real
def test_all_columns_that_are_removed_are_those_too_that_came_late(project: Project) -> None:
    lines = (
        "from datasets import load_dataset",
        "rows = load_dataset('nobody/nowhere', split='train').train_test_split(test_size=4)",
        "name = 'un' + 'seen'",
        "def ids(batch): return {'ids': [[len(text)] for text in batch[name]]}",
        "made = rows.map(ids, batched=True, remove_columns=rows['train'].column_names)",
        "print(made['train'].column_names, made['test'].column_names)",
        "some = rows.map(lambda row: {'n': row['other' + name]}, remove_columns=['absent'])",
        "print(sorted(some['train'].column_names))",
    )
    for side in ("source", "port"):
        run = project.run("\n".join(lines), side)
        assert run.returncode == 0, run.stderr
        first, second = run.stdout.splitlines()
        assert first == "['ids'] ['ids']" and {"n", "otherunseen"} <= set(ast.literal_eval(second))


OUT = [
    "rows.map(lambda row: {'text': row['body']}, remove_columns=rows.column_names)",
    "rows.remove_columns(['body', 'prompt'])",
    "rows.select_columns(['answer'])",
    "rows.remove_columns('prompt').add_column('answer', rows['answer'])",
    "rows.remove_columns('prompt').map(lambda row: {'n': row['un' + chr(95) + 'seen']})",
]


@pytest.mark.real
def test_what_the_script_takes_out_is_not_made_up_again(project: Project) -> None:
    lines = (
        "from datasets import load_dataset",
        "rows = load_dataset('nobody/nowhere', split='train')",
        "[row['body'] + row['prompt'] + row['answer'] for row in rows]",
        "def is_there(name, made):",
        "    try: made.map(lambda row: {'n': len(row[name])})",
        "    except KeyError: return False",
        "    return True",
        f"print(*(is_there('pro' + 'mpt', made) for made in ({', '.join(OUT)})))",
        "name = 'late' + chr(95) + 'column'",  # which isn't read before the script runs
        "made = rows.map(lambda row: {'n': row[name]}, remove_columns=rows.column_names)",
        "print(is_there(name, rows), is_there(name, made))",
    )
    run = project.run("\n".join(lines))
    assert run.stdout.splitlines() == [" ".join(["False"] * len(OUT)), "True False"], run.stderr


def test_a_projects_own_package_is_no_library(project: Project) -> None:
    """`python agents/train.py` doesn't see the `datasets` package of the folder that it is started in."""
    own = project.folder / "datasets"
    own.mkdir()
    (own / "__init__.py").touch()
    (project.folder / "agents").mkdir()
    script = project.folder / "agents" / "train.py"
    script.write_text("from datasets import Dataset\nprint(len(Dataset.from_list([{'a': 1}])))\n")
    text = "import sys\nfrom porter.validate.running.script import search_only_libraries, run_script\n"
    text += "search_only_libraries(sys.argv[1])\nimport datasets\nprint(datasets.Dataset.__name__)\n"
    text += "from pathlib import Path\nsys.exit(run_script(sys.argv[2], [], Path(sys.argv[1])))\n"
    done = subprocess.run(
        [sys.executable, "-c", text, project.work, script], capture_output=True, text=True, cwd=own.parent, check=False
    )
    assert done.returncode == 0 and done.stdout.split() == ["Dataset", "1"], done.stderr
