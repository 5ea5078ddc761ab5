"""Made-up rows, files and datasets: the same twice, in the form that is read, and giving way when running asks."""

from __future__ import annotations

import ast
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from porter.cli.validate import named_file
from porter.errors import InputError
from porter.validate.observing.settings import Settings
from porter.validate.stand_ins.data.documents import made_up_pdf
from porter.validate.stand_ins.data.known import known_dataset
from porter.validate.stand_ins.data.rows import made_up_rows, made_up_value
from porter.validate.stand_ins.substitutes import Substitutes

from . import forked

OBSERVED = """
import sys
from pathlib import Path
from porter.validate.observing.settings import Settings
from porter.validate.stand_ins.substitutes import Substitutes, patch_loaders
from porter.validate.running.script import run_script
work, side, script = sys.argv[1:]
substitutes = Substitutes(Settings.load(f"{work}/settings.json"), side, [])
patch_loaders(substitutes)
code = run_script(script, [], Path(work) / side)
print("\\n".join(substitutes.notes), file=sys.stderr)
sys.exit(code)
"""

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


def observed(work: Path, side: str, script: Path) -> CompletedProcess[str]:
    (work / side).mkdir()
    return forked.run(OBSERVED, work, side, script, cwd=script.parent)


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, Path]:
    work, folder = tmp_path / "work", tmp_path / "project"
    work.mkdir()
    folder.mkdir()
    return work, folder / "train.py"


