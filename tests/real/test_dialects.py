"""Scripts in the styles that people write, all the way: ported as they are, trained by Tunix, compared with TRL.

What a script shows is in its first line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.validate.options import Options
from porter.validate.run import validate

from .long import mostly_long
from .outside import DIALECTS

pytestmark = pytest.mark.real

NAMES = (
    "config_object",
    "functions_and_argparse",
    "keywords_step_by_step",
    "own_config_class",
    "trainer_in_a_class",
    "trainer_in_branches",
    "two_stages",
    "typer_command",
    "yaml_recipe",
)
# What a script is run with.
ARGUMENTS = {
    "own_config_class": "--output_dir out --per_device_train_batch_size 4 --max_length 64 --report_to none",
    "trainer_in_branches": "--lora",
    "typer_command": "tatsu-lab/alpaca --output out --rank 4",
    "yaml_recipe": f"{DIALECTS / 'yaml_recipe.yaml'}",
}


@pytest.mark.parametrize("name", mostly_long(NAMES, short=["yaml_recipe"]))
def test_a_dialect_trains_as_its_source(name: str, tmp_path: Path) -> None:
    source = DIALECTS / f"{name}.py"
    port = port_file(source)
    assert (port.status, [row for row in port.fields if row.fate == "manual"]) == ("ported", [])
    script = tmp_path / "port.py"
    script.write_bytes(port.data)
    arguments = tuple(ARGUMENTS.get(name, "").split())
    verdict = validate(source, script, Options(steps=4, mesh=(2, 2), meshes=(), devices=4, arguments=arguments))
    assert verdict.equal, verdict.to_json()
    assert len(verdict.port_losses) == 4
    assert any("stood in for" in note for note in verdict.notes)
