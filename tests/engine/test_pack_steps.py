"""Steps that a pack's rules declare: found, put in order with the engine's, left out, and their mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from porter.engine.packs.packs import load_packs
from porter.errors import InputError

from .porting import port, sft_script

RULE = '''"""acme_{stem}() → gone.

What it does: takes it out.
"""

from porter.packs.api import Phase, step
from porter.packs.script import evaluate

{more}


@step({declared})
def go(porting):
    for call in porting.module.calls:
        if porting.module.code(call.func) == "acme_{stem}":
            {body}
'''
LONGEST = "e = max(porting.edits, key=lambda e: e.end - e.start)"
GONE = "porting.remove_statement(call, 'ACME1', 'it goes')"
SCRIPT = sft_script("import acme\n\n\ndef acme_run(): ...\n\n\nacme_run()")


def pack(folder: Path, declared: str = "Phase.ANSWER", body: str = GONE, more: str = 'ID = "ACME1"') -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pack.toml").write_text(f'name = "{folder.name}"\nversion = "1"\nrules = ["*.py"]\n')
    return rule(folder, "run", declared, body, more)


def rule(folder: Path, stem: str, declared: str = "Phase.ANSWER", body: str = GONE, more: str = "") -> Path:
    (folder / f"{stem}.py").write_text(RULE.format(stem=stem, declared=declared, body=body, more=more))
    return folder


def test_a_step_of_a_pack_is_taken(tmp_path: Path) -> None:
    folder = pack(tmp_path / "acme")
    assert "\nacme_run()" in port(SCRIPT).after
    assert "\nacme_run()" not in port(SCRIPT, rules=(folder,)).after
    assert "\nacme_run()" in port(SCRIPT, rules=(folder,), ignore=("ACME1",)).after


def test_one_that_writes_comes_before_all_that_answers(tmp_path: Path) -> None:
    folder = pack(tmp_path / "acme", "Phase.WRITE, of='trainer', reads=('written',)")
    assert "\nacme_run()" not in port(SCRIPT, rules=(folder,)).after


def test_a_part_of_the_pack_itself_is_left_out_with_none_of_its_rules(tmp_path: Path) -> None:
    """As one that reads what several of them describe; its mistake is the pack's."""
    folder = pack(tmp_path / "acme", more='ID = "ACME1"')
    rule(folder, "walk", more='PART_OF = "acme"')
    text = sft_script("def acme_run(): ...\ndef acme_walk(): ...\n\n\nacme_walk()\nacme_run()")
    kept = port(text, rules=(folder,), ignore=("ACME1",)).after
    assert "\nacme_run()" in kept and "\nacme_walk()" not in kept
    rule(folder, "walk", "Phase.NAME", "call.missing", 'PART_OF = "acme"')
    (finding,) = [each for each in port(text, rules=(folder,)).findings if each.rule == "TP199"]
    assert re.search(r"Pack acme made a mistake \(.*walk\.py:\d+: AttributeError.*step is not taken", finding.message)


def test_it_stands_where_it_says(tmp_path: Path) -> None:
    """The second reads what the first fills, and finds its edit there; without that it would come before it."""
    say = "porting.find('ACME1', 'warning', f'{len([e for e in porting.edits if e.rule == chr(90)])} before', '', 1, 1)"
    folder = pack(tmp_path / "acme", "Phase.NAME, reads=('acme runs',)", say)
    edit = "porting.edit(*porting.module.span(call), 'None', 'Z', 'it goes')"
    rule(folder, "zoom", "Phase.NAME, fills=('acme runs',)", edit, 'PART_OF = "ACME1"')
    found = port(sft_script("def acme_zoom(): ...\n\n\nacme_zoom()\nacme_run()"), rules=(folder,))
    assert [each.message for each in found.findings if each.rule == "ACME1"] == ["1 before"]


