"""Which release a script was written for: pins in the script and in the files that ask for what it needs."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.source.project.pins import _in_script
from porter.source.project.requirements import in_file

from .dated_scripts import SCRIPT


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("!pip install -q trl==0.8.6 peft", [("==", "0.8.6")]),
        ('# pip install "trl>=0.7,<0.9"', [(">=", "0.7"), ("<", "0.9")]),
        ('assert trl.__version__ == "0.8.6"', [("==", "0.8.6")]),
        ("git+https://github.com/huggingface/trl.git@v0.7.10", [("==", "0.7.10")]),
        ("git+https://github.com/huggingface/trl@v0.7.10-Some-Model", [("==", "0.8.0.dev0")]),  # on the way to the next
        ("git+https://github.com/huggingface/trl@v0.7-release", [("==", "0.7")]),
        ("git+https://github.com/huggingface/trl@1234abc", []),
        ("git+https://github.com/huggingface/trl.git@e95f9fb74a3c3647b", [(">=", "0.14.0"), ("<", "0.15.0")]),
        ("git+https://github.com/huggingface/trl.git@e95f9f", []),  # too short to be sure
        ("git+https://github.com/a-fork/trl@e95f9fb # or trl.git@e95f9fb", [(">=", "0.14.0"), ("<", "0.15.0")]),
        ('if trl.__version__ < "0.9":', []),
        ("pip install trlx==0.7", []),
        ("!pip install trl==0.7.10\n!pip install -U trl", []),
        ("!pip install trl==0.7.10\n!pip install trl peft", [("==", "0.7.10")]),
        ("!pip install trl==0.7.10\n!pip install -q trl==0.8.6", [("==", "0.8.6")]),
        ("!pip install trl==0.7.10\n!pip install -q git+https://github.com/huggingface/trl.git", []),
        ("!pip install -U trl\n!pip install trl==0.7.10", [("==", "0.7.10")]),
        ("!pip install trl==0.7.10\n!pip install -U 'some-trl-tool'", [("==", "0.7.10")]),
    ],
)
def test_a_script_pins_a_release(text: str, pins: list[tuple[str, str]]) -> None:
    assert _in_script(text, "trl") == pins


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("torch\ntrl>=0.8\n", [(">=", "0.8")]),
        ('trl = "^0.8.6"\n', [(">=", "0.8.6"), ("<", "0.9")]),
        ('trl = "^0.9.0.dev0"\n', [(">=", "0.9.0.dev0"), ("<", "0.10")]),
        ('name = "trl"\nversion = "0.9.6"\n', [("==", "0.9.6")]),
        ("  - trl=0.8.6\n", [("==", "0.8.6")]),
        ("- name: trl\n  version: 0.8.6\n", [("==", "0.8.6")]),
        ("Package      Version\n------------ -------\ntrl          0.8.6\n", [("==", "0.8.6")]),
        ("trl 0.8.6 pypi_0 pypi\n", [("==", "0.8.6")]),
        ("trl==0.8.6.dev0\n", [("==", "0.8.6.dev0")]),
        ('dependencies = [\n  "trl~=0.8.1",\n', [("~=", "0.8.1")]),
    ],
)
def test_a_file_pins_a_release(text: str, pins: list[tuple[str, str]]) -> None:
    assert in_file(text, "trl") == pins


OF_BEFORE_13 = SCRIPT.replace("train_dataset=", "max_seq_length=64, train_dataset=")
OF_2024 = SCRIPT.replace("Qwen3", "Qwen2.5")


@pytest.mark.parametrize(
    ("text", "files", "trl", "transformers"),
    [
        # a lock file tells which of a range it is
        (
            SCRIPT,
            {"requirements.txt": "trl>=0.9,<0.13\n", "uv.lock": 'name = "trl"\nversion = "0.12.1"\n'},
            "0.12.1",
            "",
        ),
        (
            SCRIPT,
            {"requirements.txt": "trl>=0.9,<0.13\n", "uv.lock": 'name = "trl"\nversion = "0.14.0"\n'},
            "0.12.2",
            "",
        ),
        (
            SCRIPT,
            {"pyproject.toml": '"trl>=0.9,<0.13"\n', "pdm.lock": '[[package]]\nname = "trl"\nversion = "0.11.4"\n'},
            "0.11.4",
            "",
        ),
        # the lock file wins that the project's own lines run on
        (
            '"""uv run train.py"""\n' + SCRIPT,
            {"requirements.txt": "trl==0.9.6\n", "uv.lock": 'name = "trl"\nversion = "0.12.1"\n'},
            "0.12.1",
            "",
        ),
        (
            SCRIPT,
            {
                "requirements.txt": "trl==0.9.6\n",
                "poetry.lock": 'name = "trl"\nversion = "0.12.1"\n',
                "README.md": "poetry run python train.py\n",
            },
            "0.12.1",
            "",
        ),
        (
            SCRIPT,
            {
                "requirements.txt": "trl==0.9.6\n",
                "uv.lock": 'name = "trl"\nversion = "0.12.1"\n',
                "README.md": "uv run x\npip install -r requirements.txt\n",
            },
            "0.9.6",
            "",
        ),
        # an accelerate alone tells the day, too
        (OF_2024, {"requirements.txt": "trl\naccelerate==0.34.2\n"}, "0.11.4", "4.45.1"),
        (SCRIPT, {"requirements.txt": "trl==0.24.0\naccelerate==0.34.2\n"}, "0.24.0", "4.57"),
        (SCRIPT, {"requirements.txt": "trl\naccelerate>=0.34.2\n"}, "1.16.0", ""),
        (SCRIPT, {"pixi.toml": "", "pixi.lock": "- kind: pypi\n  name: trl\n  version: 0.11.4\n"}, "0.11.4", ""),
        (SCRIPT, {"requirements.txt": "trl>=0.9,<0.13\n", "README.md": "pip install trl==0.11.4\n"}, "0.11.4", ""),
        # a range of transformers up to 5 holds what was out in the days of a TRL that is told by itself
        (OF_BEFORE_13, {"pyproject.toml": 'transformers = "^4.45.2"\n'}, "0.12.2", "4.46.3"),
        (SCRIPT, {"requirements.txt": "trl==0.24.0\ntransformers>=4.51,<5\n"}, "0.24.0", "4.57.6"),
        (SCRIPT, {"requirements.txt": "trl==0.18.2\ntransformers>=4.51,<5\n"}, "0.18.2", "4.52.4"),
        (SCRIPT, {"requirements.txt": "trl==0.18.2\ntransformers>=4.54,<5\n"}, "0.18.2", "4.54.0"),
        # what ends at a minor release has been tried up to there
        (SCRIPT, {"requirements.txt": "trl<0.19\ntransformers>=4.51,<4.55\n"}, "0.18.2", "4.54.1"),
        (SCRIPT, {"requirements.txt": "transformers>=4.51,<5\n"}, "0.27.2", "4.57.6"),
    ],
)
def test_a_range_holds_what_went_together(
    tmp_path: Path, text: str, files: dict[str, str], trl: str, transformers: str
) -> None:
    for name, held in files.items():
        (tmp_path / name).write_text(held)
    (tmp_path / "train.py").write_text(text)
    versions = port_file(tmp_path / "train.py").recipe.versions
    assert versions["trl"].startswith(f"{trl} (") and versions["transformers"].startswith(transformers)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-16-be"])
def test_requirements_are_read_as_pip_reads_them(encoding: str, tmp_path: Path) -> None:
    """PowerShell's `pip freeze > requirements.txt` writes UTF-16 with a byte order mark."""
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    (tmp_path / "requirements.txt").write_bytes(mark + "trl==0.11.4\r\ntransformers==4.44.2\r\n".encode(encoding))
    (tmp_path / "train.py").write_text(SCRIPT.replace("Qwen3", "Qwen2.5"))
    versions = port_file(tmp_path / "train.py").recipe.versions
    assert versions["trl"].startswith("0.11.4 (") and versions["transformers"].startswith("4.44.2 (")


