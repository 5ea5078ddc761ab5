"""`from models import *`: which names a script takes of a module, and what the module keeps for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .projects import ported

STARRED = """\
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

_hidden = 1


def load_model(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16, device_map="auto")
    return model, AutoTokenizer.from_pretrained(name)
"""


@pytest.mark.parametrize(
    ("imports", "modules"),
    [
        ("from models import *", {"models": STARRED}),
        ("from helpers import *", {"helpers": "from models import *\n", "models": STARRED}),
        ("from helpers import *", {"helpers": "from models import load_model\n", "models": STARRED}),
        ("from models import *", {"models": f'__all__ = ["load_model"]\n{STARRED}'}),
    ],
)
def test_all_names_of_a_module(tmp_path: Path, imports: str, modules: dict[str, str]) -> None:
    port = ported(tmp_path, imports, "load_model", **modules)
    assert port.status == "ported"
    assert re.search(r"^from \w+_tunix import \*$", port.after, re.MULTILINE)
    assert any("rt.load_model(name, mesh" in module.after for module in port.modules)


def test_names_that_a_module_keeps_for_itself(tmp_path: Path) -> None:
    """`__all__` says which, else an underscore does; a name of the script's own is its own."""
    closed = f'__all__ = ["_hidden"]\n{STARRED}'
    assert ported(tmp_path / "closed", "from models import *", "load_model", models=closed).status == "partial"
    hidden = STARRED.replace("load_model", "_load")
    assert ported(tmp_path / "hidden", "from models import *", "_load", models=hidden).status == "partial"
    own = "from models import *\n\n\ndef load_model(name):\n    return build(name)"
    assert ported(tmp_path / "own", own, "load_model", models=STARRED).status == "partial"


def test_what_a_script_takes_of_a_module_stays_imported_there(tmp_path: Path) -> None:
    """The module itself has no more use for it, and `from models import *` gives it to the script all the same."""
    imports = "from models import *\n\nother = AutoModelForCausalLM"
    port = ported(tmp_path, imports, "load_model", models=STARRED)
    (module,) = port.modules
    assert "from transformers import AutoModelForCausalLM, AutoTokenizer" in module.after
    assert "import torch" not in module.after
    asked = ported(tmp_path, "from models import *\n\nprint(torch.__config__.show())", "load_model", models=STARRED)
    assert "\nimport torch\n" in asked.modules[0].after
