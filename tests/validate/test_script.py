"""How a script is started: as a module of its package, with torch where something of it needs torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.validate.running.script import as_module, uses_torch


@pytest.mark.parametrize(
    ("text", "root", "module"),
    [
        ("import config\n", "repo/pkg/training", ""),
        ("from .rewards import exact\n", "", "repo.pkg.training.train"),
        ("from config import C\nfrom .rewards import exact\n", "repo", "pkg.training.train"),
        ("import data.rows\nfrom .rewards import exact\n", "repo", "pkg.training.train"),
        ("from repo import config\nfrom data import rows\nfrom .rewards import exact\n", "", "repo.pkg.training.train"),
        ("from ..other import exact\nimport config\n", "repo", "pkg.training.train"),
    ],
)
def test_a_module_of_a_package_starts_where_its_imports_are_found(
    text: str, root: str, module: str, tmp_path: Path
) -> None:
    """The repository itself holds an `__init__.py`, beside the modules that it imports by name alone."""
    folder = tmp_path / "repo/pkg/training"
    folder.mkdir(parents=True)
    (tmp_path / "repo/data").mkdir()
    for name in ("repo/config.py", "repo/__init__.py", "repo/pkg/__init__.py", "repo/pkg/training/__init__.py"):
        (tmp_path / name).touch()
    (folder / "rewards.py").touch()
    (folder / "train.py").write_text(text)
    assert as_module(folder / "train.py") == (tmp_path / root, module)


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("import torch.nn", True),
        ("def judge():\n    from torch import nn", True),
        ("# import torch\nimport torchlike", False),
        ("model = AutoModelForCausalLM.from_pretrained(path)", True),
        ("model = AutoModel.from_config(config)", True),
        ("tokenizer = AutoTokenizer.from_pretrained(path)", False),
        ("ask = pipeline('text-generation', model=path)", True),
        ("ask = transformers.pipeline('text-generation', model=path)", True),
        ("ask = my_pipeline(model)", False),
    ],
)
def test_a_port_that_loads_a_model_of_torchs_uses_torch(text: str, uses: bool, tmp_path: Path) -> None:
    script = tmp_path / "port.py"
    script.write_text(f"import transformers\n{text}\n")
    assert uses_torch(script) == uses


@pytest.mark.parametrize("module", ["from peft import PeftModel", "model = AutoModel.from_pretrained(path)"])
def test_a_port_uses_torch_by_the_modules_that_load_a_model(module: str, tmp_path: Path) -> None:
    """peft's import ended there: transformers had been told that there is no torch."""
    port, source = tmp_path / "port" / "port.py", tmp_path / "project" / "train.py"
    for folder in (port.parent, source.parent):
        folder.mkdir()
    port.write_text("import scorer\nfrom judge_tunix import judge\n")
    assert not uses_torch(port, source)
    (source.parent / "scorer.py").write_text("import numpy\n")
    assert not uses_torch(port, source)
    (source.parent / "scorer.py").write_text(f"import torch\n{module}\n")
    assert uses_torch(port, source) and not uses_torch(port)
    (port.parent / "judge_tunix.py").write_text(f"{module}\n")
    assert uses_torch(port)


@pytest.mark.parametrize(("line", "uses"), [("from .rows import ROWS", True), ("from rows import ROWS", False)])
def test_a_port_in_a_package_uses_torch_by_the_source_that_this_imports(line: str, uses: bool, tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("from .train import Job\n")
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "rows.py").write_text("ROWS = []\n")
    port = tmp_path / "train_tunix.py"
    port.write_text(f"{line}\n")
    assert uses_torch(port) is uses
    elsewhere = tmp_path / "out" / "train_tunix.py"
    elsewhere.parent.mkdir()
    elsewhere.write_text(f"{line}\n")
    assert uses_torch(elsewhere, tmp_path / "train.py") is uses
