"""TRL's trainers that were given transformers' own arguments date a script, for the port as for its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.releases.plain_arguments import clashes, plain_arguments
from porter.releases.versions import key
from porter.validate.environments.choose import wanted_releases

PARSED = """from transformers import HfArgumentParser, TrainingArguments
from trl import DPOTrainer, ModelConfig

args, config = HfArgumentParser((TrainingArguments, ModelConfig)).parse_args_into_dataclasses()
trainer = DPOTrainer("Qwen/Qwen2.5-0.5B", args=args, beta=0.1, train_dataset=rows, tokenizer=tokenizer)
trainer.train()
"""
MADE = "from transformers import TrainingArguments\nimport trl\ntrl.DPOTrainer(model, args=TrainingArguments('out'))\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (PARSED, {"DPOTrainer": "0.9.2"}),
        (MADE, {"DPOTrainer": "0.9.2"}),
        (MADE.replace("DPO", "Reward"), {"RewardTrainer": "0.13.0"}),
        (MADE.replace("DPO", "SFT"), {}),  # takes them to this day
        (MADE.replace("TrainingArguments('out')", "trl.DPOConfig('out')"), {}),
        ("from own import DPOTrainer\nDPOTrainer(TrainingArguments())", {}),
        ("not python", {}),
    ],
)
def test_a_trainer_with_the_arguments_of_another(text: str, found: dict[str, str]) -> None:
    assert plain_arguments(text) == found


def test_the_port_and_the_environment_take_the_same_release(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PARSED)
    said = port_file(script).recipe.versions["trl"]
    wanted, _ = wanted_releases(script)
    assert said.startswith("0.8.6 ") and "DPOTrainer(args=TrainingArguments)" in said
    assert wanted is not None and wanted.pins["trl"] == "0.8.6"


def test_a_pin_that_those_releases_cant_train_with_is_let_go(tmp_path: Path) -> None:
    """transformers 4.46 took the name of a method that such a DPOTrainer has."""
    script = tmp_path / "train.py"
    script.write_text(PARSED)
    (tmp_path / "requirements.txt").write_text("transformers==4.49.0\npeft>=0.14.0\n")
    versions = port_file(script).recipe.versions
    wanted, _ = wanted_releases(script)
    assert versions["trl"].startswith("0.8.6 ") and versions["transformers"].startswith("4.39 ")
    assert wanted is not None and key(wanted.pins["transformers"]) < (4, 42) and key(wanted.pins["peft"]) < (0, 12)

    (tmp_path / "requirements.txt").write_text("transformers==4.41.2\n")
    wanted, _ = wanted_releases(script)
    assert port_file(script).recipe.versions["transformers"].startswith("4.41.2 ")
    assert wanted is not None and wanted.pins["transformers"] == "4.41.2"


@pytest.mark.parametrize(
    ("trainer", "trl", "clash"),
    [
        ("DPOTrainer", "0.11.4", "4.46.1"),
        ("ORPOTrainer", "0.9.6", "4.46.1"),
        ("DPOTrainer", "0.12.0", None),
        ("SFTTrainer", "0.11.4", None),
        ("DPOTrainer", "", None),  # with its own config, and of no day
    ],
)
def test_trainers_that_a_later_transformers_cant_train_with(trainer: str, trl: str, clash: str | None) -> None:
    config = trainer.replace("Trainer", "Config")
    assert clashes(f"from trl import {config}, {trainer}\n{trainer}(model, {config}('out')).train()\n", trl) == clash


def test_two_pins_that_cant_train_together_are_said_and_validated_of_trls_day(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = PARSED.replace("HfArgumentParser, TrainingArguments", "HfArgumentParser").replace(
        "DPOTrainer, ModelConfig", "DPOConfig, DPOTrainer, ModelConfig"
    )
    script.write_text(text.replace("(TrainingArguments,", "(DPOConfig,"))
    for trl, runs in (("0.11.4", "4.45.2"), ("0.12.0", "4.46.3")):
        (tmp_path / "requirements.txt").write_text(f"trl=={trl}\ntransformers==4.46.3\npeft==0.13.2\n")
        wanted, _ = wanted_releases(script)
        found = port_file(script)
        assert found.recipe.versions["transformers"].startswith("4.46.3 ")
        assert any("doesn't train under" in each.message for each in found.findings) is (trl == "0.11.4")
        assert wanted is not None and (wanted.pins["trl"], wanted.pins["transformers"]) == (trl, runs)
