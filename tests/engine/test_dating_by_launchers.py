"""What a project's launchers install, and the files that ask for releases, date a script; and values that ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options

from .porting import port
from .test_dating import SCRIPT

MODAL = """import modal

image = modal.Image.debian_slim().pip_install("torch", "trl>=0.9.0,<0.11.0", "transformers>=4.40,<4.45")

@app.function(image=image)
def run():
    subprocess.run(["python", "{}"])
"""
SAGEMAKER = """from sagemaker.huggingface import HuggingFace

HuggingFace(entry_point="{}", source_dir=".", transformers_version="{}", pytorch_version="2.5").fit()
"""


def versions(folder: Path, files: dict[str, str]) -> dict[str, str]:
    for name, held in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(held)
    path = folder / "src" / "train.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(SCRIPT.replace("Qwen3-0.6B", "Qwen2-0.5B"))
    return dict(port_file(path).recipe.versions)


@pytest.mark.parametrize(
    ("files", "trl", "transformers"),
    [
        ({"src/launch.py": MODAL.format("train.py")}, "0.10.1 (launch.py", "4.44.2 (launch.py"),
        ({"launch.py": MODAL.format("src/train.py")}, "0.10.1 (launch.py", "4.44.2 (launch.py"),
        ({"src/launch.py": MODAL.format("evaluate.py")}, "1.16.0", "5.12.1"),
        ({"launch.py": SAGEMAKER.format("train.py", "4.49")}, "0.15.2", "4.49.0 (launch.py"),
        ({"launch.py": SAGEMAKER.format("train.py", "4.46.1")}, "0.12.2", "4.46.1 (launch.py"),
        ({"launch.py": SAGEMAKER.format("other_train.py", "4.49")}, "1.16.0", "5.12.1"),
        # what is installed into the container stands over what is in it
        (
            {"launch.py": SAGEMAKER.format("train.py", "4.49"), "requirements.txt": "transformers==4.56.2\n"},
            "0.23.1",
            "4.56.2 (requirements.txt",
        ),
    ],
)
def test_what_a_launcher_installs_dates_the_script(
    tmp_path: Path, files: dict[str, str], trl: str, transformers: str
) -> None:
    found = versions(tmp_path, files)
    assert found["trl"].startswith(trl) and found["transformers"].startswith(transformers)


def test_a_packs_cloud_makes_images_as_the_built_in_one_does(tmp_path: Path) -> None:
    pack = tmp_path / "acme"
    pack.mkdir()
    (pack / "pack.toml").write_text('name = "acme"\nversion = "1"\n\n[facts]\ngpu_keyword = ["acme_cloud"]\n')
    (tmp_path / "images.py").write_text('import acme_cloud\n\nbase = acme_cloud.Image().pip_install("trl==0.13.0")\n')
    script = tmp_path / "train.py"
    script.write_text(f"import acme_cloud\nfrom images import base\n{SCRIPT}")
    assert port_file(script, Options(rules=(pack,))).recipe.versions["trl"] == "0.13.0 (images.py: trl==0.13.0)"
    assert port_file(script).recipe.versions["trl"].startswith("1.16.0")


@pytest.mark.parametrize(
    ("file", "held"),
    [
        ("unsloth_env.yaml", "dependencies:\n  - pip:\n    - trl==0.13.0\n"),
        ("finetune_requirements.txt", "trl==0.13.0\n"),
        ("requirements.train.lock", "trl==0.13.0\n    # via -r requirements.txt\n"),
        ("requirements.in", "trl==0.13.0\n"),
        (
            "docker-compose.yml",
            'services:\n  a:\n    command: >\n      bash -c "pip install x trl==0.13.0 &&\n        y"\n',
        ),
        ("train.def", "Bootstrap: docker\n%post\n    pip install trl==0.13.0\n"),
        ("cog.yaml", 'build:\n  python_packages:\n    - "trl==0.13.0"\n'),
    ],
)
def test_files_of_other_names_ask_for_releases(tmp_path: Path, file: str, held: str) -> None:
    assert versions(tmp_path, {file: held})["trl"] == f"0.13.0 ({file}: trl==0.13.0)"


ARGUMENTS = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-0.5B")
{more}
rows = load_dataset("x", split="train")
trainer = Trainer(model, TrainingArguments("out"{given}), train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("given", "version"),
    [
        (", report_to=None", "0.27.2 (the newest release with TrainingArguments(report_to=None) (transformers 5.0"),
        (', report_to="none"', "1.16.0"),
        ("", "1.16.0"),
    ],
)
def test_a_value_that_releases_end_at_is_of_before_them(given: str, version: str) -> None:
    assert port(ARGUMENTS.format(given=given, more="")).recipe.versions["trl"].startswith(version)


@pytest.mark.parametrize(
    ("kind", "given", "pinned", "said"),
    [
        ("SFT", 'loss_type="chunked_nll"', "1.3.0", "(loss_type='chunked_nll') (new in 1.4)"),
        ("SFT", 'loss_type="chunked_nll"', "1.4.0", ""),
        ("SFT", 'packing_strategy="bfd_split"', "0.29.1", "(packing_strategy='bfd_split') (new in 1.0)"),
        ("GRPO", 'loss_type="dapo"', "0.21.0", "(loss_type='dapo') (new in 0.22)"),
        ("GRPO", 'loss_type="grpo"', "0.21.0", ""),
        ("DPO", 'loss_type="apo_zero"', "0.9.6", "(loss_type='apo_zero') (new in 0.10.1)"),
        ("GRPO", 'loss_type=loss or "dapo"', "0.21.0", ""),  # the run decides
    ],
)
def test_a_value_that_later_releases_take_is_of_them(
    tmp_path: Path, kind: str, given: str, pinned: str, said: str
) -> None:
    text = SCRIPT.replace("SFT", kind) if kind != "SFT" else SCRIPT
    (tmp_path / "train.py").write_text(text.replace('("out"', f'("out", {given}', 1))
    (tmp_path / "requirements.txt").write_text(f"trl=={pinned}\n")
    found = port_file(tmp_path / "train.py")
    against = [each.message for each in found.findings if "goes against what the script uses" in each.message]
    assert (said in against[0]) if said else not against


@pytest.mark.parametrize(
    ("more", "version"),
    [
        (
            'if not hasattr(model, "warnings_issued"):\n    model.warnings_issued = {}',
            "5.1.0 (the first release with a",
        ),
        ('if not hasattr(model, "own_notes"):\n    model.own_notes = {}', "4.57 (of the day of TRL 0.25.1)"),
        ('if hasattr(model, "warnings_issued"):\n    model.warnings_issued = {}', "4.57 (of the day of TRL 0.25.1)"),
    ],
)
def test_what_a_script_gives_back_to_its_model_is_of_after_it_went(more: str, version: str) -> None:
    """TRL 0.25 reads what transformers 5.1 has no more."""
    found = port(f"# trl==0.25.1\n{ARGUMENTS.format(given='', more=more)}")
    assert found.recipe.versions["transformers"].startswith(version)


def test_what_is_asked_for_counts_more_than_what_a_model_is_given_back() -> None:
    """A model that comes with its own code has never had it."""
    more = 'if not hasattr(model, "warnings_issued"):\n    model.warnings_issued = {}'
    found = port(f"# transformers==4.51.3\n{ARGUMENTS.format(given='', more=more)}").recipe.versions
    assert found["transformers"].startswith("4.51.3") and not found["trl"].startswith("1.16")
