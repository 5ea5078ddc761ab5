"""examples/packs: a trainer of a company, a tracker and a launcher, which tpu-port learns from packs alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from porter.front.cases import cases_of, run_cases
from porter.front.port_file import port_file
from porter.port import Options
from porter.tables import packs as built_in

ROOT = Path(__file__).resolve().parents[2]
PACKS = sorted(path.parent for path in (ROOT / "examples" / "packs").glob("*/pack.toml"))
API = tuple(f"porter.packs.{name}" for name in ("api", "script", "training", "writing", "launch", "runtime"))


@pytest.mark.parametrize("pack", PACKS, ids=lambda path: path.name)
def test_their_cases_pass(pack: Path) -> None:
    failed = [f"{result.name}:\n{result.detail}" for result in run_cases(pack) if not result.passed]
    assert not failed, "\n\n".join(failed)
    assert any(case.name.startswith("same_") for case in cases_of(pack))


@pytest.mark.parametrize("folder", [*built_in(), *PACKS], ids=lambda path: path.name)
def test_rules_import_the_api_and_nothing_else_of_ours(folder: Path) -> None:
    for file in (*folder.glob("*.py"), *(file for file in folder.glob("*/*.py") if file.parent.name != "cases")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:  # beside it in the pack
                above = file.parents[node.level - 1]
                beside = above.joinpath(*(node.module or "").split(".")).with_suffix(".py")
                assert above.is_relative_to(folder) and beside.is_file(), file
                continue
            alone = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in [node.module or ""] if isinstance(node, ast.ImportFrom) else alone:
                root = name.partition(".")[0]
                assert name in API if root == "porter" else root in ("libcst", *sys.stdlib_module_names), (file, name)


@pytest.mark.parametrize("name", API)
def test_what_rules_import_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "packs.md").read_text("utf-8")
    assert not [each for each in import_module(name).__all__ if not re.search(rf"\b{each}\b", page)]


def test_without_its_pack_a_script_is_left_as_it_is() -> None:
    case = ROOT / "examples" / "packs" / "orchid_train" / "cases" / "fine_tune" / "before.py"
    port = port_file(case, Options())
    assert not port.edits and port.status == "unsupported" and "OrchidTrainer" in port.findings[0].message


def test_the_command_tests_them() -> None:
    words = [sys.executable, "-m", "porter.cli", "rules", "test", str(PACKS[0]), "--no-color"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0 and "cases passed" in done.stdout, done.stdout + done.stderr