def test_what_a_place_asks_for_of_another_library_is_said(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.24.0\ntransformers==4.50.0\n")
    (tmp_path / "train.py").write_text(SCRIPT)
    [said] = [each.message for each in port_file(tmp_path / "train.py").findings if "not read" in each.message]
    assert said.startswith("requirements.txt asks for trl==0.24.0 beside transformers==4.50.0, which goes against what")


OLD = """from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTTrainer

rows = load_dataset("imdb", split="train")
args = TrainingArguments("out")
SFTTrainer("huggyllama/llama-7b", args=args, train_dataset=rows, dataset_text_field="text", max_seq_length=512).train()
"""


def test_files_that_ask_for_the_same_old_release_agree(tmp_path: Path) -> None:
    """It is older than all that are known, so that the release that is read fits neither."""
    for name in ("requirements.txt", "setup.cfg", "README.md"):
        (tmp_path / name).write_text("```\npip install trl==0.4.7\n```\n" if name == "README.md" else "trl==0.4.7\n")
    (tmp_path / "train.py").write_text(OLD)
    assert port_file(tmp_path / "train.py").recipe.versions["trl"].startswith("0.7.0 (")
    assert not any("read as the first" in each.message for each in port_file(tmp_path / "train.py").findings)


def test_files_that_contradict_each_other_are_named_with_the_one_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.24.0\n")
    (tmp_path / "requirements-eval.txt").write_text("trl==0.23.0\ntransformers\n")
    (tmp_path / "environment.yml").write_text("dependencies:\n  - pip:\n    - trl==0.22.0\n    - peft\n")
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["trl>=0.20"]\n')
    (tmp_path / "train.py").write_text(SCRIPT)
    found = port_file(tmp_path / "train.py")
    said = [(each.severity, each.message) for each in found.findings if "read as the first" in each.message]
    asks = "requirements.txt asks for trl==0.24.0, requirements-eval.txt for trl==0.23.0: read as the first."
    assert said == [("info", asks)]
    [told] = [each.message for each in found.findings if "and that trains otherwise" in each.message]
    read_as = (
        "Read as TRL 0.24.0, requirements.txt: trl==0.24.0, but environment.yml asks for trl==0.22.0, and that trains"
    )
    assert told.startswith(read_as)
    assert found.recipe.versions["trl"].startswith("0.24.0 (requirements.txt")


@pytest.mark.parametrize(
    ("requirement", "version"),
    [("trl==0.11.4", "0.11.4"), ("trl<0.12", "0.11.4"), ("trl>=0.9", "1.16.0"), ("trl~=0.9.3", "0.9.6")],
)
def test_requirements_beside_the_script_date_it(tmp_path: Path, requirement: str, version: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch\n{requirement}\n")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    said = port_file(script).recipe.versions["trl"]
    assert said.split(" ")[0] == version
    assert ("requirements.txt" in said) is (version != "1.16.0")


TODAY = ("1.16.0", "(trl>=0.20)")


def test_what_stands_in_a_try_dates_nothing(tmp_path: Path) -> None:
    guarded = "try:\n    from trl import DataCollatorForCompletionOnlyLM\nexcept ImportError:\n    pass\n"
    script = tmp_path / "train.py"
    script.write_text(guarded + SCRIPT)
    assert port_file(script).recipe.versions["trl"].startswith("1.16.0")
    script.write_text("from trl import DataCollatorForCompletionOnlyLM\n" + SCRIPT)
    assert not port_file(script).recipe.versions["trl"].startswith("1.16.0")


@pytest.mark.parametrize(
    ("pins", "named"),
    [
        ("peft==0.14.0\n", "0.14.0 (requirements.txt: peft==0.14.0)"),
        ("peft==0.4.0\n", "0.5.0 (requirements.txt: peft==0.4.0, the first that is known)"),
        ("peft>=0.4\n", "0.21.2 (newest table)"),
    ],
)
def test_the_peft_of_the_project_is_named(tmp_path: Path, pins: str, named: str) -> None:
    (tmp_path / "requirements.txt").write_text(pins)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    assert port_file(path).recipe.versions["peft"] == named


def test_of_several_releases_that_are_locked_one_counts_that_the_script_can_run_on(tmp_path: Path) -> None:
    """uv locks one for each of the systems that ask for another."""
    locked = [f'[[package]]\nname = "transformers"\nversion = "{release}"\n' for release in ("4.46.3", "4.56.0")]
    (tmp_path / "uv.lock").write_text("\n".join(locked))
    for model, read in (("Qwen/Qwen3-0.6B", "4.56.0 (uv.lock"), ("Qwen/Qwen2.5-0.5B", "4.56.0 (uv.lock")):
        (tmp_path / "train.py").write_text(SCRIPT.replace("Qwen/Qwen3-0.6B", model))
        found = port_file(tmp_path / "train.py")
        assert found.recipe.versions["transformers"].startswith(read), found.recipe.versions
        assert not any("goes against" in each.message for each in found.findings)
