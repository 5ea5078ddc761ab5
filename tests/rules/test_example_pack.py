"""examples/acme_rules: a company's wrapper of LoraConfig and its own model family, without a change to tpu-port."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.cases import run_cases
from porter.front.port_file import port_file
from porter.port import Options
from porter.runtime.facts.families import find_family, read_family

PACK = Path(__file__).resolve().parents[2] / "examples" / "acme_rules"
CASE = PACK / "cases" / "wrapper" / "before.py"


@pytest.mark.parametrize("result", run_cases(PACK), ids=lambda result: result.name)
def test_its_cases_pass(result) -> None:
    assert result.passed, result.detail


def test_without_the_pack_the_wrapper_and_the_family_are_unknown() -> None:
    port = port_file(CASE, Options())
    assert "AcmeLoraConfig" in port.after and "rank=64" not in port.after


def test_with_it_the_port_carries_the_family_table_and_needs_nothing_of_acmes() -> None:
    port = port_file(CASE, Options(rules=(PACK,), processes=8))
    assert dict(port.files) == {"acme_lm.toml": (PACK / "models" / "acme_lm.toml").read_text()}
    assert 'family="acme_lm.toml"' in port.after
    assert "acme_training" not in port.after


def test_its_defaults_depend_on_the_version() -> None:
    from porter.runtime.facts.field_tables import load_table

    table = load_table(PACK / "tables" / "acme_lora_config.toml")
    assert table.rows("3.0")["lora_alpha"].default == "64"
    assert table.rows("3.1")["lora_alpha"].default == "128"
    assert table.rows()["lora_dropout"].default == "0.0", "from peft.LoraConfig"


def test_its_family_has_the_layers_of_qwen3() -> None:
    acme, qwen3 = read_family(PACK / "models" / "acme_lm.toml"), find_family(hub_id="Qwen/Qwen3-0.6B")
    assert qwen3 is not None
    sizes = acme.known_sizes("acme/acme-lm-1b")
    assert sizes is not None
    assert [layer.tunix for layer in acme.linears(sizes)] == [layer.tunix for layer in qwen3.linears(sizes)]
