"""Documents and install scripts below a project's folders date its scripts, where nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

SCRIPT = """from datasets import load_dataset
from trl import SFTTrainer

trainer = SFTTrainer("Qwen/Qwen3-0.6B", train_dataset=load_dataset("x", split="train"))
trainer.train()
"""
TABLE = """# Stack

| layer | chosen | release |
|---|---|---|
| model | Qwen3-0.6B | - |
| trainer | TRL (SFTTrainer) | 0.24.0 |
| adapters | LoRA | PEFT 0.17.1 |
| framework | PyTorch | 2.7.1+cu128 |
| models | Hugging Face Transformers | 4.57.6 |
"""
INSTALL = "set -e\npip install --no-cache-dir transformers==4.57.6 trl==0.24.0\n"
NEWEST = ("1.16.0", "5.12.1")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"outputs/PROJECT_DOCUMENTATION.md": TABLE}, ("0.24.0", "4.57.6")),
        ({"reports/vps/install_env_vps.sh": INSTALL}, ("0.24.0", "4.57.6")),
        ({"requirements.txt": "trl==0.23.0\n", "docs/environment.md": TABLE}, ("0.23.0", "4.57.6")),
        ({"README.md": "pip install trl==0.23.0", "docs/environment.md": TABLE}, ("0.23.0", "4.57.6")),
        ({"docs/environment.md": "| trainer | TRL | 0.24.0 |\n"}, NEWEST),  # one library: a row of anything
        ({"docs/notes.md": TABLE}, NEWEST),
        ({"outputs/dpo/README.md": TABLE}, NEWEST),  # a model's card, as likely
        ({"other/environment.md": TABLE, "other/requirements.txt": "torch\n"}, NEWEST),  # another project
        ({"a/b/c/d/environment.md": TABLE}, NEWEST),
        ({"docs/environment.md": TABLE.replace("0.24.0", "0.24.0 | 0.25.0").replace("PEFT 0.17.1", "PEFT")}, NEWEST),
    ],
)
def test_what_documents_list_is_what_the_project_runs_on(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, str]
) -> None:
    for name, held in {"LICENSE": "MIT\n", **files, "src/train.py": SCRIPT}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(held)
    versions = port_file(tmp_path / "src/train.py").recipe.versions
    assert (versions["trl"].split()[0], versions["transformers"].split()[0]) == expected


def test_another_folder_that_happens_to_lie_beside_the_script_is_not_its_project(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "one/train.py").write_text(SCRIPT)
    (tmp_path / "other/environment.md").write_text(TABLE)
    assert port_file(tmp_path / "one/train.py").recipe.versions["trl"].startswith("1.16.0")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("We use trl 0.24.0 and transformers 4.57.1.", ("0.24.0", "4.57.1")),
        ("- **Framework versions**: transformers 4.57.1, trl 0.24.0,\n  peft 0.18.0 (see below)", ("0.24.0", "4.57.1")),
        (
            "Stack: **TRL 0.24.0** `SFTTrainer`; torch 2.9.0+cu130 (driver 595), Transformers v4.57",
            ("0.24.0", "4.57.6"),
        ),
        ("依赖：transformers==4.57.1、trl==0.24.0。", ("0.24.0", "4.57.1")),
        ("Needs TRL 0.24+ and transformers 4.57.1", ("0.27.2", "4.57.1")),
        ("TRL 0.24.0 has a bug with transformers 4.57.1", NEWEST),
        ("Ran on trl 0.24.0 with transformers 4.57.1, later on trl 0.25.0", NEWEST),
        ("We use TRL 0.24.0", NEWEST),  # of a sentence alone it may be anything
        ("trl 0.24.0 is what we use.\n\nThe model is trained with transformers 4.57.1", NEWEST),
    ],
)
def test_a_sentence_that_names_several_releases_tells_the_project_s(
    tmp_path: Path, told: str, expected: tuple[str, str]
) -> None:
    (tmp_path / "README.md").write_text(f"# Training\n\n{told}\n")
    (tmp_path / "train.py").write_text(SCRIPT)
    versions = port_file(tmp_path / "train.py").recipe.versions
    assert (versions["trl"].split()[0], versions["transformers"].split()[0]) == expected
