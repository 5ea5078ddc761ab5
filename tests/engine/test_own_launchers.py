"""Launch files of launchers that a pack describes: found by their keys, told by line, and no key lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.engine.packs.read_pack import load_pack
from porter.errors import InputError
from porter.port import Port

from .porting import port, sft_script

HAULER = Path(__file__).resolve().parents[2] / "examples" / "packs" / "hauler"
YAML = "hauler: 1\nresources:\n  gpus: 2\ntrain:\n  learning_rate: 1.0e-3\n"
TOML = "hauler = 1\n[resources]\ngpus = 2\n[train]\nlearning_rate = 1.0e-3\n"
JSON = json.dumps({"hauler": 1, "resources": {"gpus": 2}, "train": {"learning_rate": 1e-3}}, indent=1)


def launched(folder: Path, name: str, text: str, config: str = "") -> Port:
    (folder / name).write_text(text)
    return port(sft_script(config=config), rules=(HAULER,), launch_config=folder / name)


@pytest.mark.parametrize(("name", "text"), [("job.yaml", YAML), ("job.toml", TOML), ("job.json", JSON)])
def test_its_settings_are_read(tmp_path: Path, name: str, text: str) -> None:
    found = launched(tmp_path, name, text, ", learning_rate=3e-4")
    assert found.status == "ported" and "linear_schedule(0.001" in found.after and "processes=2" in found.after
    rows = {row.source: row for row in found.recipe.fields}
    line = text.splitlines()[rows[f"{name}: train.learning_rate"].line - 1]
    assert "learning_rate" in line
    assert rows["SFTConfig.learning_rate"].reason == f"{name}: train.learning_rate goes over it"


def test_a_setting_that_is_not_known_is_an_error(tmp_path: Path) -> None:
    found = launched(tmp_path, "job.yaml", f"{YAML}  momentum: 0.9\n  compile: true\n")
    said = [each.message for each in found.findings if each.severity == "error"]
    assert [line.partition("=")[0] for line in said] == ["job.yaml: train.compile", "job.yaml: train.momentum"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("marks = 3", "marks is 3"),
        ('[fields.x]\nkinds = "sft"', "kinds is a list"),
        ('[fields.x]\notherwise = { fate = "exact" }', "otherwise is dropped or manual"),
    ],
)
def test_a_table_with_a_mistake_is_one_line(tmp_path: Path, line: str, said: str) -> None:
    row = 'place = ""\nfate = "exact"\ntarget = ""\ntype = "int"\ndefault = { "1.0" = "1" }\n'
    whole = f"{line}\n{row}" if "[" in line else f"{line}\n[fields.x]\n{row}"
    (tmp_path / "job.toml").write_text(f'class = "acme.job"\nlibrary = "acme"\nnewest = "1.0"\n{whole}')
    manifest = 'name = "acme"\nversion = "1"\n[[table]]\nid = "ACME1"\nfile = "job.toml"\nrole = "launch"\n'
    (tmp_path / "pack.toml").write_text(manifest)
    with pytest.raises(InputError) as error:
        load_pack(tmp_path)
    assert said in str(error.value) and "job.toml" in str(error.value) and "pack acme" in str(error.value)


def test_another_file_is_not_its(tmp_path: Path) -> None:
    for text in ("resources:\n  gpus: 2\n", "hauler: 1\n", "[]\n", "a: &a 1\nhauler: *a\nresources: {gpus: 1}\n"):
        with pytest.raises(InputError, match="is no accelerate launch config"):
            launched(tmp_path, "job.yaml", text)
    accelerate = launched(tmp_path, "fsdp.yaml", "distributed_type: FSDP\nnum_processes: 4\n")
    assert "processes=4" in accelerate.after
