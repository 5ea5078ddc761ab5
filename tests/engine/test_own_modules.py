"""Modules of the project that stay as they are, and libraries of the GPU that they import."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.front.tree import port_tree
from porter.port import Options, Port
from porter.source.parsing import parse_module

SCRIPT = """\
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

{imports}

rows = clean(load_dataset("some/rows", split="train"))
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=rows)
trainer.train()
"""
CLEAN = "def clean(rows):\n    return rows\n"


def alone(folder: Path, imports: str, **modules: str) -> Port:
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return port_module(parse_module(SCRIPT.format(imports=imports).encode(), str(folder / "train.py")), Options())


def said(port: Port) -> list[tuple[str, str, int]]:
    return [(each.severity, each.message, each.line) for each in port.findings if "needs installed" in each.message]


@pytest.mark.parametrize(
    ("before", "severity", "named"),
    [
        ("import torch\n", "warning", "torch"),
        ("import os, torch.nn as nn\nfrom peft import LoraConfig\n", "warning", "torch and peft"),
        ("from trl import SFTTrainer\n", "error", "trl"),
        ("import helpers\n", "", ""),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", "", ""),
        ("def late():\n    import torch\n", "", ""),
        ("this is no Python\n", "", ""),
    ],
)
def test_a_script_that_is_ported_alone(tmp_path: Path, before: str, severity: str, named: str) -> None:
    found = alone(tmp_path, "from utils import clean", utils=before + CLEAN, helpers="import numpy\n")
    message = f"utils.py isn't ported with this file and imports {named}, which the port needs installed then."
    assert said(found) == ([(severity, message, 4)] if severity else [])
    assert found.status == ("partial" if severity == "error" else "ported")


LATE = "def clean(rows):\n    return weighed(rows)\n\n\ndef weighed(rows):\n    import torch\n\n    return rows\n"


@pytest.mark.parametrize(
    ("imports", "utils", "named"),
    [
        ("from utils import clean", LATE, "torch (in weighed)"),
        ("import utils\nclean = utils.clean", LATE, "torch (in weighed)"),
        ("from utils import *", LATE, "torch (in weighed)"),
        ("from utils import clean", LATE.replace("return weighed(rows)", "return rows"), ""),
        (
            "from utils import clean",
            f"{CLEAN}if __name__ == '__main__':\n    late()\n\n\ndef late():\n    import torch\n",
            "",
        ),
        (
            "from utils import Clean\nclean = Clean()",
            LATE.replace("def clean(", "class Clean:\n  def __call__(self, "),
            "torch (in weighed)",
        ),
        ("def clean(rows):\n    from utils import clean\n    return clean(rows)", f"import torch\n{CLEAN}", "torch"),
        ("if __name__ == '__main__':\n    from utils import clean", f"import torch\n{CLEAN}", "torch"),
        ("try:\n    from utils import clean\nexcept ImportError:\n    clean = list", f"import torch\n{CLEAN}", ""),
        (
            "from utils import clean",
            f"from transformers.trainer_pt_utils import get_parameter_names\n{CLEAN}",
            "torch (by transformers.trainer_pt_utils)",
        ),
    ],
)
def test_what_runs_of_a_module(tmp_path: Path, imports: str, utils: str, named: str) -> None:
    """The port ended at an import in a function that it calls, or of a module that it imports in one."""
    found = alone(tmp_path, imports, utils=utils)
    messages = [message for _, message, _ in said(found)]
    message = f"utils.py isn't ported with this file and imports {named}, which the port needs installed then."
    assert messages == ([message] if named else []) and found.status == "ported"


def test_what_a_package_passes_on(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    text = "def clean(rows):\n    import torch\n\n\ndef other(rows):\n    import peft\n"
    for file, held in {"__init__": "from .text import clean, other\n", "text": text}.items():
        (tmp_path / "pkg" / f"{file}.py").write_text(held)
    message = (
        "pkg/text.py isn't ported with this file and imports torch (in clean), which the port needs installed then."
    )
    assert said(alone(tmp_path, "from pkg import clean")) == [("warning", message, 1)]


def test_a_library_that_a_module_needs_stays_listed(tmp_path: Path) -> None:
    """The port's dependencies lacked what its report said that it needs."""
    (tmp_path / "utils.py").write_text(f"import torch\n{CLEAN}")
    listed = "# /// script\n# dependencies = ['trl', 'torch', 'peft']\n# ///\n"
    listed += "import os\n\nos.system('pip install torch peft')\n"
    text = listed + SCRIPT.format(imports="from utils import clean")
    after = port_module(parse_module(text.encode(), str(tmp_path / "train.py")), Options()).after
    assert '#     "torch",\n#     "tpu-port[tpu]",\n# ]' in after and "'pip install torch" in after


