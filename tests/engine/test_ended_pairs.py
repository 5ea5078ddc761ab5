"""Pins of TRL and transformers that don't train together."""

import json
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options

from .porting import port

SCRIPT = """\
# pip install trl=={trl} transformers=={transformers}
from datasets import load_dataset
from trl import {kind}Config, {kind}Trainer

rows = load_dataset("some/rows", split="train")
args = {kind}Config("out", max_steps=5)
trainer = {kind}Trainer("Qwen/Qwen2.5-0.5B", args=args, train_dataset=rows{more})
trainer.train()
"""
MORE = {"GRPO": ", reward_funcs=len", "SFT": "", "GKD": ', teacher_model="Qwen/Qwen2.5-7B"'}


def _said(kind: str, trl: str, transformers: str, before: str = "") -> list[str]:
    more = MORE.get(kind, ", tokenizer=tokenizer")
    text = before + SCRIPT.format(kind=kind, trl=trl, transformers=transformers, more=more)
    if kind == "SFT":  # whose config is newer than some of these releases
        text = text.replace("trl import SFTConfig, ", "transformers import TrainingArguments\nfrom trl import ")
        text = text.replace("SFTConfig", "TrainingArguments")
    return [found.message for found in port(text).findings if "doesn't train under" in found.message]


@pytest.mark.parametrize(
    ("kind", "trl", "transformers", "why"),
    [
        ("GRPO", "0.16.1", "4.56.0", "_get_train_sampler() takes no dataset"),
        ("GRPO", "0.15.2", "4.52.3", "_get_train_sampler() takes no dataset"),
        ("GRPO", "0.16.1", "4.51.3", ""),
        ("GRPO", "0.17.0", "4.52.3", ""),
        ("DPO", "0.11.4", "4.46.3", "another get_batch_samples()"),
        ("KTO", "0.9.6", "4.48.0", "another get_batch_samples()"),
        ("ORPO", "0.11.4", "4.45.2", ""),
        ("CPO", "0.12.2", "4.47.0", "log() takes no start_time"),
        ("DPO", "0.12.2", "4.46.3", ""),
        ("DPO", "0.13.0", "4.47.0", ""),
        ("GKD", "0.11.4", "4.46.3", "takes no num_items_in_batch"),
        ("SFT", "0.7.11", "4.39.0", "top_k_top_p_filtering"),
        ("SFT", "0.8.6", "4.41.2", ""),
        ("SFT", "0.11.4", "4.46.3", ""),
    ],
)
def test_a_pair_that_ends_is_said(kind: str, trl: str, transformers: str, why: str) -> None:
    found = _said(kind, trl, transformers)
    assert len(found) == bool(why)
    assert all(why in message for message in found)


def test_a_release_that_nothing_pins_is_no_pair() -> None:
    text = SCRIPT.replace(" transformers=={transformers}", "")
    text = text.format(kind="GRPO", trl="0.16.1", more=MORE["GRPO"])
    assert not any("doesn't train under" in found.message for found in port(text).findings)


def test_unsloth_writes_its_trainers_itself() -> None:
    assert _said("GRPO", "0.16.1", "4.56.0", "import unsloth\n") == []


TABLE = {
    "output_type": "display_data",
    "data": {"text/html": ["<th>Step</th>", "<th>Training Loss</th>"]},
    "metadata": {},
}
RESULT = {"output_type": "stream", "name": "stdout", "text": ["TrainOutput(global_step=5, training_loss=2.1)"]}
OTHER = {"output_type": "stream", "name": "stdout", "text": ["Training Loss"]}


@pytest.mark.parametrize(
    ("output", "source_trl", "severity"),
    [(TABLE, "", "error"), (RESULT, "", "error"), (OTHER, "", "warning"), (TABLE, "0.16.1", "warning")],
)
def test_a_notebook_that_has_trained_ran_on_others(
    tmp_path: Path, output: dict[str, object], source_trl: str, severity: str
) -> None:
    code = SCRIPT.format(kind="GRPO", trl="0.16.1", transformers="4.56.0", more=MORE["GRPO"])
    code = code.replace("# pip", "!pip")
    cell = {"cell_type": "code", "metadata": {}, "execution_count": 1, "outputs": [output], "source": code}
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    found = port_file(path, Options(source_trl=source_trl or None)).findings
    (said,) = [each for each in found if "doesn't train under" in each.message]
    assert said.severity == severity and ("it ran on others" in said.message) is (severity == "error")
    assert said.message.endswith("the port trains.") is (severity == "warning")
