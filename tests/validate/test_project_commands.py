"""Where a project shows how its script is started, and how far up the project reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.validate.stand_ins.command_line.command_lines import commands_for, configs_of, packages_in, project_of


def test_where_a_project_shows_command_lines(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "src"
    inner.mkdir()
    script = inner / "train.py"
    script.write_text('"""Use: python -m src.train --lr 1"""\nlr = epochs = 0\n')
    (tmp_path / "run.sh").write_text("python src/train.py --lr ${LR:-2} > log\n# python src/train.py --lr 9\n")
    (tmp_path / "a.json").write_text('{"lr": 1, "epochs": 2}')

    (tmp_path / "rows.json").write_text("[]")
    script.write_text(script.read_text() + "python train.py --rows ../rows.json\n")
    assert commands_for(script, tmp_path)[-1].words == ("--rows", str(inner / "../rows.json"))
    (tmp_path / "README.md").write_text("cd src\npython train.py --epochs 2 --rows ../rows.json\n")
    shown = next(one.words for one in commands_for(script, tmp_path) if one.where == "README.md")
    assert shown == ("--epochs", "2", "--rows", str(inner / "../rows.json"))
    assert project_of(script) == tmp_path
    assert next(shown.words for shown in commands_for(script, tmp_path)) == ("--lr", "2")
    assert [path.name for path, _ in configs_of(script, tmp_path)] == ["a.json"]


@pytest.mark.parametrize(
    "end", ["> log", "&> ./logs/sft.txt", "&>>log", "2>&1 | tee log", "1>log", "2> /dev/null", "&"]
)
def test_where_a_shell_sends_the_output_is_no_word_of_the_script(end: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("lr = 0\n")
    (tmp_path / "run.sh").write_text(f"python train.py \\\n  --lr 2 {end}\n")

    assert [shown.words for shown in commands_for(tmp_path / "train.py", tmp_path)] == [("--lr", "2")]


def test_a_project_reaches_up_to_the_modules_that_its_script_imports(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("")
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "data.py").write_text("rows = []\n")
    part = tmp_path / "full"
    part.mkdir()
    (part / "README.md").write_text("")
    script = part / "train.py"
    script.write_text("from common.data import rows\nimport json\n")
    assert project_of(script) == tmp_path
    script.write_text("import json\n")
    assert project_of(script) == part
    (part / "common.py").write_text("")
    script.write_text("import common\n")
    assert project_of(script) == part


def test_a_script_that_puts_a_folder_on_the_path_itself_has_it_copied(tmp_path: Path) -> None:
    script = tmp_path / "work" / "tools" / "deeper" / "train.py"
    script.parent.mkdir(parents=True)
    (tmp_path / "work" / "helpers.py").write_text("")
    told = "import sys\nsys.path.insert(0, str(Path(__file__).parent.parent.parent))\n"
    script.write_text(told + "from helpers import rows\n")
    assert project_of(script) == tmp_path / "work"
    script.write_text("from helpers import rows\n")  # an installed library's, as far as anything tells
    assert project_of(script) == script.parent
    script.write_text(told)
    assert project_of(script) == script.parent


def test_packages_of_a_project_are_those_that_pip_would_install(tmp_path: Path) -> None:
    (tmp_path / "utils" / "src").mkdir(parents=True)
    (tmp_path / "utils" / "setup.py").write_text("")
    (tmp_path / "docs").mkdir()
    assert packages_in(tmp_path) == [tmp_path / "utils" / "src", tmp_path / "utils"]


def test_what_a_reader_is_to_fill_in_falls_with_its_flag(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("lr = 0\n")
    (tmp_path / "README.md").write_text(
        "`python train.py --config a.json --epochs <number of epochs> --out=<folder> --lr 2`\n"
    )
    deep = tmp_path / "jobs" / "en" / "100"
    deep.mkdir(parents=True)
    (deep / "big.sh").write_text("python ./train.py --lr 3\n")
    shown = [shown.words for shown in commands_for(tmp_path / "train.py", tmp_path)]
    assert shown == [("--config", "a.json", "--lr", "2"), ("--lr", "3")]
