from __future__ import annotations

from porter.engine.packs.packs import load_packs
from porter.report.pages import DOCS, coverage_page, pages, rules_page


def test_the_generated_pages_are_up_to_date() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: make docs"


def test_every_rule_has_a_section_and_every_keyword_a_row() -> None:
    packs = load_packs()
    rules, coverage = rules_page(packs), coverage_page(packs)
    for pack in packs:
        for rule in pack.every_rule:
            assert f"\n### {rule.id}\n" in rules
        for table in pack.tables:
            for name in table.table.rows():
                assert f"\n| `{name}` |" in coverage


def test_tables_keep_their_columns() -> None:
    for line in coverage_page(load_packs()).splitlines():
        if line.startswith("| `"):
            assert line.replace("\\|", "").count("|") == 5


def test_links_between_the_pages_lead_somewhere() -> None:
    import re

    readme = DOCS.parent / "README.md"
    for page in (*DOCS.glob("*.md"), readme):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
