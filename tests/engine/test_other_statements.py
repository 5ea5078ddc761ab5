"""Where a project states several releases: what the others train otherwise than the one that is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options, Port

from ..notebooks import cell, notebook, printed
from .test_dating_by_commits import committed

SCRIPT = """from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    "{}", args=SFTConfig("out", learning_rate=1e-4{}), train_dataset=load_dataset("x", split="train")
)
trainer.train()
"""
MISTRAL, GEMMA = "mistralai/Mistral-7B-v0.1", "google/gemma-2-9b-it"
PACKED = ", packing=True"


def port(folder: Path, model: str, config: str, requirements: str, launch: str, options: Options | None = None) -> Port:
    (folder / "requirements.txt").write_text(requirements)
    (folder / "run.sh").write_text(f"pip install {launch}\npython train.py\n")
    (folder / "train.py").write_text(SCRIPT.format(model, config))
    return port_file(folder / "train.py", options)


@pytest.mark.parametrize(("config", "launch"), [(PACKED, "trl==0.19.1"), ("", "trl==0.12.2")])
def test_a_release_that_trains_otherwise_is_a_warning(tmp_path: Path, config: str, launch: str) -> None:
    found = port(tmp_path, MISTRAL, config, "trl==0.12.0\n", launch).findings
    told = [each.message for each in found if "and that trains otherwise" in each.message]
    assert len(told) == bool(config)
    start = "Read as TRL 0.12.0, requirements.txt: trl==0.12.0, but run.sh asks for trl==0.19.1, and that trains otherw"
    assert all(message.startswith(start) and "0.19.1: packing puts rows together by" in message for message in told)
    passed_over = [each.severity for each in found if "goes against requirements.txt" in each.message]
    assert passed_over == ["info"] * (not config)  # said once


def test_a_release_that_is_said_is_the_only_one(tmp_path: Path) -> None:
    found = port(tmp_path, MISTRAL, PACKED, "trl==0.12.0\n", "trl==0.19.1", Options(source_trl="0.12.0")).findings
    assert not any("trains otherwise" in each.message for each in found)


@pytest.mark.parametrize(("model", "read"), [(GEMMA, "0.12.0 (run.sh: trl==0.12.0)"), (MISTRAL, "0.9.6 (requirements")])
def test_requirements_that_the_script_cannot_run_on_bound_no_command(tmp_path: Path, model: str, read: str) -> None:
    """Gemma 2 came with transformers 4.42: these requirements are another script's, and run.sh installs what runs."""
    requirements = "trl==0.9.6\ntransformers==4.40.0\n"
    found = port(tmp_path, model, "", requirements, "trl==0.12.0 transformers==4.46.0")
    assert found.recipe.versions["trl"].startswith(read), found.recipe.versions["trl"]


@pytest.mark.parametrize(("name", "newest"), [("train.py", "0.26.1"), ("train.ipynb", "0.18.2")])
def test_of_a_range_the_newest_of_the_script_s_day_is_meant(tmp_path: Path, name: str, newest: str) -> None:
    """Committed on 2025-12-15; the notebook ran on 2025-06-15."""
    text = SCRIPT.format(MISTRAL, PACKED)
    own = cell(text)
    own["metadata"] = {"executionInfo": {"timestamp": 1749988800000}}
    (tmp_path / "run.sh").write_text("pip install 'trl>=0.13'\npython train.py\n")
    held = text if name == "train.py" else notebook(own)
    found = port_file(committed(tmp_path, "2025-12-15", held, name=name, requirements_txt="trl==0.12.0\n")).findings
    (told,) = [each.message for each in found if "and that trains otherwise" in each.message]
    assert "run.sh asks for trl>=0.13" in told and told.partition(" trains otherwise. ")[2].startswith(f"{newest}: "), (
        told
    )


def warned(found: Port) -> int:
    return sum("and that trains otherwise" in each.message for each in found.findings)


@pytest.mark.parametrize(
    ("requirements", "launch"),
    [
        ("trl==0.7.4\n", "trl==0.12.0"),  # which the script can't run on
        ("trl>=0.13\n", "trl==0.12.0"),  # out of date, beside a range that is declared
    ],
)
def test_what_is_not_meant_is_no_other_release(tmp_path: Path, requirements: str, launch: str) -> None:
    assert not warned(port(tmp_path, MISTRAL, PACKED, requirements, launch))


def test_what_has_run_is_the_only_one(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.12.0\n")
    ran = cell("import trl\nprint(trl.__version__)", printed("0.19.1\n"))
    (tmp_path / "train.ipynb").write_text(notebook(ran, SCRIPT.format(MISTRAL, PACKED)))
    found = port_file(tmp_path / "train.ipynb")
    assert found.recipe.versions["trl"].startswith("0.19.1") and not warned(found)


def test_several_trainers_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.12.0\n")
    (tmp_path / "run.sh").write_text("pip install trl==0.19.1\npython train.py\n")
    text = SCRIPT.format(MISTRAL, PACKED)
    (tmp_path / "train.py").write_text(text + text.partition("\n\n")[2].replace("trainer", "second"))
    assert warned(port_file(tmp_path / "train.py")) == 1
