"""What a script's runs have left in its project dates it: cards, configs of adapters, Unsloth's written trainers."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

TRAINS = """from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

rows = load_dataset("x", split="train")
args = SFTConfig({saved})
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows, peft_config=LoraConfig(task_type="CAUSAL_LM"))
trainer.train()
"""
OF_TRL = "---\nbase_model: {}\n---\n### Framework versions\n\n- TRL: {}\n- Transformers: {}\n- Pytorch: 2.8.0+cu128\n"
OF_TRAINER = (
    "A fine-tuned version of [{}](https://huggingface.co/{}).\n\n- PEFT 0.14.0\n- Transformers 4.51.3\n- Pytorch 2.5\n"
)
OF_PEFT = "---\nbase_model: {}\nlibrary_name: peft\n---\n### Framework versions\n\n- PEFT 0.15.2\n"
QWEN, FOREIGN = "Qwen/Qwen3-0.6B", "org/another-model"


def versions(folder: Path, files: dict[str, str], *, script: str = "train.py", text: str = "") -> dict[str, str]:
    """The releases that a script is read as, in a project of these files."""
    for name, held in {**files, "requirements.txt": files.get("requirements.txt", "torch\n")}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(held)
    path = folder / script
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or TRAINS.format(saved='"outputs/sft"'))
    return dict(port_file(path).recipe.versions)


@pytest.mark.parametrize(
    ("file", "held", "trl", "transformers"),
    [
        ("outputs/sft/README.md", OF_TRL.format(QWEN, "0.25.1", "4.57.3"), "0.25.1", "4.57.3"),
        ("outputs/sft/README.md", OF_TRL.format(FOREIGN, "0.25.1", "4.57.3"), "0.25.1", "4.57.3"),  # that it saves
        ("outputs/sft/checkpoint-9/README.md", OF_PEFT.format(FOREIGN), "0.19.1", "4.53.0"),
        ("outputs/sft/README.md", OF_TRAINER.format(QWEN, QWEN), "0.17.0", "4.51.3"),
        ("outputs/dpo/README.md", OF_TRL.format(QWEN, "0.25.1", "4.57.3"), "0.25.1", "4.57.3"),  # another's, its model
        ("outputs/dpo/README.md", OF_TRL.format(FOREIGN, "0.25.1", "4.57.3"), "1.16.0", "5.12.1"),
        ("README.md", OF_TRL.format("unsloth/Qwen3-0.6B-bnb-4bit", "0.25.1", "4.57.3"), "0.25.1", "4.57.3"),
        ("outputs/sft/adapter_config.json", '{"peft_version": "0.18.0"}', "0.27.2", "4.57.3"),
        ("outputs/sft/adapter_config.json", '{"r": 8}', "1.16.0", "5.12.1"),
    ],
)
@pytest.mark.parametrize("script", ["train.py", "scripts/train.py"])
def test_a_card_dates_a_script(tmp_path: Path, file: str, held: str, trl: str, transformers: str, script: str) -> None:
    found = versions(tmp_path, {file: held}, script=script)
    assert (found["trl"].split()[0], found["transformers"].split()[0]) == (trl, transformers)


CONFIG = '{"model_type": "qwen3", "transformers_version": "4.51.3"}'
WHOLE = "from transformers import AutoTokenizer\n" + TRAINS.format(saved='"outputs/sft"') + "FETCHED = 'models/base'\n"


@pytest.mark.parametrize(
    ("files", "transformers"),
    [
        (
            {"outputs/sft/checkpoint-9/config.json": CONFIG, "outputs/sft/checkpoint-9/trainer_state.json": "{}"},
            "4.51.3",
        ),
        ({"outputs/sft/config.json": CONFIG, "outputs/sft/training_args.bin": ""}, "4.51.3"),
        ({"config.json": CONFIG}, "4.51.3"),  # beside the script, as on the Hub
        ({"models/base/config.json": CONFIG}, "5.12.1"),  # what was fetched
        ({"other/config.json": CONFIG, "other/trainer_state.json": "{}"}, "5.12.1"),  # of another script
        ({"config.json": '{"learning_rate": 1e-4}'}, "5.12.1"),
    ],
)
def test_a_config_that_a_run_has_saved_dates_it(tmp_path: Path, files: dict[str, str], transformers: str) -> None:
    assert versions(tmp_path, files, text=WHOLE)["transformers"].startswith(transformers)


FROZEN = "trl=={}\ntransformers==4.51.3\npeft==0.15.2\n"


@pytest.mark.parametrize("script", ["train.py", "src/train.py"])
def test_what_was_installed_for_a_logged_run_of_the_script_dates_it(tmp_path: Path, script: str) -> None:
    files = {}
    for run, release, program in (
        ("run-20250501_101010-aa", "0.15.2", "/x/src/train.py"),
        ("run-20250601_101010-bb", "0.17.0", "/x/src/train.py"),
        ("run-20250701_101010-cc", "0.19.1", "/x/src/grpo_train.py"),
    ):
        files[f"wandb/{run}/files/requirements.txt"] = FROZEN.format(release)
        files[f"wandb/{run}/files/wandb-metadata.json"] = f'{{"program": "{program}"}}'
    found = versions(tmp_path, files, script=script, text=WHOLE)
    assert (found["trl"].split()[0], found["transformers"].split()[0]) == ("0.17.0", "4.51.3")


def test_of_its_checkpoints_the_last_counts(tmp_path: Path) -> None:
    early, late = OF_PEFT.format(QWEN), OF_PEFT.format(QWEN).replace("0.15.2", "0.17.1")
    cards = {"outputs/sft/checkpoint-9/README.md": early, "outputs/sft/checkpoint-10/README.md": late}
    assert versions(tmp_path, cards)["peft"].startswith("0.17.1 (outputs/sft/checkpoint-10/README.md")


@pytest.mark.parametrize(
    ("requirements", "trl"),
    [
        ("trl>=0.9\n", "0.25.1"),
        ("trl==0.24.0\n", "0.24.0"),
        ("trl>=0.26\n", "1.16.0"),  # of after that run
    ],
)
def test_what_the_project_asks_for_is_stronger(tmp_path: Path, requirements: str, trl: str) -> None:
    card = OF_TRL.format(QWEN, "0.25.1", "4.57.3")
    found = versions(tmp_path, {"outputs/sft/README.md": card, "requirements.txt": requirements})
    assert found["trl"].startswith(f"{trl} (")


def test_requirements_that_it_cannot_run_on_speak_against_no_card(tmp_path: Path) -> None:
    card = OF_TRL.format(QWEN, "0.25.1", "4.57.3")
    found = versions(tmp_path, {"outputs/sft/README.md": card, "requirements.txt": "trl<0.5\ntransformers==4.40.0\n"})
    assert found["trl"].startswith("0.25.1 (outputs/sft/README.md")


def test_a_card_that_the_script_cannot_run_on_is_not_read(tmp_path: Path) -> None:
    card = OF_TRL.format(QWEN, "0.11.4", "4.45.0")
    found = versions(tmp_path, {"outputs/sft/README.md": card})
    assert found["trl"].startswith("1.16.0") and found["transformers"].startswith("5.12.1")


def test_the_settings_that_its_command_names_say_where_it_saves(tmp_path: Path) -> None:
    head = "import sys, yaml\n\nsettings = yaml.safe_load(open(sys.argv[1]))\n"
    text = head + TRAINS.format(saved='settings["output_dir"]')
    files = {
        "README.md": "python3 -m scripts.train configs/sft.yaml\n",
        "configs/sft.yaml": "output_dir: runs/sft\n",
        "runs/sft/README.md": OF_TRL.format(FOREIGN, "0.25.1", "4.57.3"),
    }
    assert versions(tmp_path, files, script="scripts/train.py", text=text)["trl"].startswith("0.25.1 (runs/sft/README")


def test_unsloths_written_trainers_date_a_script(tmp_path: Path) -> None:
    head = '"""\n2025.3.17\n2025.3.19\n4.50.0\n0.15.2\n__UNSLOTH_VERSIONING__\n"""\n'
    text = """from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/llama-3-8b", max_seq_length=512)
model = FastLanguageModel.get_peft_model(model, r=8)
rows = load_dataset("x", split="train")
SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows).train()
"""
    found = versions(tmp_path, {"unsloth_compiled_cache/UnslothSFTTrainer.py": head}, script="src/train.py", text=text)
    assert [found[name].split()[0] for name in ("unsloth", "transformers", "trl")] == ["2025.3.19", "4.50.0", "0.15.2"]
    pins = {"requirements.txt": "transformers==4.51.3\n", "uv.lock": 'name = "transformers"\nversion = "4.50.0"\n'}
    cached = {f"unsloth_compiled_cache/Unsloth{name}Trainer.py": head for name in ("SFT", "DPO")}
    locked = {"README.md": "uv run src/train.py\n", **cached, **pins}
    folder = tmp_path / "locked"
    folder.mkdir()
    found = versions(folder, locked, script="src/train.py", text=text)
    assert [found[name].split()[0] for name in ("transformers", "trl")] == ["4.50.0", "0.15.2"]
