"""Packs that can't be used: one line each, which names the pack, the file and the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.engine.packs.packs import load_packs
from porter.errors import InputError

from .test_pack_places import APPLY, GONE, pack

MATCH = 'MATCHES = ("acme.f()",)'
# What a pack.toml or a rule has, what is said, and the file and line that are named.
BAD = [
    ('PATTERNS = ("sum({p} for",)', "", "has a bad pattern, 'sum({p} for'", "rule.py:9"),
    ('PATTERNS = ("{anything}",)', "", "it would match everywhere", "rule.py:9"),
    ('CLASSES = ("Hook",)', "", "names 'Hook'", "rule.py:9"),
    ('CLASSES = "acme.Hook"', "", "CLASSES is 'acme.Hook'", "rule.py:9"),
    ('MATCHES = ("@trainer.x=",)', "", "a Python rule answers calls", "rule.py:9"),
    ("X = 1", "", "names nothing that it answers", "rule.py:1"),
    (f"{MATCH}\n1 / 0", "", "ZeroDivisionError", "rule.py:10"),
    (f"{MATCH}\nno Python here", "", "SyntaxError", "rule.py:10"),
    (MATCH, '[facts]\ngive_back = ["acme.f"]', "has a fact 'give_back'", "pack.toml:4"),
    (MATCH, '[facts]\ngives_back = ["f"]', "names 'f'", "pack.toml:4"),
    (MATCH, '[[evidence]]\nname = "acme.f"', "has evidence of name", "pack.toml:4"),
    (MATCH, '[[evidence]]\nname = "acme.f"\ngone = "2"\ngone_on = "May"', "gone_on is 'May'", "pack.toml:4"),
    (MATCH, '[[rewrite]]\nid = "A"\nmatch = "a.b"\naction = "gone"', "has action 'gone'", "pack.toml:4"),
    (MATCH, '[[rewrite]]\nid = "A"\nmatch = "a b"\naction = "never"\nreason = "r"', "is no name", "pack.toml:4"),
    (MATCH, '[[rewrite]]\nid = "A"\nmatch = "a.b"\naction = "remove"', "lacks 'reason'", "pack.toml:4"),
    (MATCH, '[[rule]]\nfile = "none.py"', "names a rule file that does not exist", "pack.toml:4"),
    (MATCH, "facts = ", "is no TOML", "pack.toml:4"),
    (MATCH, "facts = 3", "facts is 3", "pack.toml:1"),
    (MATCH, '[[shown]]\nby = "Acme"', "has a shown of by", "pack.toml:4"),
    (MATCH, '[[shown]]\nby = "Acme"\npattern = "Acme ("', "has a pattern 'Acme ('", "pack.toml:4"),
    (MATCH, '[[shown]]\nby = "Acme"\npattern = "Acme"', "which names no library", "pack.toml:4"),
    (MATCH, "evidence = 3", "evidence is 3", "pack.toml:1"),
    (MATCH, "rewrite = [3]", "has a rewrite 3", "pack.toml:1"),
    (MATCH, '[facts]\nprinted_batch = ["Rows = (\\\\d+)"]', "printed_batch has 'Rows", "pack.toml:4"),
    (MATCH, '[facts]\ngpu_side = "acme"', "gpu_side is 'acme'", "pack.toml:4"),
]


@pytest.mark.parametrize(("names", "more", "said", "place"), BAD)
def test_a_bad_pack_is_one_line(tmp_path: Path, names: str, more: str, said: str, place: str) -> None:
    folder = pack(tmp_path / "acme", GONE, names=names, more=more)
    with pytest.raises(InputError) as error:
        load_packs([folder])
    line = str(error.value)
    assert said in line and f"{folder}/{place}" in line and "\n" not in line
    assert "pack acme" in line or "is no TOML" in line  # whose name isn't read


def test_a_rule_that_does_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rule\.py:1: pack acme: has neither apply"):
        load_packs([pack(tmp_path / "acme", names=MATCH)])
    read = "def read(site, reading): ..."
    with pytest.raises(InputError, match=r"rule\.py:9: pack acme: matches '@trainer\.f\(\)', which is not there when"):
        load_packs([pack(tmp_path / "acme", read, names='MATCHES = ("@trainer.f()",)')])


def test_a_pack_of_two_folders_is_loaded_once(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    one, two = (pack(folder / "acme", GONE, names=MATCH) for folder in (tmp_path, tmp_path / "copy"))
    with pytest.raises(InputError) as error:
        load_packs([one, two])
    assert f"{two}/pack.toml:1: pack acme is loaded twice, from {one} and from {two}" in str(error.value)


def test_two_rules_of_one_name_are_told_with_their_line(tmp_path: Path) -> None:
    one, two = (pack(tmp_path / name, GONE, names=MATCH, id=name.upper()) for name in ("one", "two"))
    with pytest.raises(InputError) as error:
        load_packs([one, two])
    assert f"{one}/rule.py:9: acme.f(): ONE of pack one and TWO of pack two both answer it" in str(error.value)


@pytest.mark.parametrize("other", ['PATTERNS = ("acme.f({x})",)', 'PATTERNS = ("acme.f(1)",)', MATCH])
def test_two_rules_of_one_place_are_told_with_their_lines(tmp_path: Path, other: str) -> None:
    from .porting import port, sft_script

    one = pack(tmp_path / "one", GONE, names='PATTERNS = ("acme.f(...)",)', id="ONE1")
    two = pack(tmp_path / "two", GONE, names=other, id="TWO1")
    found = port(sft_script("import acme\nacme.f(1)"), rules=(one, two))
    (finding,) = [each for each in found.findings if each.severity == "error"]
    both = f"Rules ONE1 of pack one ({one}/rule.py:9) and TWO1 ({two}/rule.py:9) both answer this place: ONE1 did."
    assert finding.message == both and finding.rule == "TWO1" and "acme" not in found.after.split("# TODO")[0]
    pack(one, GONE, names='PATTERNS = ("acme.f(...)",)\nINSTEAD_OF = ("TWO1",)', id="ONE1")
    assert port(sft_script("import acme\nacme.f(1)"), rules=(one, two)).status == "ported"


def test_the_mistakes_of_a_rule_name_its_pack_and_line(tmp_path: Path) -> None:
    from .porting import port, sft_script

    script = sft_script("import acme\nacme.f(1)")
    for body, said, line in (
        ("raise ValueError('no')", "ValueError: no", 13),
        ("porting.edit(0, 1, '', ID, 'mine')", "it edits line 1, outside of the statement that it answers", 12),
    ):
        folder = pack(tmp_path / "acme", f"{APPLY}{body}\n", names=MATCH)
        found = port(script, rules=(folder,))
        (finding,) = [each for each in found.findings if each.rule == "ACME1"]
        assert f"Rule ACME1 of pack acme made a mistake here ({folder}/rule.py:{line}: {said})" in finding.message
        assert "acme.f(1)\n" in found.after and "PeftTrainer(" in found.after
