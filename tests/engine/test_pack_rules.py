"""What a pack's Python rules can do, who answers of two, and what becomes of their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.engine.packs.packs import load_packs
from porter.errors import InputError
from porter.front.port_file import port_file
from porter.port import Options, Port

from .porting import sft_script, write

RULE = '''"""acme.report(trainer) → gone.

What it does: takes it out.
"""

ID = "{id}"
MATCHES = ({match!r},)
{more}

def apply(site, porting):
    {body}
'''
GONE = 'porting.remove_statement(site.node, ID, "it goes")'


def pack(folder: Path, name: str = "acme", **rules: str) -> Path:
    folder.mkdir(exist_ok=True)
    listed = "".join(f'[[rule]]\nfile = "{rule}.py"\n' for rule in rules)
    (folder / "pack.toml").write_text(f'name = "{name}"\nversion = "1"\n{listed}')
    for rule, text in rules.items():
        (folder / f"{rule}.py").write_text(text)
    return folder


def rule(body: str = GONE, match: str = "acme.report()", more: str = "", id: str = "ACME1") -> str:
    return RULE.format(id=id, match=match, body=body, more=more)


def ported(folder: Path, script: str, *packs: Path) -> Port:
    return port_file(write(folder, script), Options(rules=packs))


SCRIPT = sft_script("import acme", after="trainer.train()\nacme.report('done', level=2)\nprint('end')\n")


def test_a_rule_answers_calls_of_a_library(tmp_path: Path) -> None:
    port = ported(tmp_path, SCRIPT, pack(tmp_path / "acme", report=rule()))
    assert "acme" not in port.after and port.after.rstrip().endswith("print('end')")
    assert port.status == "ported"
    body = 'porting.replace(site, f"print({site.argument(\'text\').text})", "our log")'
    named = rule(body, more='POSITIONAL = ("text",)')
    assert "\nprint('done')\n" in ported(tmp_path, SCRIPT, pack(tmp_path / "acme", report=named)).after


def test_a_rule_answers_calls_of_an_object_of_a_library(tmp_path: Path) -> None:
    script = sft_script("import acme\nclient = acme.Client()", after="trainer.train()\nclient.report('done')\n")
    port = ported(tmp_path, script, pack(tmp_path / "acme", report=rule(match="acme.Client().report()")))
    assert "report" not in port.after


def test_a_class_of_the_same_name_is_not_the_librarys(tmp_path: Path) -> None:
    script = "class acme:\n    report = print\n\n\nacme.report('done')\n"
    assert ported(tmp_path, script, pack(tmp_path / "acme", report=rule())).after == script


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no level')", "ValueError: no level"),
        (f"{GONE}\n    site.nothing", "AttributeError"),
        ("porting.edit(0, 3, '', ID, 'mine')", "it edits line 1, outside of the statement that it answers"),
    ],
)
def test_a_rules_mistake_is_found_and_the_script_is_ported_without_it(tmp_path: Path, body: str, said: str) -> None:
    folder = pack(tmp_path / "acme", report=rule(body))
    port = ported(tmp_path, SCRIPT, folder)
    found = [finding for finding in port.findings if finding.rule == "ACME1"]
    assert len(found) == 1 and said in found[0].message and "report.py" in found[0].message
    assert port.status == "partial" and "acme.report('done', level=2)\n" in port.after and "PeftTrainer(" in port.after
    assert port.before.splitlines()[found[0].line - 1].startswith("acme.report(")


def test_two_rules_of_one_name_are_refused_by_name(tmp_path: Path) -> None:
    one = pack(tmp_path / "one", "one", report=rule())
    two = pack(tmp_path / "two", "two", report=rule(id="TWO1"))
    with pytest.raises(InputError, match=r"acme\.report\(\): ACME1 of pack one and TWO1 of pack two both answer it"):
        load_packs([one, two])
    both = rule(id="TWO1", more='INSTEAD_OF = ("ACME1",)')
    for packs in ([one, pack(two, "two", report=both)], [two, one]):
        load_packs(packs)
    pack(one, "one", report=rule(more='INSTEAD_OF = ("TWO1",)'))
    with pytest.raises(InputError, match="both each stand for the other"):
        load_packs([one, two])


def test_a_class_with_a_table_can_have_no_rule_beside_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"trl\.SFTConfig\(\): ACME1 of pack acme and TP101 of pack trl both answer"):
        load_packs([pack(tmp_path / "acme", report=rule(match="trl.SFTConfig()"))])


@pytest.mark.parametrize("first", [True, False])
def test_a_rule_leaves_calls_to_the_one_it_stands_for(tmp_path: Path, first: bool) -> None:
    mine = """if site.argument("level").text != "1":
        return porting.NOT_MINE
    porting.replace(site, "print(1)", "ours")"""
    front = pack(tmp_path / "one", "one", report=rule(mine, id="ONE1", more='INSTEAD_OF = ("ACME1",)'))
    behind = pack(tmp_path / "two", "two", report=rule())
    script = SCRIPT + "acme.report('again', level=1)\n"
    after = ported(tmp_path, script, *((front, behind) if first else (behind, front))).after
    assert "print(1)\n" in after and "acme" not in after


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (rule(match="acme report()"), "matches 'acme report()', which is no name"),
        (rule(match="acme.*()"), "which is no name"),
        (rule(match="@trainer.level"), "a Python rule answers calls"),
        (rule(more='POSITIONAL = {"acme.other()": ("a",)}'), "POSITIONAL names 'acme.other()'"),
        (rule(more='POSITIONAL = "text"'), "POSITIONAL of acme.report() is 'text'"),
        (rule(more='INSTEAD_OF = ("TP9999",)'), "stands for TP9999, which is no rule"),
    ],
)
def test_a_rule_that_can_answer_nothing_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        load_packs([pack(tmp_path / "acme", report=text)])
    assert said in str(error.value) and "report.py" in str(error.value)


def test_a_pack_named_twice_is_one(tmp_path: Path) -> None:
    folder = pack(tmp_path / "acme", report=rule())
    assert [found.name for found in load_packs([folder, tmp_path / "x" / ".." / "acme"])][:2] == ["acme", "trl"]
