"""Datasets that a script makes, which today's library refuses."""

from __future__ import annotations

import re
from pathlib import Path

import datasets
import pytest

from porter.front.port_file import port_file

from ..engine.porting import port, rule_module, sft_script


def said(line: str, before: str = "") -> list[tuple[str, str]]:
    found = port(sft_script(before, after=f"trainer.train()\n{line}", imports="import argparse"))
    return [(each.severity, each.fix) for each in found.findings if each.rule == "TP531"]


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("load_dataset('samsum')", '"knkarthick/samsum" has its rows'),
        ("load_dataset(path='Samsung/samsum', split='train')", '"knkarthick/samsum"'),
        ("NAME = 'conll2003'\nload_dataset(NAME)", 'revision="refs/convert/parquet"'),
        ("load_dataset(args.data)", '"nthngdy/piqa"'),
        ("load_dataset('loaders/rows.py')", "datasets<4"),
    ],
)
def test_what_ends_the_port_is_an_error(line: str, fix: str) -> None:
    parser = (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--data', default='piqa')\nargs = parser.parse_args()"
    )
    [(severity, found)] = said(line, parser)
    assert severity == "error" and fix in found


@pytest.mark.parametrize(
    "line",
    [
        "load_dataset('conll2003', revision='refs/convert/parquet')",
        "load_dataset('imdb')",
        "load_dataset('json', data_files='samsum.json')",
        "load_dataset(**given)",
        "if False:\n    load_dataset('samsum')",
    ],
)
def test_others_are_not(line: str) -> None:
    assert said(line) == []


def test_code_that_is_trusted_is_noted() -> None:
    [(severity, _)] = said("load_dataset('me/rows', trust_remote_code=True)")
    assert severity == "info" and said("load_dataset('me/rows', trust_remote_code=False)") == []


def test_a_folder_with_a_script_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    path = tmp_path / "train.py"
    path.write_text(sft_script(after="trainer.train()\nload_dataset('rows')"))
    assert not [each for each in port_file(path).findings if each.rule == "TP531"]
    (tmp_path / "rows" / "rows.py").write_text("import datasets\n")
    assert [each.severity for each in port_file(path).findings if each.rule == "TP531"] == ["error"]


def test_a_folder_of_the_project_that_has_the_name_of_one(tmp_path: Path) -> None:
    (tmp_path / "samsum").mkdir()
    path = tmp_path / "train.py"
    path.write_text(sft_script(after="trainer.train()\nload_dataset('samsum')"))
    assert not [each for each in port_file(path).findings if each.rule == "TP531"]


def test_the_installed_library_refuses_them(tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text("import datasets\n")
    with pytest.raises(RuntimeError, match=re.escape("scripts are no longer supported")):
        datasets.load_dataset(str(tmp_path / "rows.py"))


def test_each_has_an_owner() -> None:
    known = rule_module("datasets", "dataset_scripts")
    assert all(name.count("/") == 1 for name in known.SCRIPTS) and len(known.FORMER) == len(known.SCRIPTS)