@pytest.mark.parametrize(
    ("before", "ends"),
    [
        ("from pynvml import *\n", True),
        ("import torch\nimport GPUtil\n", True),
        ("try:\n    import pynvml\nexcept ImportError:\n    pynvml = None\n", False),
    ],
)
def test_a_module_that_asks_the_driver_ends_the_port(tmp_path: Path, before: str, ends: bool) -> None:
    found = alone(tmp_path, "from utils import clean", utils=before + CLEAN)
    drivers = [(each.severity, each.line) for each in found.findings if "has no such driver" in each.message]
    assert drivers == [("error", 4)] * ends and bool(said(found)) is ("torch" in before)
    assert found.status == ("partial" if ends else "ported")


def test_a_module_of_a_module(tmp_path: Path) -> None:
    found = alone(
        tmp_path, "import utils\nclean = utils.clean", utils="import deeper\n" + CLEAN, deeper="import torch\n"
    )
    assert [message.partition(" ")[0] for _, message, _ in said(found)] == ["deeper.py"]


def test_a_package_on_the_way_to_a_module(tmp_path: Path) -> None:
    for file, text in {"__init__": "", "deep/__init__": "from trl import DPOTrainer\n", "deep/text": CLEAN}.items():
        (tmp_path / "pkg" / "deep").mkdir(parents=True, exist_ok=True)
        (tmp_path / "pkg" / f"{file}.py").write_text(text)
    found = alone(tmp_path, "from pkg.deep.text import clean")
    message = "pkg/deep/__init__.py isn't ported with this file and imports trl, which the port needs installed then."
    assert said(found) == [("error", message, 4)]
    (tmp_path / "train.py").write_text(SCRIPT.format(imports="from pkg.deep.text import clean"))
    ported = port_tree(tmp_path, Options(), jobs=1).ports[Path("train.py")]
    assert [message.partition(" ")[0] for _, message, _ in said(ported)] == ["pkg/deep/__init__.py"]


def test_a_librarys_name_above_the_script_is_the_library(tmp_path: Path) -> None:
    (tmp_path / "evaluate.py").write_text("import torch\n")
    (tmp_path / "scripts").mkdir()
    imports = "import evaluate\nfrom utils import clean"
    assert said(alone(tmp_path / "scripts", imports, utils="import evaluate\n" + CLEAN)) == []
    (tmp_path / "scripts" / "evaluate.py").write_text("import torch\n")
    assert [message.partition(" ")[0] for _, message, _ in said(alone(tmp_path / "scripts", imports))] == [
        "evaluate.py"
    ]


@pytest.mark.parametrize("name", ["porter", "porter_runtime"])
def test_what_the_port_brings_is_no_module_of_the_project(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "runtime").mkdir(parents=True)
    for folder in (tmp_path / name, tmp_path / name / "runtime"):
        (folder / "__init__.py").write_text("import torch\n")
    for vendor in (False, True):
        module = parse_module(SCRIPT.format(imports="").encode(), str(tmp_path / "train.py"))
        assert said(port_module(module, Options(vendor=vendor))) == []


def test_of_a_folder_what_stays_is_said(tmp_path: Path) -> None:
    alone(tmp_path, "from utils import clean", utils="import torch\n" + CLEAN)
    (tmp_path / "train.py").write_text(SCRIPT.format(imports="from utils import clean"))
    found = port_tree(tmp_path, Options(), jobs=1).ports[Path("train.py")]
    assert [message for _, message, _ in said(found)] == [
        "utils.py stays as it is and imports torch, which the port needs installed then."
    ]


def test_an_import_that_the_port_has_no_more(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text("import torch\n" + CLEAN)
    text = SCRIPT.format(imports="def clean(rows):\n    return rows\n")
    found = port_module(parse_module(text.encode(), str(tmp_path / "train.py")), Options())
    assert said(found) == []


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        ("rows.set_format('torch')", True),
        ("rows.with_format(type='torch', columns=['a'])", True),
        ("tokenizer('a', return_tensors='pt')", True),
        ("rows.set_format('numpy')", False),
        ("tokenizer('a', return_tensors=kind)", False),
    ],
)
def test_tensors_that_a_module_asks_for(tmp_path: Path, asks: str, said: bool) -> None:
    """datasets and transformers end without torch there, which the module itself imports nowhere."""
    text = f"def clean(rows, tokenizer=None, kind='np'):\n    {asks}\n    return rows\n"
    found = alone(tmp_path, "from data import clean", data=text)
    told = [each for each in found.findings if "asks for torch's tensors (line 2)" in each.message]
    assert [each.severity for each in told] == ["warning"] * said
