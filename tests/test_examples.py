"""The examples' ports are what the tool makes today. `make examples` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options

EXAMPLES = Path(__file__).parents[1] / "examples"
LAUNCHED = {"sft_lora_gemma3": Options(launch_config=EXAMPLES / "fsdp.yaml")}
SOURCES = sorted(path for path in EXAMPLES.glob("*_*.py") if not path.stem.endswith("_tunix"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_port_beside_an_example_is_todays(source: Path) -> None:
    port = port_file(source, LAUNCHED.get(source.stem, Options()))
    assert port.status == "ported"
    beside = source.with_name(f"{source.stem}_tunix.py")
    assert beside.read_text("utf-8") == port.after, "run `make examples` and read the difference"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_an_examples_port_is_left_alone(source: Path) -> None:
    port = port_file(source.with_name(f"{source.stem}_tunix.py"))
    assert (port.status, port.edits, port.after) == ("unchanged", (), port.before)