def test_a_model_folder_of_the_project_that_is_not_there_stands_in_alike_on_both_sides(tmp_path: Path) -> None:
    """Its absolute path is another one in each script's copy of the project."""
    made = tmp_path / "stand_in" / "models--sft"
    made.mkdir(parents=True)
    (made / "stand_in.json").write_text(json.dumps({"family": "qwen2", "reason": ""}))
    for side in ("source", "port"):
        substitutes = Substitutes(Settings(work=str(tmp_path)), side, [], tmp_path / f"{side}-x")
        assert substitutes.model(str(tmp_path / f"{side}-x" / "copy" / "models" / "sft")) == str(made)
        assert substitutes.model(str(made)) == str(made)
        assert substitutes.notes == ["a tiny random qwen2 model stood in for models/sft"]


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4000000000\n"
INDEX = json.dumps({"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}})


@pytest.mark.parametrize(
    ("files", "stands"),
    [
        ({"model.safetensors": POINTER}, True),
        ({"model.safetensors.index.json": INDEX, "model-1-of-2.safetensors": "x"}, True),
        ({"model.safetensors.index.json": INDEX, "pytorch_model.bin": "x"}, False),  # whole in the other form
        ({"model.safetensors.index.json": "[]", "model.safetensors": "x"}, False),
        ({"model.safetensors": "x"}, False),
        ({"tokenizer.json": "{}"}, True),  # all but the weights, which are fetched before the script runs
        ({"tokenizer.json": "{}", "config.json": ""}, False),  # a tokenizer's folder
    ],
)
def test_a_model_folder_without_its_weights_has_a_stand_in(
    tmp_path: Path, files: dict[str, str], stands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repositories keep config and index, and the weights elsewhere: the source ended in safetensors."""
    local = tmp_path / "mistral"
    local.mkdir()
    for name, text in {"config.json": "{}", **files}.items():
        if text:
            (local / name).write_text(text)
    substitutes = Substitutes(Settings(work=str(tmp_path / "work")), "source", [], tmp_path / "work" / "source")
    monkeypatch.setattr(substitutes, "_stand_in", lambda name, config: ("made", "mistral", ""))
    assert substitutes.model(str(local)) == ("made" if stands else str(local))


@pytest.mark.real
def test_a_configuration_by_a_path_of_another_machine_is_the_projects_of_that_name(project: tuple[Path, Path]) -> None:
    work, script = project
    (script.parent / "configs").mkdir()
    (script.parent / "configs" / "run.yaml").write_text("rate: 3\n")
    text = 'import yaml\nprint(yaml.safe_load(open("/work/of/nobody/run.yaml"))["rate"])\n'
    settings(work, script, text, project=str(script.parent))
    run = observed(work, "source", script)
    assert run.stdout == "3\n", run.stderr
    assert "the project's configs/run.yaml was read for /work/of/nobody/run.yaml" in run.stderr
    (script.parent / "run.yaml").write_text("rate: 4\n")  # two of that name: which is not known
    run = observed(work, "port", script)
    assert "the configuration /work/of/nobody/run.yaml, which train.py:2 reads, is not there" in run.stderr


def settings(work: Path, script: Path, text: str, **more: Any) -> None:
    script.write_text(text)
    Settings(work=str(work), steps=4, sources=(text,), **more).save(work / "settings.json")


@pytest.mark.real
def test_every_way_of_reading_and_the_same_rows_in_the_port(
    project: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    work, script = project
    settings(work, script, SCRIPT)

    source, port = observed(work, "source", script), observed(work, "port", script)

    assert source.returncode == 0, source.stderr
    assert port.returncode == 0, port.stderr
    assert source.stdout.splitlines()[1:] == port.stdout.splitlines()[1:]
    ours, theirs = (json.loads(run.stdout.splitlines()[0]) for run in (source, port))
    assert ours["text"] == theirs["text"] and len(set(ours["text"])) == 5
    assert "column extra_column was added" in source.stderr and "column extra_column was added" not in port.stderr
    assert "stood in for data/a.jsonl" in source.stderr
    assert [path.name for path in script.parent.iterdir()] == ["train.py"]


FILTERED = """
from datasets import load_dataset
batch = dict(per_device_train_batch_size=2, gradient_accumulation_steps=8)
print(len(load_dataset("nobody/nowhere", split="train").filter(lambda row: len(row["lang"]) > 10**9)))
"""


@pytest.mark.real
def test_a_filter_leaves_rows_for_all_steps(project: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Four steps of 16 rows, and a quarter more that the script may hold out."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    work, script = project
    settings(work, script, FILTERED)
    assert observed(work, "source", script).stdout.split() == ["80"]


@pytest.mark.real
def test_a_crash_proposes_what_to_add_and_a_missing_configuration_is_named(project: tuple[Path, Path]) -> None:
    work, script = project
    text = "import json\nrows = json.load(open('a.json'))\nprint(rows[0]['q'])\nfor row in rows:\n    row[chr(98)]\n"
    settings(work, script, text)
    assert observed(work, "source", script).returncode == 1
    proposal = json.loads((work / "source" / "repair.json").read_text())
    assert (proposal["column"], proposal["kind"]) == ("b", "text")

    settings(work, script, "import yaml\nyaml.safe_load(open('train.yaml'))\n")
    (work / "source").rename(work / "before")
    run = observed(work, "source", script)
    assert "the configuration train.yaml, which train.py:2 reads, is not there" in run.stderr


@pytest.mark.real
def test_a_real_file_by_its_name(project: tuple[Path, Path], tmp_path: Path) -> None:
    work, script = project
    real = tmp_path / "real.jsonl"
    real.write_text('{"q": "from the user"}\n')
    text = "import json\nprint([json.loads(line)['q'] for line in open('/nowhere/a.jsonl')])\n"
    settings(work, script, text, files=(("a.jsonl", str(real)),))
    assert "['from the user']" in observed(work, "source", script).stdout

    assert named_file("a=b=c") == ("a", Path("b=c"))
    with pytest.raises(InputError, match="NAME=FILE"):
        named_file("a.jsonl")


@pytest.mark.real
def test_the_folder_of_a_file_that_stands_in_is_there(tmp_path: Path) -> None:
    script = tmp_path / "copy" / "train.py"
    script.parent.mkdir()
    text = (
        "import pandas\nprint(open('assets/prompt.txt').read())\n"
        "pandas.DataFrame({'a': [1]}).to_csv('assets/made.csv')\n"
    )
    settings(tmp_path, script, text)
    run = observed(tmp_path, "source", script)
    assert run.returncode == 0, run.stderr


@pytest.mark.real
def test_a_pdf_that_is_not_there_and_a_database_of_the_users(tmp_path: Path) -> None:
    script, own = tmp_path / "copy" / "train.py", tmp_path / "own.db"
    script.parent.mkdir()
    with sqlite3.connect(own) as database:
        database.execute("create table asked (q text)")
    text = (
        "import sqlite3\nprint(open('documents/law.pdf', 'rb').read()[:8])\n"
        "print(sqlite3.connect('./data/all.db').execute('select name from sqlite_master').fetchall())\n"
    )
    settings(tmp_path, script, text, files=(("data/all.db", str(own)),))
    run = observed(tmp_path, "source", script)
    assert run.stdout.splitlines() == ["b'%PDF-1.4'", "[('asked',)]"], run.stderr


def test_a_made_up_pdf_has_its_lines_and_says_where_its_parts_are() -> None:
    """Read alike by pypdf 6 and pdfplumber 0.11, which aren't installed here."""
    data = made_up_pdf(["one (two) \\ three"] + ["more " * 40] * 40)
    assert rb"(one \(two\) \\ three) Tj" in data
    table = int(data.rsplit(b"startxref\n", 1)[1].split()[0])
    assert data[table:].startswith(b"xref\n")
    places = [int(line[:10]) for line in data[table:].splitlines()[3:] if line.endswith(b" n ")]
    assert places and all(data[place:].startswith(f"{number} 0 obj".encode()) for number, place in enumerate(places, 1))
    assert data.count(b"/Type /Page ") == 3  # of 50 lines each


@pytest.mark.real
def test_what_the_tool_itself_asks_for_is_not_the_scripts_question(tmp_path: Path) -> None:
    """The script would end without what that line gives: a stand-in's own answer was taken for its data file."""
    script = tmp_path / "copy" / "train.py"
    script.parent.mkdir()
    text = (
        "from transformers import AutoTokenizer\ntokenizer = AutoTokenizer.from_pretrained('org/llama-2-7b-hf')\n"
        "assert tokenizer != None\nprint(tokenizer.eos_token)\n"
    )
    settings(tmp_path, script, text)
    run = observed(tmp_path, "source", script)
    assert run.stdout.strip() == "</s>", run.stderr


@pytest.mark.real
def test_a_placeholder_is_a_file_where_the_script_tells_its_form(project: tuple[Path, Path]) -> None:
    work, script = project
    text = (
        "import json, os\nPATHS = {'data': r'Your dataset path', 'readme': 'LICENSE'}\n"
        "with open(PATHS['data'], encoding='utf-8') as file:\n    rows = json.load(file)\n"
        "print(rows[0]['q'].strip())\nassert not os.path.exists('LICENSE')\nopen(PATHS['readme']).read()\n"
    )
    settings(work, script, text)
    run = observed(work, "source", script)
    assert run.stdout.strip() and "No such file or directory: 'LICENSE'" in run.stderr
    assert "a made-up file (q) stood in for Your dataset path" in run.stderr
    script.write_text(text.replace("PATHS", "NAMES"))  # a port is another text
    assert observed(work, "port", script).stdout == run.stdout


@pytest.mark.real
def test_rows_that_are_held_out_by_the_real_data_s_size(project: tuple[Path, Path]) -> None:
    work, script = project
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
    settings(work, script, "\n".join(lines))
    run = observed(work, "source", script)
    assert run.returncode == 0, run.stderr
    first, second = ([int(word) for word in line.split()] for line in run.stdout.splitlines())
    assert first[0] == 20 and first[1] == first[2] == -(-first[3] // 4)
    assert sum(second) == first[3] and min(second) > 0


@pytest.mark.real
def test_what_is_asked_of_a_dataset_before_it_is_loaded(
    project: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    work, script = project
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
        settings(work, script, "\n".join(lines))
        run = observed(work, side, script)
        assert run.stdout.splitlines() == [" 512 default", "['default'] True", "True", "['tale'] ['tale']"], run.stderr


@pytest.mark.real
def test_weights_of_the_scripts_own_module_that_are_not_there(project: tuple[Path, Path]) -> None:
    """A reward model's: it scores alike on both sides, whatever was drawn before."""
    work, script = project
    lines = (
        "import os, sys, torch",
        "torch.rand(len(sys.argv[0]))",
        "scorer = torch.nn.Sequential(torch.nn.Linear(3, 1))",
        "held = torch.load('/nowhere/best.pth', map_location='cpu')",
        "print(scorer.load_state_dict(held['model']))",
        "print(scorer(torch.ones(3)).item())",
        "print(scorer.load_state_dict({name[7:]: value for name, value in held.items()}).missing_keys)",
        "try:\n    torch.load('other.pth')\nexcept FileNotFoundError:\n    print('begins anew')",
        "def rows(): return torch.load('rows.pt')",
        "try:\n    rows()\nexcept FileNotFoundError:\n    print('no rows')",
        "def read(): print(rows())",
        "try:\n    len('')\n    read()\nexcept KeyError:\n    print('never')\nexcept OSError:\n    print('named')",
        "torch.save(scorer.state_dict(), 'mine.pth')",
        "scorer.load_state_dict(torch.load('mine.pth'))",
    )
    found = []
    for side in ("source", "port"):
        settings(work, script, "\n".join([*lines, f"# {side}"]))
        run = observed(work, side, script)
        found.append(run.stdout.splitlines())
        assert "random weights stood in for /nowhere/best.pth, which is not there, in Sequential" in run.stderr
    assert found[0] == found[1]
    assert found[0][0] == "<All keys matched successfully>" and found[0][2:] == [
        "[]",
        "begins anew",
        "no rows",
        "named",
    ]


@pytest.mark.real
def test_all_columns_that_are_removed_are_those_too_that_came_late(project: tuple[Path, Path]) -> None:
    work, script = project
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
        settings(work, script, "\n".join(lines))
        run = observed(work, side, script)
        assert run.returncode == 0, run.stderr
        first, second = run.stdout.splitlines()
        assert first == "['ids'] ['ids']" and {"n", "otherunseen"} <= set(ast.literal_eval(second))


def test_a_column_changes_no_other_and_one_row_in_eight_is_cut() -> None:
    alone = made_up_rows({"a": "text"}, 64, limit=300)
    with_more = made_up_rows({"b": "messages", "a": "text"}, 64, limit=300)

    assert [row["a"] for row in alone] == [row["a"] for row in with_more]
    assert sum(len(row["a"].split()) > 300 for row in alone) == 8
    assert max(len(row["a"].split()) for row in made_up_rows({"a": "text"}, 64, limit=2048)) < 100
    assert len({row["a"] for row in alone}) == 64


def test_pairs_share_their_prompt_and_turns_alternate() -> None:
    for row in made_up_rows({"prompt": "text", "chosen": "messages", "rejected": "messages"}, 32):
        assert row["chosen"][:-1] == row["rejected"][:-1] and row["chosen"][-1] != row["rejected"][-1]
        assert [turn["role"] for turn in row["chosen"]][:2] == ["user", "assistant"]
        assert len(row["chosen"]) % 2 == 0


def test_texts_of_known_forms() -> None:
    assert "\n#### " in made_up_value("answer", "gsm8k", 3)
    assert made_up_value("text", "guanaco", 3).startswith("### Human: ")
    chosen, rejected = (made_up_value(name, "hh", 5) for name in ("chosen", "rejected"))
    end = chosen.rindex("\n\nAssistant: ")
    assert chosen[:end] == rejected[:end] and chosen != rejected
    assert json.loads(made_up_value("tools", {"json": {"list": {"fields": {"name": "text"}}}}, 0))[0]["name"]
    assert {made_up_value("label", {"one of": [0, 1]}, index) for index in range(9)} == {0, 1}


def test_the_table_of_known_datasets() -> None:
    found = known_dataset("HuggingFaceH4/UltraChat_200k")
    assert found is not None and found[0]["messages"] == "messages" and found[1][0] == "train_sft"
    assert known_dataset("nobody/nowhere") is None


def test_pairs_that_have_their_prompt_beside_them() -> None:
    found = known_dataset("trl-lib/hh-rlhf-helpful-base")
    assert found is not None
    for row in made_up_rows(found[0], 8):
        assert row["prompt"][-1]["role"] == "user"
        assert [[turn["role"] for turn in row[name]] for name in ("chosen", "rejected")] == [["assistant"]] * 2
        assert row["chosen"] != row["rejected"]


def test_prompts_of_humaneval_hold_a_docstring() -> None:
    found = known_dataset("openai_humaneval")
    assert found is not None
    assert all(row["prompt"].count('"""') == 2 for row in made_up_rows(found[0], 8))


def test_a_projects_own_package_is_no_library(project: tuple[Path, Path]) -> None:
    """`python agents/train.py` doesn't see the `datasets` package of the folder that it is started in."""
    work, script = project
    own = script.parent / "datasets"
    own.mkdir()
    (own / "__init__.py").touch()
    (script.parent / "agents").mkdir()
    script = script.parent / "agents" / "train.py"
    script.write_text("from datasets import Dataset\nprint(len(Dataset.from_list([{'a': 1}])))\n")
    text = "import sys\nfrom porter.validate.running.script import search_only_libraries, run_script\n"
    text += "search_only_libraries(sys.argv[1])\nimport datasets\nprint(datasets.Dataset.__name__)\n"
    text += "from pathlib import Path\nsys.exit(run_script(sys.argv[2], [], Path(sys.argv[1])))\n"
    done = subprocess.run(
        [sys.executable, "-c", text, work, script], capture_output=True, text=True, cwd=own.parent, check=False
    )
    assert done.returncode == 0 and done.stdout.split() == ["Dataset", "1"], done.stderr


def test_a_folder_around_the_copy_has_one_name_on_both_sides(tmp_path: Path) -> None:
    settings = Settings(work=str(tmp_path))
    names = {
        Substitutes(settings, side, [], None).missing.name_of(f"{tmp_path}/{side}-7/{inner}models/llama")
        for side in ("source", "port")
        for inner in ("", "copy/")
    }
    assert names == {"models/llama"}


@pytest.mark.parametrize("files", ["'a.jsonl'", "{'train': ['a.jsonl'], 'test': 'b.jsonl'}"])
def test_what_git_lfs_leaves_is_no_dataset(files: str, project: tuple[Path, Path]) -> None:
    work, script = project
    (script.parent / "a.jsonl").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:3\nsize 9\n")
    (script.parent / "b.jsonl").write_text('{"text": "here"}\n')
    text = f"from datasets import load_dataset\nrows = load_dataset('json', data_files={files})\n"
    text += "print(len(rows['train'][0]['text']) > 0)\n"
    script.write_text(text)
    Settings(work=str(work), sources=(text,)).save(work / "settings.json")
    done = observed(work, "source", script)
    assert done.stdout.strip() == "True" and "Git LFS has left a pointer" in done.stderr, done.stderr