def test_files_of_a_pack_import_each_other_from_their_source(tmp_path: Path) -> None:
    folder = pack(tmp_path / "acme", body=f"GO and {GONE}", more='from ._shared import GO\n\nID = "ACME1"')
    for go, stays in ((True, False), (False, True)):
        (folder / "_shared.py").write_text(f"GO = {go}\n")
        assert ("\nacme_run()" in port(SCRIPT, rules=(folder,)).after) is stays
    assert not (folder / "__pycache__").exists()
    (folder / "_shared.py").unlink()
    with pytest.raises(InputError, match=r"run\.py:\d+: pack acme: fails to load: ModuleNotFoundError"):
        load_packs([folder])


def test_two_packs_may_have_files_of_one_name(tmp_path: Path) -> None:
    one = pack(tmp_path / "one", body=GONE.replace("ACME1", "ONE1"), more='ID = "ONE1"')
    two = pack(tmp_path / "two", "Phase.NAME", "pass", more='ID = "TWO1"')
    assert "\nacme_run()" not in port(SCRIPT, rules=(two, one)).after


def test_a_step_of_a_pack_reads(tmp_path: Path) -> None:
    """It stands behind what it reads, can say something, and can edit nothing."""
    declared = "Phase.READ, of='trainer', reads=('model.id',)"
    say = "porting.find('ACME1', 'warning', f'it trains {porting.known(chr(109) + \"odel.id\")}', '', 1, 1)"
    found = port(SCRIPT, rules=(pack(tmp_path / "acme", declared, say),))
    assert [each.message for each in found.findings if each.rule == "ACME1"] == ["it trains Qwen/Qwen3-0.6B"]
    wrong = port(SCRIPT, rules=(pack(tmp_path / "acme", declared, "porting.edit(0, 0, '', 'ACME1', '')"),))
    (finding,) = [each for each in wrong.findings if each.rule == "ACME1"]
    assert "no attribute 'edit'" in finding.message and "PeftTrainer(" in wrong.after


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("porting.known('optimizer.learning_rate')", "reads optimizer.learning_rate, which "),
        ("porting.lora", "reads lora, which "),
        ("porting.refused = True", "sets refused"),
        ("porting.known('model.id')", ""),
    ],
)
def test_a_step_that_reads_what_it_does_not_declare_is_named(tmp_path: Path, body: str, said: str) -> None:
    folder = pack(tmp_path / "acme", "Phase.READ, of='trainer', reads=('model.id',)", body)
    found = port(SCRIPT, rules=(folder,))
    named = [each.message for each in found.findings if each.rule == "ACME1"]
    assert bool(named) is bool(said) and "PeftTrainer(" in found.after
    assert all(f"({folder}/run.py:16: acme.run.go {said}" in each and "is not taken" in each for each in named)


FILLED = '''"""OurModel in bfloat16."""

from porter.packs.api import Value

ID = "ACME1"
TABLES = ("transformers.AutoModelForCausalLM.from_pretrained",)


def filled(site, training):
    {body}
'''


@pytest.mark.parametrize(
    ("body", "ignored", "loads", "said"),
    [
        ("training.fill({'model.revision': Value('literal', repr('old'))})", False, 'revision="old"', ""),
        ("training.fill({'model.revision': Value('literal', repr('old'))})", True, "", ""),
        ("training.fill({'model.revision': Value('literal', repr('old'))}); site.missing", False, "", "AttributeError"),
    ],
)
def test_a_rule_says_what_a_table_cannot(tmp_path: Path, body: str, ignored: bool, loads: str, said: str) -> None:
    """It is called when a call's keywords are filled; one that raises has filled nothing, and is named."""
    folder = pack(tmp_path / "acme")
    (folder / "run.py").write_text(FILLED.format(body=body))
    found = port(SCRIPT, rules=(folder,), ignore=("ACME1",) if ignored else ())
    assert ('revision="old"' in found.after) is bool(loads) and "rt.load_model(" in found.after
    named = [each.message for each in found.findings if each.rule == "ACME1"]
    assert bool(named) is bool(said) and all(said in each and "run.py:" in each for each in named)


