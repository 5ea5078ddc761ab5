"""Every pack's cases: what each rule writes, and the files that none may touch."""

import shutil
import subprocess
import sys
from functools import cache

import pytest

from porter.engine.packs.engine_rules import engine_pack
from porter.engine.packs.packs import load_packs
from porter.engine.script.sites import Site
from porter.front.cases import cases_of, run_cases
from porter.front.fragments import read_fragments
from porter.recipe import Field, Finding, Origin
from porter.tables import packs
from porter.text.edit import Edit

CASES = [(pack, case) for pack in packs() for case in cases_of(pack)]
# Of the engine's own, which have no pack: tests/engine and tests/tree show them.
ELSEWHERE = {"TP000", "TP002", "TP003", "TP006", "TP007", "TP008", "TP198", "TP199"}


@cache
def ran(pack):
    """How a pack's cases went, and the ids of the rules that were at work in them."""
    seen = set()

    def watched(made):
        def init(self, *args, **kwargs):
            made(self, *args, **kwargs)
            seen.add(self.rule)

        return init

    with pytest.MonkeyPatch.context() as patch:
        for kind in (Site, Finding, Field, Origin, Edit):
            patch.setattr(kind, "__init__", watched(kind.__init__))
        return run_cases(pack), seen


@pytest.mark.parametrize("pack", packs(), ids=lambda path: path.name)
def test_cases(pack):
    failed = [f"{result.name}:\n{result.detail}" for result in ran(pack)[0] if not result.passed]
    assert not failed, "\n\n".join(failed)


def test_every_rule_has_a_case():
    """One in which it is at work, or which says that it shows it: a name that moves leaves no more than an import."""
    ids = {rule.id for pack in (engine_pack(), *load_packs()) for rule in pack.every_rule}
    named = {data.get("rule") for _, case in CASES if case.suffix == ".toml" for data in read_fragments(case)}
    assert named - {None} <= ids
    assert ids - named - set().union(*(ran(pack)[1] for pack in packs())) == ELSEWHERE


@pytest.mark.parametrize("pack", packs(), ids=lambda path: path.name)
def test_every_pack_has_a_case_that_must_not_change(pack):
    assert any(case.name.startswith("same_") for case in cases_of(pack))


def test_ports_use_every_import_and_know_every_name(tmp_path):
    """pyflakes' view of the ports: no unused import, no undefined name."""
    for pack, case in CASES:
        if case.is_dir():
            shutil.copyfile(case / "after.py", tmp_path / f"{pack.name}_{case.name}.py")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F401,F821,F811,F823", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
