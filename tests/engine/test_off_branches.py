"""Branches that a constant turns off: what needs a person there is a warning, as no run comes to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options, Port

from .porting import sft_script

OWN = """\
optimizers = (None, None)
if USE_OWN:
    optimizers = (Own(model.parameters()), None)
"""
SCRIPT = sft_script("USE_OWN = False\n", between=OWN, trainer=", optimizers=optimizers")


def port(folder: Path, script: str, config: str = "") -> Port:
    (folder / "train.py").write_text(script)
    if config:
        (folder / "config.py").write_text(config)
    return port_file(folder / "train.py", Options())


def said(found: Port, severity: str) -> list[str]:
    return [each.message for each in found.recipe.findings if each.severity == severity]


def test_what_is_off_needs_nobody(tmp_path: Path) -> None:
    found = port(tmp_path, SCRIPT)
    assert found.status == "ported" and OWN in found.after
    [model, trainer] = [message for message in said(found, "warning") if "as long as USE_OWN is False" in message]
    assert "model.parameters()" in model and "(None, None)" in trainer


@pytest.mark.parametrize(
    ("test", "off"),
    [
        ("USE_OWN and ready()", "USE_OWN and ready() is False"),
        ("ready() and USE_OWN", "ready() and USE_OWN is False"),
        ("USE_OWN or ready()", ""),
        ("USE_OWN or OTHER", "USE_OWN or OTHER is False"),
        ("not (ready() or not USE_OWN)", "not (ready() or not USE_OWN) is False"),
        ("not USE_OWN and ready()", ""),
        ("ready(USE_OWN)", ""),
    ],
)
def test_conditions_of_constants(tmp_path: Path, test: str, off: str) -> None:
    script = SCRIPT.replace("USE_OWN = False", "USE_OWN = OTHER = False").replace("if USE_OWN:", f"if {test}:")
    found = port(tmp_path, script)
    assert found.status == ("ported" if off else "partial"), found.findings
    assert any(f"as long as {off}" in message for message in said(found, "warning")) is bool(off)


def test_a_constant_of_the_project(tmp_path: Path) -> None:
    script = SCRIPT.replace(
        "USE_OWN = False", "try:\n    from config import USE_OWN\nexcept ImportError:\n    USE_OWN = False"
    )
    for off in ("USE_OWN = False\n", "USE_OWN = None\ndef other():\n    global OTHER\n    OTHER |= True\n"):
        assert port(tmp_path, script, off).status == "ported"
    for other in (
        "USE_OWN = True\n",
        "USE_OWN = False\nif RANK:\n    USE_OWN = True\n",
        "import os\nUSE_OWN = os.name\n",
        "USE_OWN = False\nfrom more import *\n",
        "USE_OWN = False\nfrom more import USE_OWN\n",
        "USE_OWN = False\nfrom more import OTHER as USE_OWN\n",
        "USE_OWN = False\nUSE_OWN |= RANK > 0\n",
        "USE_OWN = False\ndef turn_on():\n    global USE_OWN\n    USE_OWN |= True\n",
        "USE_OWN = False\nfor USE_OWN in (False, True):\n    pass\n",
        "USE_OWN = 0\n",
    ):
        assert port(tmp_path, script, other).status == "partial"


@pytest.mark.parametrize(
    ("imported", "meant", "other"),
    [("..config", "config.py", "own/config.py"), ("config", "config/__init__.py", "config/__main__.py")],
)
def test_the_file_that_an_import_means(tmp_path: Path, imported: str, meant: str, other: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "README.md").write_text("")
    (tmp_path / meant).write_text("USE_OWN = True\n")
    (tmp_path / other).write_text("USE_OWN = False\n")
    script = SCRIPT.replace("USE_OWN = False", f"from {imported} import USE_OWN")
    assert port(tmp_path / "own", script).status == "partial"


def test_what_another_branch_sets_is_not_taken_for_what_is_held(tmp_path: Path) -> None:
    found = port(tmp_path, SCRIPT.replace(OWN, f"{OWN}if rows:\n    optimizers = (make(), None)\n"))
    assert not any("it is (None, None) as long as" in message for message in said(found, "warning"))


@pytest.mark.parametrize(
    "script",
    [
        SCRIPT.replace("USE_OWN = False", "USE_OWN = True"),
        SCRIPT.replace("USE_OWN = False", "import sys\nUSE_OWN = '--own' in sys.argv"),
        SCRIPT.replace("USE_OWN = False", "USE_OWN = False\ndef turn_on():\n    global USE_OWN\n    USE_OWN = True\n"),
        SCRIPT.replace("\ntrainer.train()", "\nif USE_OWN:\n    trainer.train()"),
        SCRIPT.replace("    optimizers = (Own", "    other = MyTrainer(model)\n    optimizers = (Own"),
        SCRIPT.replace("USE_OWN = False", "import sys\nUSE_OWN = False\nif len(sys.argv) > 2:\n    USE_OWN = True"),
    ],
    ids=["on", "by an argument", "turned on later", "training is off", "trainer is off", "turned on here"],
)
def test_what_may_be_on(tmp_path: Path, script: str) -> None:
    found = port(tmp_path, script)
    assert found.status == "partial" and any("model.parameters()" in message for message in said(found, "error"))
