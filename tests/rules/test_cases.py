"""Every pack's cases: what each rule writes, and the files that none may touch."""

import shutil
import subprocess
import sys

import pytest

from porter.front.cases import cases_of, run_cases
from porter.tables import packs

CASES = [(pack, case) for pack in packs() for case in cases_of(pack)]


@pytest.mark.parametrize("pack", packs(), ids=lambda path: path.name)
def test_cases(pack):
    failed = [f"{result.name}:\n{result.detail}" for result in run_cases(pack) if not result.passed]
    assert not failed, "\n\n".join(failed)


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
