"""The files of a port with modules: what is written, what is not replaced, and what the report shows of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from porter.cli.port import command
from porter.errors import InputError
from porter.front.output import write_port

from .projects import MODELS, ported


def test_what_is_written(tmp_path: Path) -> None:
    folder, out = tmp_path / "project", tmp_path / "out"
    out.mkdir()
    port = ported(folder, "from models import load_model", "load_model", models=MODELS)
    written = write_port(port, out / "train_tunix.py")
    recipes = {"train_tunix.recipe.json", "models_tunix.recipe.json"}
    assert {path.name for path in written} == {"train_tunix.py", "models_tunix.py", *recipes}
    fates = json.loads((out / "models_tunix.recipe.json").read_text())["fields"]
    assert "AutoModelForCausalLM.torch_dtype" in {row["source"] for row in fates}
    assert (out / "models_tunix.py").read_text() == port.modules[0].after
    assert sorted(path.name for path in folder.iterdir()) == ["LICENSE", "models.py", "train.py"]


@pytest.mark.parametrize("name", ["models_tunix.recipe.json", "models_tunix.py"])
def test_a_file_of_the_users_is_not_replaced(tmp_path: Path, name: str) -> None:
    folder, out = tmp_path / "project", tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine")
    port = ported(folder, "from models import load_model", "load_model", models=MODELS)
    with pytest.raises(InputError, match="exists"):
        write_port(port, out / "train_tunix.py")
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [(name, "mine")]
    write_port(port, out / "train_tunix.py", force=True)
    assert (out / name).read_text() != "mine"


def test_the_report_has_each_of_the_files(tmp_path: Path) -> None:
    ported(tmp_path, "from models import load_model", "load_model", models=MODELS)
    result = CliRunner().invoke(command, [str(tmp_path / "train.py"), "--json"], standalone_mode=False)
    (module,) = json.loads(result.output)["modules"]
    assert (module["source"], module["status"]) == (str(tmp_path / "models.py"), "ported")
    shown = CliRunner().invoke(command, [str(tmp_path / "train.py")], standalone_mode=False).output
    assert f"--- {tmp_path / 'models.py'}" in shown and "+    model = rt.load_model(" in shown
