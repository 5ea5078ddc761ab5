"""Files that a script reads and that are not there: the project's of that name, the user's, or made up."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from porter.cli.validate import named_file
from porter.errors import InputError
from porter.validate.stand_ins.data.documents import made_up_pdf

from .observed import Project


@pytest.mark.real
def test_a_configuration_by_a_path_of_another_machine_is_the_projects_of_that_name(project: Project) -> None:
    (project.folder / "configs").mkdir()
    (project.folder / "configs" / "run.yaml").write_text("rate: 3\n")
    text = 'import yaml\nprint(yaml.safe_load(open("/work/of/nobody/run.yaml"))["rate"])\n'
    run = project.run(text, project=str(project.folder))
    assert run.stdout == "3\n", run.stderr
    assert "the project's configs/run.yaml was read for /work/of/nobody/run.yaml" in run.stderr
    (project.folder / "run.yaml").write_text("rate: 4\n")  # two of that name: which is not known
    run = project.again("port")
    assert "the configuration /work/of/nobody/run.yaml, which train.py:2 reads, is not there" in run.stderr


@pytest.mark.real
def test_a_real_file_by_its_name(project: Project, tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    real.write_text('{"q": "from the user"}\n')
    text = "import json\nprint([json.loads(line)['q'] for line in open('/nowhere/a.jsonl')])\n"
    assert "['from the user']" in project.run(text, files=(("a.jsonl", str(real)),)).stdout

    assert named_file("a=b=c") == ("a", Path("b=c"))
    with pytest.raises(InputError, match="NAME=FILE"):
        named_file("a.jsonl")


@pytest.mark.real
def test_the_folder_of_a_file_that_stands_in_is_there(project: Project) -> None:
    text = (
        "import pandas\nprint(open('assets/prompt.txt').read())\n"
        "pandas.DataFrame({'a': [1]}).to_csv('assets/made.csv')\n"
    )
    run = project.run(text)
    assert run.returncode == 0, run.stderr


@pytest.mark.real
def test_a_pdf_that_is_not_there_and_a_database_of_the_users(project: Project, tmp_path: Path) -> None:
    own = tmp_path / "own.db"
    with sqlite3.connect(own) as database:
        database.execute("create table asked (q text)")
    text = (
        "import sqlite3\nprint(open('documents/law.pdf', 'rb').read()[:8])\n"
        "print(sqlite3.connect('./data/all.db').execute('select name from sqlite_master').fetchall())\n"
    )
    run = project.run(text, files=(("data/all.db", str(own)),))
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
def test_a_placeholder_is_a_file_where_the_script_tells_its_form(project: Project) -> None:
    text = (
        "import json, os\nPATHS = {'data': r'Your dataset path', 'readme': 'LICENSE'}\n"
        "with open(PATHS['data'], encoding='utf-8') as file:\n    rows = json.load(file)\n"
        "print(rows[0]['q'].strip())\nassert not os.path.exists('LICENSE')\nopen(PATHS['readme']).read()\n"
    )
    run = project.run(text)
    assert run.stdout.strip() and "No such file or directory: 'LICENSE'" in run.stderr
    assert "a made-up file (q) stood in for Your dataset path" in run.stderr
    project.script.write_text(text.replace("PATHS", "NAMES"))  # a port is another text
    assert project.again("port").stdout == run.stdout


@pytest.mark.real
def test_a_compressed_table_and_rows_that_are_held_out_to_be_packed(project: Project) -> None:
    text = (
        "import gzip\nimport pandas as pd\nfrom datasets import load_dataset\n"
        "with gzip.open('rows.tsv.gz', 'rt', encoding='utf-8') as file:\n    table = pd.read_csv(file, sep='\\t')\n"
        "print(list(table.columns), table['asked'].str.strip().all())\n"
        "print(len(load_dataset('nobody/nowhere')['test']))\n"
    )
    run = project.run(text + "# packing=True\n")
    assert run.stdout.splitlines() == ["['asked'] True", "256"], run.stderr


@pytest.mark.parametrize("files", ["'a.jsonl'", "{'train': ['a.jsonl'], 'test': 'b.jsonl'}"])
def test_what_git_lfs_leaves_is_no_dataset(files: str, project: Project) -> None:
    (project.folder / "a.jsonl").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:3\nsize 9\n")
    (project.folder / "b.jsonl").write_text('{"text": "here"}\n')
    text = f"from datasets import load_dataset\nrows = load_dataset('json', data_files={files})\n"
    text += "print(len(rows['train'][0]['text']) > 0)\n"
    done = project.run(text)
    assert done.stdout.strip() == "True" and "Git LFS has left a pointer" in done.stderr, done.stderr
