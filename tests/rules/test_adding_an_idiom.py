"""docs/adding-an-idiom.md: its snippets, put into a copy of rules/, pass their cases, and each touches three files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import porter.tables
from porter.engine.packs import pack, packs, python_rule, read_pack
from porter.front.cases import run_cases
from porter.runtime.facts import field_tables

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "adding-an-idiom.md").read_text("utf-8")
SNIPPET = re.compile(r"^`(rules/[^`]+)`, ([^\n]*):\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IDIOMS = [part for part in PAGE.split("\n## ") if SNIPPET.search(part)]


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the built-in rules, which stands for them."""
    folder = tmp_path / "rules"
    shutil.copytree(ROOT / "rules", folder, ignore=shutil.ignore_patterns("cases", "__pycache__"))
    for module in (porter.tables, pack, packs, python_rule, read_pack):
        monkeypatch.setattr(module, "rules_folder", lambda: folder)
    monkeypatch.setattr(field_tables, "rules_root", lambda: folder)
    field_tables.find_table.cache_clear()
    return folder


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda text: text.splitlines()[0])
def test_the_snippets_pass_their_case(rules: Path, idiom: str) -> None:
    changed, cases = set(), set()
    snippets = SNIPPET.findall(idiom)
    for name, how, text in snippets:
        file = rules.parent / name
        file.parent.mkdir(exist_ok=True)
        assert file.exists() == (how == "at its end")
        file.write_text((file.read_text() if file.exists() else "") + text)
        changed.add(rules / name.split("/")[1])
        cases |= {file.name} if "/cases/" in name else set()
    failed = [f"{case.name}: {case.detail}" for folder in changed for case in run_cases(folder) if not case.passed]
    assert not failed, "\n".join(failed)
    assert cases and len(snippets) <= 2  # the third file is the generated page
    for case in cases:  # which fails without the rule
        for name, how, text in snippets:
            if "/cases/" not in name:
                file = rules.parent / name
                file.write_text(file.read_text().removesuffix(text)) if how == "at its end" else file.unlink()
        packs._built_in.cache_clear()
        field_tables.find_table.cache_clear()
        assert not all(found.passed for folder in changed for found in run_cases(folder)), case


def test_there_are_three() -> None:
    assert len(IDIOMS) == 3
