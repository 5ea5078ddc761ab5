from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import porter
from porter.cli import run


def test_the_list_has_every_rule_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "list", "--json"]) == 0
    rules = json.loads(capsys.readouterr().out)["rules"]
    ids = [rule["id"] for rule in rules]
    assert len(ids) == len(set(ids)) > 20
    assert {"id", "title", "pack", "version", "matches", "file"} == set(rules[0])
    assert run(["rules", "list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ids)


@pytest.mark.parametrize("name", ["TP112", "tp112"])
def test_a_rules_page_has_its_sections(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run(["rules", "show", name]) == 0
    text = capsys.readouterr().out
    for word in ("TP112", "save_model", "What it does:", "Why:", "Example:", "Safety:", "pack trl"):
        assert word in text


def test_every_id_that_a_report_can_name_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    source = "".join(path.read_text() for path in Path(porter.__file__).parent.rglob("*.py"))
    for name in sorted(set(re.findall(r'"(TP\d{3})"', source))):
        assert run(["rules", "show", name]) == 0
        assert name in capsys.readouterr().out


def test_a_tables_page_has_its_keywords(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "show", "TP201"]) == 0
    text = capsys.readouterr().out
    assert "lora_alpha = 8" in text and "rank of the Qwix rules" in text


def test_an_unknown_rule_names_similar_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "show", "TP1122"]) == 2
    assert "TP112" in capsys.readouterr().err


def test_a_new_pack_passes_its_own_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = tmp_path / "our-rules"
    assert run(["rules", "new", str(pack)]) == 0
    assert run(["rules", "test", str(pack)]) == 0
    assert "2 cases passed" in capsys.readouterr().out
    after = (pack / "cases" / "settings" / "after.py").read_text()
    assert "rank=32, alpha=64.0" in after, "the table's own defaults"
    assert "our_rules" not in after and "notify" not in after, "nothing of the library is left"


def test_the_new_packs_cases_can_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = tmp_path / "ours"
    run(["rules", "new", str(pack)])
    table = pack / "tables" / "lora_config.toml"
    table.write_text(table.read_text().replace('"32"', '"16"'))
    assert run(["rules", "test", str(pack)]) == 1
    assert "FAILED  settings" in capsys.readouterr().out
    assert run(["rules", "test", str(pack), "--update"]) == 0
    assert "Wrote" in capsys.readouterr().out and "rank=16" in (pack / "cases" / "settings" / "after.py").read_text()


def test_a_new_pack_needs_a_new_folder_and_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert run(["rules", "new", str(tmp_path / "full")]) == 2
    assert run(["rules", "new", str(tmp_path / "123")]) == 2
    assert "our-rules" in capsys.readouterr().err


def test_a_pack_that_fails_to_load_says_which_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = tmp_path / "ours"
    run(["rules", "new", str(pack)])
    (pack / "progress.py").write_text("import no_such_module\n")
    assert run(["rules", "test", str(pack)]) == 2
    err = capsys.readouterr().err
    assert "progress.py" in err and "no_such_module" in err
    (pack / "pack.toml").write_text("name =")
    assert run(["rules", "list", "--rules", str(pack)]) == 2
    assert "pack.toml" in capsys.readouterr().err


def test_a_pack_without_cases_is_no_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pack.toml").write_text('name = "bare"\nversion = "1"\n')
    assert run(["rules", "test", str(tmp_path)]) == 2
    assert "no cases" in capsys.readouterr().err


def test_the_new_pack_is_used_from_pyproject(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = tmp_path / "ours"
    run(["rules", "new", str(pack)])
    script = tmp_path / "train.py"
    script.write_bytes((pack / "cases" / "settings" / "before.py").read_bytes())
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    run(["train.py", "--json"])
    assert "rank=32" not in capsys.readouterr().out
    (tmp_path / "pyproject.toml").write_text('[tool.tpu-port]\nrules = ["ours"]\n')
    run(["rules", "trust", "."])
    run(["train.py", "--json"])
    assert "rank=32" in capsys.readouterr().out


def test_an_installed_pack_is_found_by_its_entry_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    run(["rules", "new", str(site / "acme_pack")])
    (site / "acme_pack" / "__init__.py").touch()
    info = site / "acme_pack-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-pack\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tpu_port.packs]\nacme = acme_pack\n")
    monkeypatch.syspath_prepend(str(site))
    capsys.readouterr()
    assert run(["rules", "list"]) == 0
    assert "ACMEPACK101" in capsys.readouterr().out