def test_what_is_found_is_there_before_a_trainer_is_read(tmp_path: Path) -> None:
    folder = pack(tmp_path / "acme", "Phase.FIND", "porting.notes['here'] = 'found'")
    say = "porting.find('ACME1', 'warning', porting.notes['here'], '', 1, 1)"
    rule(folder, "walk", "Phase.READ, of='trainer', reads=('trainer',)", say, 'PART_OF = "ACME1"')
    found = port(sft_script("def acme_run(): ...\ndef acme_walk(): ...\n\n\nacme_run()\nacme_walk()"), rules=(folder,))
    assert [each.message for each in found.findings if each.rule == "ACME1"] == ["found"]


BAD = [
    ("Phase.FIND, of='trainer'", r"run\.py:12: pack acme: has a step, go, that finds, and isn't of the file"),
    ("Phase.ANSWER, reads=('nowhere',)", r"run\.py:12: pack acme: acme\.run\.go wants nowhere, which no step fills"),
    ("Phase.ANSWER, reads=('a',), fills=('a', 'b')", ""),  # its own
    ("Phase.ANSWER, reads='moved'", r"run\.py:12: pack acme: has a step, go, that declares 'moved'"),
    ("'answer'", r"run\.py:12: pack acme: has a step, go, of the phase 'answer'"),
    ("Phase.ANSWER, of='folder'", r"run\.py:12: pack acme: has a step, go, of the phase .* and of 'folder'"),
    ("Phase.READ", r"run\.py:12: pack acme: has a step, go, that reads, and isn't of a trainer"),
    ("Phase.WRITE", r"run\.py:12: pack acme: has a step, go, that writes, and isn't of a trainer"),
    ("Phase.LATER", r"run\.py:12: pack acme: fails to load: AttributeError"),
]


@pytest.mark.parametrize(("declared", "said"), BAD)
def test_a_bad_declaration_names_the_pack_and_the_file(tmp_path: Path, declared: str, said: str) -> None:
    folder = pack(tmp_path / "acme", declared)
    if not said:
        assert port(SCRIPT, rules=(folder,)).edits
        return
    with pytest.raises(InputError, match=said):
        port(SCRIPT, rules=(folder,))


def test_a_circle_names_its_steps(tmp_path: Path) -> None:
    folder = pack(tmp_path / "acme", "Phase.ANSWER, reads=('x',), fills=('y',)")
    rule(folder, "walk", "Phase.ANSWER, reads=('y',), fills=('x',)", more='PART_OF = "ACME1"')
    with pytest.raises(InputError, match=r"pack acme: each of these steps .*: acme\.(run|walk)\.go -> acme\."):
        port(SCRIPT, rules=(folder,))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('PART_OF = "ACME2"', "is a part of ACME2, but its pack has no such rule"),
        ("", "fails to load: AttributeError"),
        ('ID = "ACME1"\n\n\n@step(Phase.NAME)\ndef two(one, other): ...', "has a step, two, that takes 2 arguments"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        load_packs([pack(tmp_path / "acme", more=more)])
    assert "pack acme" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no')", r"run\.py:16: ValueError: no"),
        ("porting.edit(call.missing, 1, '', 'ACME1', '')", r"run\.py:16: AttributeError"),
        (
            f"{LONGEST}; porting.edit(e.end - 1, e.end + 1, '', 'ACME1', '')",
            r"a part of which TP\d+ replaces",
        ),
    ],
)
def test_a_mistake_changes_nothing_and_is_named(tmp_path: Path, body: str, said: str) -> None:
    folder = pack(tmp_path / "acme", "Phase.NAME", f"porting.edit(0, 0, '# mine', 'ACME1', ''); {body}")
    found = port(SCRIPT, rules=(folder,))
    (finding,) = [each for each in found.findings if each.rule == "ACME1"]
    assert re.search(said, finding.message) and "Rule ACME1 of pack acme made a mistake" in finding.message
    assert "# mine" not in found.after and "PeftTrainer(" in found.after
