"""Packs: loaded in order, told apart by their ids, and refused with one clear sentence when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.engine.packs.packs import load_packs
from porter.engine.packs.read_pack import load_pack
from porter.engine.packs.said_by_packs import dated_library, loader, title_of
from porter.errors import InputError
from porter.front.cases import run_cases
from porter.front.port_file import port_file
from porter.front.scaffold import new_pack
from porter.port import Options
from porter.tables import packs as built_in

from .porting import PLAIN, check_noop, write

TABLE = """\
class = "acme.SFTConfig"
extends = "trl.SFTConfig"
library = "acme"
newest = "1.0"

[fields.learning_rate]
place = "optimizer.learning_rate"
fate = "exact"
target = "the optimizer"
type = "float"
default = { "1.0" = "3e-4" }
help = "Rate."
"""
MANIFEST = """\
name = "acme"
version = "1"

[[table]]
id = "ACME1"
file = "table.toml"
role = "arguments"
"""


def pack(folder: Path, manifest: str = MANIFEST, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pack.toml").write_text(manifest)
    (folder / "table.toml").write_text(files.pop("table", TABLE))
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_the_built_in_packs() -> None:
    packs = load_packs()
    assert sorted(found.path for found in packs) == built_in()
    assert [found.name for found in packs][:2] == ["trl", "peft"]  # as a report names them
    ids = [rule.id for found in packs for rule in found.every_rule]
    assert len(ids) == len(set(ids)) and all(rule.title for found in packs for rule in found.every_rule)


def test_which_libraries_date_a_script_and_load_its_models_hangs_on_no_order(tmp_path: Path) -> None:
    own = pack(tmp_path / "acme", f'release_option = "--source-acme"\n{MANIFEST}\n[reads]\nacme = ">=1"\ntrl = ">=1"\n')
    for packs in (load_packs([own]), load_packs()[::-1]):
        assert (dated_library(packs), loader(packs).library) == ("trl", "transformers")
        assert (title_of(packs, "trl"), title_of(packs, "nobodys")) == ("TRL", "nobodys")


def test_a_pack_changes_nothing_where_its_names_do_not_stand(tmp_path: Path) -> None:
    check_noop("import acme\nprint(acme.SFTConfig('out'))\n", rules=(pack(tmp_path / "acme"),))


def test_own_packs_come_first(tmp_path: Path) -> None:
    own = pack(tmp_path / "acme")
    assert [found.name for found in load_packs([own])] == ["acme", *(found.name for found in load_packs())]
    text = PLAIN.replace("import SFTConfig, SFTTrainer", "import SFTTrainer\nfrom acme import SFTConfig")
    port = port_file(write(tmp_path, text), Options(rules=(own,)))
    assert "optax.linear_schedule(3e-4" in port.after and "acme" not in port.after


@pytest.mark.parametrize(
    ("manifest", "files", "said"),
    [
        ("name = ", {}, "is no TOML"),
        ("version = '1'", {}, "lacks 'name'"),
        (MANIFEST.replace('id = "ACME1"\n', ""), {}, "lacks 'id'"),
        (MANIFEST.replace("arguments", "config"), {}, "has role 'config'"),
        (MANIFEST.replace("table.toml", "none.toml"), {}, "is no field table"),
        (MANIFEST, {"table": "class = 1"}, "is no field table"),
        (MANIFEST, {"table": TABLE.replace('newest = "1.0"\n', "")}, "lacks newest"),
        (MANIFEST, {"table": TABLE.replace("trl.SFTConfig", "trl.None")}, "no field table for trl.None"),
        (MANIFEST, {"table": TABLE.replace('fate = "exact"\n', "")}, "is no field table"),
        (MANIFEST.replace("ACME1", "TP101"), {}, "rule TP101 of pack acme is also in pack trl"),
        (MANIFEST + '[[rule]]\nfile = "r.py"\n', {}, "names a rule file that does not exist"),
        (MANIFEST + '[[rule]]\nfile = "r.py"\n', {"r__py": "1 / 0"}, "ZeroDivisionError"),
        (MANIFEST + '[[rule]]\nfile = "r.py"\n', {"r__py": "'doc'"}, "has no attribute 'ID'"),
        (
            MANIFEST + '[[rewrite]]\nid = "A"\nmatch = "a.b"\naction = "delete"\nreason = "r"\n',
            {},
            "has action 'delete'",
        ),
        (MANIFEST + '[[rewrite]]\nid = "A"\nmatch = "a.b"\naction = "remove"\n', {}, "lacks 'reason'"),
    ],
)
def test_a_pack_that_fails_to_load(tmp_path: Path, manifest: str, files: dict[str, str], said: str) -> None:
    folder = pack(tmp_path / "acme", manifest, **files)
    with pytest.raises(InputError) as error:
        load_packs([folder])
    assert said in str(error.value) and str(folder) in str(error.value) and "\n" not in str(error.value)


def test_a_folder_without_a_pack(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no pack\.toml"):
        load_pack(tmp_path)


def test_a_new_pack_passes_its_cases_and_they_can_fail(tmp_path: Path) -> None:
    folder = tmp_path / "our-rules"
    new_pack(folder)
    assert [result.passed for result in run_cases(folder)] == [True, True]
    after = folder / "cases" / "settings" / "after.py"
    after.write_text(after.read_text().replace("rank=32", "rank=33"))
    same = folder / "cases" / "same_names.py"
    same.write_text((folder / "cases" / "settings" / "before.py").read_text())
    changed, kept = sorted(run_cases(folder), key=lambda result: result.name, reverse=True)
    assert not changed.passed and "-    [qwix.LoraRule(" in changed.detail and "+" in changed.detail
    assert not kept.passed and "must not change" in kept.detail


def test_cases_of_a_few_lines(tmp_path: Path) -> None:
    folder = tmp_path / "our-rules"
    new_pack(folder)
    case = folder / "cases" / "notify.toml"
    lines = 'imports = "import our_rules"\nbehind = "our_rules.notify(1)"\n'

    def result(text: str) -> tuple[bool, str]:
        case.write_text(text)
        (found,) = [each for each in run_cases(folder) if each.name == case.name]
        return found.passed, found.detail

    assert result(lines) == (True, "")
    passed, detail = result(f'{lines}adds = "print(1)"\ntakes = "print(2)"\nfindings = ["X"]\n')
    assert not passed and "-print(1)" in detail and "-print(2)" in detail and "findings are none" in detail
    passed, detail = result(f'{lines}[[more]]\nbehind = "our_rules.keep(1)"\n')
    assert not passed and "+our_rules.keep(1)" in detail
    for text, said in (
        ("adds = ''", "says nothing that the script has more"),
        (f"{lines}kind = 'PPO'", "kind is 'PPO'"),
        (f"{lines}remarks = 1", "unknown keys remarks"),
        ("adds", "is no TOML"),
        ("of = 'nowhere'", "of is 'nowhere'"),
        ("of = 'settings'", "swaps is no list of pairs"),
        ("of = 'settings'\nswaps = [['not there', 'x']]", "swaps 'not there'"),
    ):
        assert said in result(text)[1]
    swapped = """of = 'settings'\nswaps = [['notify("done")', 'print(1)']]\n"""
    passed, detail = result(swapped)
    assert not passed and "+print(1)" in detail
    assert result(f"{swapped}adds = 'import our_rules'") != (True, "")
    assert result(f'{swapped}adds = """\nfrom our_rules import notify\nprint(1)"""') == (True, "")


def test_a_cases_options_are_checked(tmp_path: Path) -> None:
    folder = tmp_path / "our-rules"
    new_pack(folder)
    (folder / "cases" / "settings" / "options.toml").write_text("proceses = 2\n")
    failed = [result for result in run_cases(folder) if not result.passed]
    assert [result.name for result in failed] == ["settings"] and "unknown keys proceses" in failed[0].detail


def test_rules_stand_in_folders_of_a_pack(tmp_path: Path) -> None:
    """They import what is shared, also of another folder; cases and names with an underscore are none."""
    folder = tmp_path / "acme"
    rule = '"""A rule.\n"""\n{}\nID = "{}"\nMATCHES = ("acme.{}()",)\ndef apply(site, porting): ...\n'
    files = {
        "pack.toml": 'name = "acme"\nversion = "1"\nrules = ["*.py", "*/*.py"]\n',
        "top.py": rule.format("from .saving._shared import WORDS", "ACME1", "f"),
        "saving/_shared.py": "WORDS = 1\n",
        "saving/keep.py": rule.format(
            "from ._shared import WORDS\nfrom ..loading.load import ID as more", "ACME2", "g"
        ),
        "loading/load.py": rule.format("from ..top import WORDS", "ACME3", "h"),
        "_drafts/new.py": "1 / 0\n",
        "cases/same_nothing.py": "1 / 0\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert [each.id for each in load_pack(folder).rules] == ["ACME2", "ACME3", "ACME1"]  # by their files' names
    (folder / "loading" / "load.py").write_text(rule.format("", "ACME4", "h"))
    assert [each.id for each in load_pack(folder).rules] == ["ACME2", "ACME4", "ACME1"]


@pytest.mark.parametrize("pattern", ["../*.py", "**/*.py", "saving/more/*.py", "/tmp/*.py", "saving", 3])
def test_rules_are_those_of_the_pack(pattern: object, tmp_path: Path) -> None:
    (tmp_path / "pack.toml").write_text(f'name = "acme"\nversion = "1"\nrules = [{json.dumps(pattern)}]\n')
    with pytest.raises(InputError, match="has rules of"):
        load_pack(tmp_path)
