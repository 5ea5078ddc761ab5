"""The pins: each has its hashes, and the document lists them all and comes out the same each time."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "bench" / "sbom.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sbom"] = module
    spec.loader.exec_module(module)
    return module


def test_every_pin_has_its_hashes(sbom: ModuleType) -> None:
    assert sbom.pins(sbom.HASHES) == sbom.pins(sbom.CONSTRAINTS), "`make hashes` after a change of the constraints"
    assert all(sbom.hashes().values()) and set(sbom.hashes()) == set(sbom.pins(sbom.CONSTRAINTS))


def test_the_document_lists_what_porting_needs(sbom: ModuleType) -> None:
    found = sbom.document()
    required = {row["name"] for row in found["components"] if row["scope"] == "required"}
    assert required == {"libcst", "rich", "click", "pyyaml", "pathspec"}
    assert len(found["components"]) == len(sbom.pins(sbom.CONSTRAINTS))
    assert found == sbom.document() and found["bomFormat"] == "CycloneDX"
