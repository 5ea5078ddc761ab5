"""Checkpoints, log lines and trackers as the source's release had them."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options, Port

SCRIPT = """\
{imports}
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out"{config})
{between}
rows = load_dataset("some/rows", split="train")
trainer = SFTTrainer("Qwen/Qwen2.5-0.5B", args=args, train_dataset=rows)
trainer.train()
"""
OLDER = "trl==0.12.2\ntransformers==4.46.3\n"
NEWER = "trl==1.16.0\ntransformers==5.12.1\n"


def ported(folder: Path, pins: str, config: str = "", imports: str = "", between: str = "") -> Port:
    (folder / "requirements.txt").write_text(pins)
    script = SCRIPT.format(imports=imports, config=config, between=between)
    if pins.startswith("trl==0.8"):  # which has no SFTConfig
        script = script.replace("import SFTConfig, ", "import ").replace("SFTConfig", "TrainingArguments")
        script = f"from transformers import TrainingArguments\n{script}"
    (folder / "train.py").write_text(script)
    return port_file(folder / "train.py", Options(processes=1))


def says(port: Port, words: str) -> bool:
    return any(words in finding.message for finding in port.findings)


@pytest.mark.parametrize(
    ("pins", "config", "imports", "said", "trackers"),
    [
        (OLDER, "", "", True, ""),
        (NEWER, "", "", False, ""),
        (OLDER, ', report_to="none"', "", False, ""),
        (OLDER, ', report_to="tensorboard"', "", False, '["tensorboard"]'),
        (OLDER, "", "import wandb", True, '["wandb"]'),
        (OLDER, "", 'import os\nos.environ["WANDB_PROJECT"] = "x"', True, '["wandb"]'),
        (OLDER, "", 'import os\nos.environ["WANDB_DISABLED"] = "true"', False, ""),
        (OLDER, "", 'import os\nos.environ["WANDB_DISABLED"] = "false"', True, '["wandb"]'),
        (OLDER, "", 'import os\nos.environ["WANDB_MODE"] = "offline"', True, '["wandb"]'),
        (OLDER, "", 'import os\nos.environ["WANDB_MODE"] = "disabled"', False, ""),
        (NEWER, "", "import wandb", False, ""),
    ],
)
def test_trackers_that_nothing_names(
    tmp_path: Path, pins: str, config: str, imports: str, said: bool, trackers: str
) -> None:
    found = ported(tmp_path, pins, config, imports)
    assert says(found, "report_to isn't set") is said
    assert (f"rt.metrics_options({trackers}, " in found.after) if trackers else ("metrics_options" not in found.after)


@pytest.mark.parametrize(
    ("pins", "config", "said"),
    [
        (OLDER, ', save_strategy="epoch", gradient_accumulation_steps=4', "saves where"),
        (OLDER, ', save_strategy="epoch", logging_strategy="epoch", gradient_accumulation_steps=4', "saves and logs"),
        (OLDER, ', save_strategy="epoch", gradient_accumulation_steps=1', ""),
        (OLDER, ', save_strategy="steps", gradient_accumulation_steps=4', ""),
        (NEWER, ', save_strategy="epoch", gradient_accumulation_steps=4', ""),
    ],
)
def test_epochs_that_end_within_a_step(tmp_path: Path, pins: str, config: str, said: str) -> None:
    found = ported(tmp_path, pins, config)
    assert says(found, "where an epoch's rows end") is bool(said) and (not said or says(found, said))


@pytest.mark.parametrize(
    ("pins", "given"),
    [
        ("trl==0.9.6\ntransformers==4.41.2\n", ', transformers="4.41.2"'),
        ("trl==0.9.6\ntransformers==4.42.1\n", ""),
        ("trl==0.8.6\ntransformers==4.43.1\n", ', transformers="4.43.1"'),
        (OLDER, ""),
        (NEWER, ""),
    ],
)
def test_a_kept_config_is_told_the_transformers_that_saves_otherwise(tmp_path: Path, pins: str, given: str) -> None:
    found = ported(tmp_path, pins, between="print(vars(args))")
    written = "".join(found.after.split())
    assert f"rt.training_config(args,batches{given.replace(' ', '')}" in written, found.after


def test_a_kept_configs_last_step_is_saved_as_its_transformers_did() -> None:
    from types import SimpleNamespace

    from porter.runtime.arguments import trl_arguments
    from porter.runtime.saving.saving_policy import SaveOnlyEvery
    from porter.runtime.training.training_settings import training_config

    batches = SimpleNamespace(steps=10, steps_per_epoch=5, accumulation=1)
    for release, transformers, older in (
        ("0.9.6", "4.41.2", True),
        ("0.9.6", None, False),
        ("0.8.6", "4.43.1", False),
        ("0.8.6", None, True),
    ):
        args = trl_arguments(release, "SFTConfig" if release == "0.9.6" else "TrainingArguments")(output_dir="out")
        made = training_config(args, batches, transformers=transformers).checkpointing_options
        assert isinstance(made.save_decision_policy, SaveOnlyEvery) is older


def test_uneven_epochs_are_told_when_the_port_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from types import SimpleNamespace

    from porter.runtime.arguments import SFTConfig
    from porter.runtime.training.training_settings import training_config

    args = SFTConfig(output_dir="out", save_strategy="epoch")
    for uneven in (True, False):
        training_config(args, SimpleNamespace(steps=9, steps_per_epoch=3, accumulation=2, uneven_epochs=uneven))
        assert ("filled no whole steps" in capsys.readouterr().out) is uneven
